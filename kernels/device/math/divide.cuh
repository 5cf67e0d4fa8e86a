/*
 * Division by a divisor that the host prepared (kernels/shared/divider.h), without a division on
 * the device.
 *
 * A kernel's index arithmetic has two widths: uint32_t if dividend and divisor are below 2^31, and
 * 64 bits for dividends from 0 to 2^63 - 1.
 */
#ifndef CUSHIM_KERNELS_DIVIDE_CUH
#define CUSHIM_KERNELS_DIVIDE_CUH

#include "kernels/device/device.cuh"
#include "kernels/shared/divider.h"

DEVICE uint32_t divide(uint32_t dividend, const struct cushim_divider &divider) {
    return (__umulhi(dividend, divider.magic_small) + dividend) >> divider.shift;
}

DEVICE uint64_t divide(uint64_t dividend, const struct cushim_divider &divider) {
    return (__umul64hi(dividend, divider.magic) + dividend) >> divider.shift;
}

DEVICE int64_t divide(int64_t dividend, const struct cushim_divider &divider) {
    return (int64_t)divide((uint64_t)dividend, divider);
}

#endif
