/*
 * Fibers: flows of control with their own stacks, on one thread of the machine.
 *
 * A fiber runs until it switches; nothing interrupts it.  Stacks have a page without access below
 * them and are kept for later fibers.
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

/* Make a fiber that calls `entry` at the first switch to it; `entry` never returns. */
void fiber_begin(Fiber *fiber, void (*entry)());

/* Return the stack of a fiber that does not run. */
void fiber_end(Fiber *fiber);

/* `from` is the running fiber; if is_last, it never runs again. */
void fiber_switch(Fiber *from, Fiber *to, bool is_last);

/* The first thing that a fiber does; `from` is the fiber that switched to it. */
void fiber_arrived(Fiber *self, Fiber *from);

} // namespace emulated

#endif
