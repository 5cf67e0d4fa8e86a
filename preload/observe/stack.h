/* A call stack of the program as a page keeps it: files and offsets, for which others can find
 * names. */
#ifndef CUSHIM_PRELOAD_STACK_H
#define CUSHIM_PRELOAD_STACK_H

#include "base/backtrace.h"
#include "report/page.h"

/* Describe the frames from the first one of the program on; returns their number, at most `most`.
 */
unsigned cushim_stack_describe(const struct cushim_backtrace *stack,
                               struct cushim_page_frame frames[], unsigned most);

#endif
