/*
 * The futex calls of a program linked with -Wl,--wrap=syscall: sleeps and wakes are counted, and a
 * test may turn time-outs off, so that only a wake ends a sleep.
 */
#pragma once

#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>

static atomic_bool futex_has_timeouts = true;
static atomic_uint futex_n_waits, futex_n_wakes;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Passes futex and membarrier(2) calls, whose arguments fit. */
long __wrap_syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    void *word = va_arg(rest, void *);
    int operation = va_arg(rest, int);
    unsigned value = va_arg(rest, unsigned);
    void *end = va_arg(rest, void *);
    void *other_word = va_arg(rest, void *);
    unsigned bits = va_arg(rest, unsigned);
    va_end(rest);
    if (number == SYS_futex && (operation & FUTEX_CMD_MASK) == FUTEX_WAKE)
        atomic_fetch_add(&futex_n_wakes, 1);
    if (number == SYS_futex && (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
        atomic_fetch_add(&futex_n_waits, 1);
        if (!atomic_load(&futex_has_timeouts))
            end = NULL;
    }
    return __real_syscall(number, word, operation, value, end, other_word, bits);
}
