/*
 * A call stack: the place in the program that allocated or freed a block.
 *
 * The addresses are taken at that moment and named only when they are printed.  The innermost
 * frames belong to the object that contains this code, and are left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    CUSHIM_BACKTRACE_NATIVE = 24, /* frames of compiled code at most */
    CUSHIM_BACKTRACE_FRAMES = 32,
    CUSHIM_BACKTRACE_FRAME_BYTES = 192
};

/* All zero is empty. */
struct cushim_backtrace {
    int n_frames;
    void *frames[CUSHIM_BACKTRACE_FRAMES];
};

/* The caller's stack, the innermost frame first.  The first call of a process allocates. */
void cushim_backtrace_take(struct cushim_backtrace *stack);

/* Takes stacks from now on, if it is not NULL (preload/observe/stack.h). */
typedef void cushim_backtrace_taker_fn(struct cushim_backtrace *stack);
extern _Atomic(cushim_backtrace_taker_fn *) cushim_backtrace_taker;

/* Frames of compiled code alone, whoever takes the others. */
void cushim_backtrace_native(struct cushim_backtrace *stack);

static inline bool cushim_backtrace_is_empty(const struct cushim_backtrace *stack) {
    return stack->n_frames == 0;
}

/* The first frame of the program; 0 if there is none. */
int cushim_backtrace_first(const struct cushim_backtrace *stack);

/* One frame as text: "file(function+0x12) [0x1234]".  Cut if it is too long. */
void cushim_backtrace_text(const struct cushim_backtrace *stack, int frame,
                           char text[CUSHIM_BACKTRACE_FRAME_BYTES]);
