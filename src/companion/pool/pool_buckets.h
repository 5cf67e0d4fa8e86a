/*
 * The buckets of a cache: its idle blocks by size (parts: pool_internal.h), in a hash table with
 * open addressing.  All with the cache's lock.
 */
#ifndef CUSHIM_COMPANION_POOL_BUCKETS_H
#define CUSHIM_COMPANION_POOL_BUCKETS_H

#include <stddef.h>

struct cushim_pool_block;

/* Idle blocks of a bucket, the newest first, by utlist.h; a line of its own, which a hit and a free
 * write. */
struct cushim_pool_bucket {
    _Alignas(64) size_t bucket_bytes; /* 0: nobody's yet, or the loose one's, of any */
    size_t n;
    size_t n_most; /* that a free need not look after */
    struct cushim_pool_block *newest;
};

/* All zero is empty. */
struct cushim_pool_buckets {
    struct cushim_pool_bucket *table; /* NULL: none yet */
    unsigned log2_table;
    unsigned n;                      /* in use */
    struct cushim_pool_bucket loose; /* of all buckets, for want of host memory */
};

/* The bucket of a size, or NULL. */
struct cushim_pool_bucket *cushim_pool_buckets_find(const struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes);

/* A new bucket for a size that has none; where there is no memory for it, the loose one.  Buckets
 * found before may be gone. */
struct cushim_pool_bucket *cushim_pool_buckets_make(struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes, size_t n_most);

/* The bucket after another, NULL: the first; the loose one is the last. */
struct cushim_pool_bucket *cushim_pool_buckets_next(struct cushim_pool_buckets *buckets,
                                                    const struct cushim_pool_bucket *bucket);

/* No buckets, whatever is in them. */
void cushim_pool_buckets_clear(struct cushim_pool_buckets *buckets);

#endif
