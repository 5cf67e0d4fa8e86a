/*
 * Philox4x32-10, a generator of random words from a key and a counter: J. K. Salmon, M. A. Moraes,
 * R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC '11.  The multipliers
 * and the steps of the key are from that paper.
 */
#ifndef CUSHIM_KERNELS_PHILOX_CUH
#define CUSHIM_KERNELS_PHILOX_CUH

#include "kernels/device/device.cuh"

/* The first of the four words for the counter (low, high of i, 0, 0). */
DEVICE uint32_t philox_word(uint64_t i, uint32_t key_low, uint32_t key_high) {
    uint32_t c0 = (uint32_t)i, c1 = (uint32_t)(i >> 32), c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c0, product2 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product2 >> 32) ^ c1 ^ key_low;
        c1 = (uint32_t)product2;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key_high;
        c3 = (uint32_t)product0;
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
    return c0;
}

#endif
