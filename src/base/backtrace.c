#include "base/backtrace.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#pragma weak backtrace /* other C libraries lack it, and must load the preload all the same */

_Atomic(cushim_backtrace_taker_fn *) cushim_backtrace_taker;

void cushim_backtrace_native(struct cushim_backtrace *stack) {
    stack->n_frames = backtrace ? backtrace(stack->frames, CUSHIM_BACKTRACE_NATIVE) : 0;
}

void cushim_backtrace_take(struct cushim_backtrace *stack) {
    cushim_backtrace_taker_fn *taker =
        atomic_load_explicit(&cushim_backtrace_taker, memory_order_acquire);
    (taker ? taker : cushim_backtrace_native)(stack);
}

/* Is the address in the object that contains this function? */
static bool is_own(void *address) {
    static const char place_in_this_object;
    Dl_info own, other;
    return dladdr(&place_in_this_object, &own) && dladdr(address, &other) &&
           own.dli_fbase == other.dli_fbase;
}

int cushim_backtrace_first(const struct cushim_backtrace *stack) {
    enum { DEPTH = 12 }; /* a library of the driver's may be between two of ours */
    int first = 0;
    for (int i = 0; i < stack->n_frames && i < DEPTH; i++) {
        if (is_own(stack->frames[i]))
            first = i + 1;
    }
    return first < stack->n_frames ? first : 0;
}

void cushim_backtrace_text(const struct cushim_backtrace *stack, int frame,
                           char text[CUSHIM_BACKTRACE_FRAME_BYTES]) {
    void *address = stack->frames[frame];
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        snprintf(text, CUSHIM_BACKTRACE_FRAME_BYTES, "[%p]", address);
    else if (info.dli_sname)
        snprintf(text, CUSHIM_BACKTRACE_FRAME_BYTES, "%s(%s+0x%zx) [%p]", info.dli_fname,
                 info.dli_sname, (size_t)((char *)address - (char *)info.dli_saddr), address);
    else
        snprintf(text, CUSHIM_BACKTRACE_FRAME_BYTES, "%s(+0x%zx) [%p]", info.dli_fname,
                 (size_t)((char *)address - (char *)info.dli_fbase), address);
}
