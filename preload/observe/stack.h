/* A stack of the program, as a page keeps it: files and offsets, which others can name. */
#ifndef CUSHIM_PRELOAD_STACK_H
#define CUSHIM_PRELOAD_STACK_H

#include "base/backtrace.h"
#include "report/page.h"

/* Describe its frames from the first one that is the program's; returns how many, at most `most`.
 */
unsigned cushim_stack_describe(const struct cushim_backtrace *stack,
                               struct cushim_page_frame frames[], unsigned most);

#endif
