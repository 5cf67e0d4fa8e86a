#include "kernels/tests/emulator/fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulated {

enum : size_t { STACK_BYTES = 256 * 1024, COLOUR_BYTES = 192, N_COLOURS = 64 };

/* Never freed, because static objects may end before the last kernel does. */
static std::vector<Stack> &spare_stacks() {
    static auto *stacks = new std::vector<Stack>;
    return *stacks;
}

static Stack obtain_stack() {
    std::vector<Stack> &spare = spare_stacks();
    if (!spare.empty()) {
        Stack stack = spare.back();
        spare.pop_back();
        return stack;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *place = mmap(nullptr, page + STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (place == MAP_FAILED || mprotect(place, page, PROT_NONE) != 0) {
        perror("emulator: no stack for a thread");
        abort();
    }
    /* tops lie at different distances from a page, because those of a block would otherwise
     * share few cache lines */
    static unsigned n_stacks;
    return {(char *)place + page, STACK_BYTES - n_stacks++ % N_COLOURS * COLOUR_BYTES};
}

#if defined(__x86_64__)

/*
 * Registers that a call preserves are kept on the stack.  All fibers have the same modes of
 * arithmetic: a fiber that changes them changes them back before it waits.
 */
asm(".text\n"
    ".type emulated_fiber_swap, @function\n"
    "emulated_fiber_swap:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size emulated_fiber_swap, . - emulated_fiber_swap\n");
extern "C" void emulated_fiber_swap(void **save, void *load);

static void prepare(Fiber *fiber, void (*entry)()) {
    enum { N_SAVED = 6 };
    void **top = (void **)(fiber->stack.low + fiber->stack.n_bytes);
    *--top = nullptr; /* to which entry would return */
    *--top = (void *)entry;
    for (int i = 0; i < N_SAVED; i++)
        *--top = nullptr;
    fiber->stack_pointer = top;
}

static void swap(Fiber *from, Fiber *to) {
    emulated_fiber_swap(&from->stack_pointer, to->stack_pointer);
}

#else

#include <ucontext.h>

/* The context lies at the low end of the stack. */
static void prepare(Fiber *fiber, void (*entry)()) {
    ucontext_t *context = new ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = fiber->stack.low;
    context->uc_stack.ss_size = fiber->stack.n_bytes;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    fiber->stack_pointer = context;
}

static void swap(Fiber *from, Fiber *to) {
    if (!from->stack_pointer)
        from->stack_pointer = new ucontext_t;
    swapcontext((ucontext_t *)from->stack_pointer, (ucontext_t *)to->stack_pointer);
}

#endif

void fiber_begin(Fiber *fiber, void (*entry)()) {
    fiber->stack = obtain_stack();
    prepare(fiber, entry);
}

void fiber_end(Fiber *fiber) {
    spare_stacks().push_back(fiber->stack);
#if !defined(__x86_64__)
    delete (ucontext_t *)fiber->stack_pointer;
#endif
    *fiber = Fiber();
}

#ifdef __SANITIZE_ADDRESS__

void fiber_switch(Fiber *from, Fiber *to, bool is_last) {
    __sanitizer_start_switch_fiber(is_last ? nullptr : &from->fake_stack, to->stack.low,
                                   to->stack.n_bytes);
    swap(from, to);
    __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
}

/* The bounds of the machine's own stack are learnt from the first fiber to which it switches. */
void fiber_arrived(Fiber *self, Fiber *from) {
    const void *low;
    size_t n_bytes;
    __sanitizer_finish_switch_fiber(self->fake_stack, &low, &n_bytes);
    from->stack = {(char *)low, n_bytes};
}

#else

void fiber_switch(Fiber *from, Fiber *to, bool) {
    swap(from, to);
}

void fiber_arrived(Fiber *, Fiber *) {
}

#endif

} // namespace emulated
