/*
 * Division by a number that the host knows, as a multiplication and a shift on the device
 * (kernels/device/math/divide.cuh).  It is exact for dividends from 0 to 2^63 - 1, and in the small
 * form for dividends and divisors below 2^31.
 *
 * Let s be the least number with 2^s >= by, and magic = floor(2^64 (2^s - by) / by) + 1.  Then n /
 * by = (high word of magic * n, plus n) >> s.  The small form has 32 for 64.
 */
#ifndef CUSHIM_KERNELS_DIVIDER_H
#define CUSHIM_KERNELS_DIVIDER_H

#include <stdint.h>

/* Passed to kernels by value. */
struct cushim_divider {
    int64_t by;
    uint64_t magic;
    uint32_t magic_small, shift;
};

/* For by >= 1. */
static inline struct cushim_divider cushim_divider_of(int64_t by) {
    struct cushim_divider divider = {by, 0, 0, 0};
    while ((uint64_t)1 << divider.shift < (uint64_t)by)
        divider.shift++;
    uint64_t beyond = ((uint64_t)1 << divider.shift) - (uint64_t)by;
    __extension__ unsigned __int128 wide = beyond;
    divider.magic = (uint64_t)((wide << 64) / (uint64_t)by) + 1;
    if (by <= INT32_MAX)
        divider.magic_small = (uint32_t)((beyond << 32) / (uint64_t)by) + 1;
    return divider;
}

#endif
