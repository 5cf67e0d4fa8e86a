/* Whole-number helpers: rounding, powers of two, a hash.  None of them overflows silently. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t cushim_least(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t cushim_most(size_t a, size_t b) {
    return a > b ? a : b;
}

/* a - b, or 0 if that is negative. */
static inline size_t cushim_less(size_t a, size_t b) {
    return a > b ? a - b : 0;
}

static inline uint64_t cushim_distance(uint64_t a, uint64_t b) {
    return a < b ? b - a : a - b;
}

/* For qsort: the smaller number first. */
static inline int cushim_order(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

/* The same by the number with which each element begins. */
static inline int cushim_by_number(const void *one, const void *other) {
    return cushim_order(*(const uint64_t *)one, *(const uint64_t *)other);
}

/* The largest k with 2^k <= x; x > 0. */
static inline unsigned cushim_log2_floor(uint64_t x) {
    return 63u - (unsigned)__builtin_clzll(x);
}

/* The smallest multiple of step (a power of two) that is >= x; false if it would not fit. */
static inline bool cushim_round_up(size_t x, size_t step, size_t *out) {
    size_t sum;
    if (__builtin_add_overflow(x, step - 1, &sum))
        return false;
    *out = sum & ~(step - 1);
    return true;
}

/* The same for an x that leaves room for it. */
static inline size_t cushim_rounded(size_t x, size_t step) {
    return (x + (step - 1)) & ~(step - 1);
}

static inline bool cushim_is_aligned(uint64_t x, uint64_t step) {
    return (x & (step - 1)) == 0;
}

/* A place in a table of 2^log2_n (1 to 63), made from all bits of x, so that neighbours and
 * multiples of a step end up apart (Fibonacci hashing: the factor is 2^64 divided by the golden
 * ratio). */
static inline size_t cushim_hash(uint64_t x, unsigned log2_n) {
    return (size_t)(x * 0x9e3779b97f4a7c15u >> (64 - log2_n));
}
