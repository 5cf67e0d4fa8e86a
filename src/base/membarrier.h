/*
 * membarrier(2): every running thread of the process passes a full memory barrier.
 *
 * In a protocol with a frequent and a rare side, the frequent side then needs no fence of its own.
 * The kernel is asked once whether it supports this.
 */
#pragma once

#include <stdbool.h>

/* Ask the kernel for it, once per process.  This takes microseconds while the process has one
 * thread, ten milliseconds later.  Each thread that asks gets the same answer. */
bool cushim_membarrier_ask(void);

/* Make all threads pass it, if the kernel granted it.  False: they did not, because a sandbox
 * forbids it now. */
bool cushim_membarrier_pass(void);

/* Did this thread come under a seccomp filter since the kernel was asked?  Such a filter may kill a
 * thread that calls membarrier(2), so a guest must not call it. */
bool cushim_membarrier_is_judged(void);
