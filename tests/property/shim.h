/* The shim's counts of calls from libcushim*.so. */
#pragma once

struct shim_counts {
    unsigned long n_mutexes, n_rwlocks, n_yields;
};

/* Weak in a program: NULL if the shim is not preloaded. */
void shim_begin(void) __attribute__((weak));
void shim_end(struct shim_counts *counts) __attribute__((weak));
