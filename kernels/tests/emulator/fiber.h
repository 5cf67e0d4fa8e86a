/*
 * Fibers: flows of control with stacks of their own, on one thread of the machine.
 *
 * A fiber runs until it switches; there is nothing behind its back.  Stacks have a page without
 * access below them and are kept for later fibers.
 */
#ifndef CUSHIM_EMULATOR_FIBER_H
#define CUSHIM_EMULATOR_FIBER_H

#include <stddef.h>

namespace emulated {

struct Stack {
    char *low; /* above the page without access */
    size_t n_bytes;
};

struct Fiber {
    void *stack_pointer = nullptr; /* while it does not run */
    Stack stack = {};
#ifdef __SANITIZE_ADDRESS__
    void *fake_stack = nullptr;
#endif
};

/* One that calls `entry` when it is first switched to; `entry` never returns. */
void fiber_begin(Fiber *fiber, void (*entry)());

/* Its stack goes back; it is not the running one. */
void fiber_end(Fiber *fiber);

/* `from` is the running one; is_last: it never runs again. */
void fiber_switch(Fiber *from, Fiber *to, bool is_last);

/* The first thing that a fiber does: `from` is who switched to it. */
void fiber_arrived(Fiber *self, Fiber *from);

} // namespace emulated

#endif
