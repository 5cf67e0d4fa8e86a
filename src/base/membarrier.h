/*
 * membarrier(2): every running thread of the process passes a full memory barrier.
 *
 * In a protocol with a frequent and a rare side the frequent side then needs no fence of its own.
 * The kernel is asked once whether it supports this.
 */
#ifndef CUSHIM_BASE_MEMBARRIER_H
#define CUSHIM_BASE_MEMBARRIER_H

#include <stdbool.h>

/* Ask the kernel for it, once a process: microseconds while that has one thread, ten milliseconds
 * later.  Each thread that asks gets the same answer. */
bool cushim_membarrier_ask(void);

/* Pass it, where the kernel granted it; false: they do not, for a sandbox forbids it since. */
bool cushim_membarrier_pass(void);

/* Did this thread come under a seccomp filter since the kernel was asked?  Such a filter may kill
 * who calls membarrier(2), so a guest does without. */
bool cushim_membarrier_is_judged(void);

#endif
