/* Random numbers for the benchmarks: the same in every run and for every allocator. */
#pragma once

#include <stdint.h>

/* splitmix64: any state is valid. */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* 0 .. n-1 */
static inline uint64_t random_below(uint64_t *state, uint64_t n) {
    return random_next(state) % n;
}

/* 0 <= x < 1 */
static inline double random_share(uint64_t *state) {
    return (double)(random_next(state) >> 11) / 9007199254740992.0;
}
