/*
 * The bucket of a request: the size to which a pool rounds it, by its policy.
 *
 * FINE wastes at most an eighth, and POW2 at most a half.  Each slot is a multiple of 512 bytes
 * whatever the bucket is, because that is the grain of memory/layout/sizeclass.h.
 */
#ifndef CUSHIM_COMPANION_POOL_ROUND_H
#define CUSHIM_COMPANION_POOL_ROUND_H

#include "cushim/pool.h"
#include "memory/provider/provider.h"

/* Above 128 KiB, no bucket is so large that fewer of its blocks share a page than without rounding.
 * Two blocks of 704 KiB fit into a page of the driver, but three of 682.5 KiB. */
static inline size_t cushim_pool_round_within_page(size_t bytes, size_t bucket) {
    enum { PAGE_BYTES = CUSHIM_MEM_NATIVE_PAGE_BYTES };
    if (bytes <= PAGE_BYTES / 16)
        return bucket;
    size_t n_blocks = PAGE_BYTES / cushim_rounded(bytes, CUSHIM_MEM_GRAIN_BYTES);
    size_t most_bytes = PAGE_BYTES / n_blocks / CUSHIM_MEM_GRAIN_BYTES * CUSHIM_MEM_GRAIN_BYTES;
    return bucket < most_bytes ? bucket : most_bytes;
}

/* The bucket of 0 to 2^63-1 bytes; 0 for 0. */
static inline size_t cushim_pool_round(const struct cushim_pool_options *options, size_t bytes) {
    if (!bytes || options->policy == CUSHIM_POOL_POLICY_EXACT)
        return bytes;
    if (options->policy == CUSHIM_POOL_POLICY_POW2)
        return bytes <= 256 ? bytes : (size_t)2 << cushim_log2_floor(bytes - 1);
    if (bytes <= CUSHIM_MEM_PAGE_BYTES)
        return cushim_rounded(bytes, CUSHIM_MEM_GRAIN_BYTES);
    if (bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES)
        return cushim_rounded(bytes, CUSHIM_MEM_LARGE_GRAIN_BYTES);
    unsigned log2_steps = options->steps == 16 ? 4 : 3;
    size_t step = (size_t)1 << (cushim_log2_floor(bytes - 1) - log2_steps);
    step = step > CUSHIM_MEM_GRAIN_BYTES ? step : CUSHIM_MEM_GRAIN_BYTES;
    return cushim_pool_round_within_page(bytes, cushim_rounded(bytes, step));
}

#endif
