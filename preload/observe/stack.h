/*
 * Call stacks of the program: in a thread that runs Python, the frames of compiled code up to the
 * interpreter's and then the lines of Python; in others the frames of compiled code.
 *
 * A thread keeps the last stacks.  A stack of compiled code is one of these if each return address
 * still is in the word where it was found: the word of the first is given by our own place on the
 * stack, and a frame's own by that of the frame before.  So the unwinder, which takes 150 ns a
 * frame and more, is asked for new stacks alone.  If no frame is the interpreter's, from the start
 * of the thread on, nobody looks for lines of Python, which may take a system call.
 */
#pragma once

#include "base/backtrace.h"
#include "report/page.h"

/* Take the stacks of this process so from now on, with lines of Python or without; only the first
 * call counts. */
void cushim_stack_begin(bool has_lines);

/* In a forked child. */
void cushim_stack_in_child(void);

/* The number of frames without those that nobody wrote: the C library's, which call main or the
 * thread's function, and the program's first code, which calls these. */
int cushim_stack_end(const struct cushim_backtrace *stack);

/* A call stack as a page keeps it: files and offsets, for which others can find names.  Describe
 * the frames from the first one of the program on; returns their number, at most `most`. */
unsigned cushim_stack_describe(const struct cushim_backtrace *stack,
                               struct cushim_page_frame frames[], unsigned most);

/* One frame as text, cut if it is too long: "function  FILE:12" of Python, or as
 * cushim_backtrace_text. */
void cushim_stack_text(const struct cushim_backtrace *stack, int i,
                       char text[CUSHIM_BACKTRACE_FRAME_BYTES]);
