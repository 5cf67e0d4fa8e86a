/*
 * Buckets of pools: the size that a request is rounded to, by policy (COMPANION 2.9), and those of
 * a cache, its idle blocks by size (parts: pool_internal.h).
 *
 * FINE and POW2 waste at most an eighth and a half; all slots are multiples of 512 bytes whatever
 * the bucket says, since that is the grain of memory/layout/sizeclass.h.  What says so is pure.
 * The rest is with the cache's lock.
 */
#ifndef CUSHIM_COMPANION_POOL_BUCKETS_H
#define CUSHIM_COMPANION_POOL_BUCKETS_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/bits.h"
#include "cushim/pool.h"
#include "memory/layout/sizeclass.h"
#include "memory/provider/provider.h"

/* Above 128 KiB a bucket ends where fewer of its blocks than natively would share a page of the
 * driver's: two of 704 KiB instead of three of 682.5. */
static inline size_t cushim_pool_round_within_page(size_t bytes, size_t bucket) {
    enum { PAGE_BYTES = CUSHIM_MEM_NATIVE_PAGE_BYTES };
    if (bytes <= PAGE_BYTES / 16)
        return bucket;
    size_t n_blocks = PAGE_BYTES / cushim_rounded(bytes, CUSHIM_MEM_GRAIN_BYTES);
    size_t most_bytes = PAGE_BYTES / n_blocks / CUSHIM_MEM_GRAIN_BYTES * CUSHIM_MEM_GRAIN_BYTES;
    return bucket < most_bytes ? bucket : most_bytes;
}

/* The bucket of 0 .. 2^63-1 bytes; 0 of 0. */
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

/* ---- of a cache ---- */

struct cushim_pool_block;

/* Idle blocks of a bucket, the newest first, by <utlist.h>; a hit and a free write its first line.
 */
struct cushim_pool_bucket {
    _Alignas(64) size_t bucket_bytes; /* 0: the loose one's, of any */
    size_t n;
    size_t n_most; /* that a free need not look after */
    struct cushim_pool_block *newest;
    UT_hash_handle hh;
};

/* All zero is empty. */
struct cushim_pool_buckets {
    struct cushim_pool_bucket *table; /* by <uthash.h> */
    unsigned n_made;                  /* since those that were empty went */
    struct cushim_pool_bucket loose;  /* of all buckets, for want of host memory */
};

static inline unsigned cushim_pool_buckets_hash(size_t bucket_bytes) {
    return (unsigned)cushim_hash(bucket_bytes, 32);
}

/* The bucket of a size, or NULL. */
static inline struct cushim_pool_bucket *
cushim_pool_buckets_find(const struct cushim_pool_buckets *buckets, size_t bucket_bytes) {
    struct cushim_pool_bucket *bucket;
    HASH_FIND_BYHASHVALUE(hh, buckets->table, &bucket_bytes, sizeof bucket_bytes,
                          cushim_pool_buckets_hash(bucket_bytes), bucket);
    return bucket;
}

/* A new bucket for a size that has none; where there is no memory for it, the loose one.  Empty
 * buckets found before may be gone. */
struct cushim_pool_bucket *cushim_pool_buckets_make(struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes, size_t n_most);

/* The bucket after another, NULL: the first; the loose one is the last. */
struct cushim_pool_bucket *cushim_pool_buckets_next(struct cushim_pool_buckets *buckets,
                                                    const struct cushim_pool_bucket *bucket);

/* No buckets, whatever is in them. */
void cushim_pool_buckets_clear(struct cushim_pool_buckets *buckets);

#endif
