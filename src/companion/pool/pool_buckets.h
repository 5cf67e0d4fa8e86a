/*
 * The buckets of a cache: its idle blocks by size (parts: pool_internal.h), in a hash table with
 * open addressing.
 *
 * Buckets are changed under the cache's lock.  Their counts are read without it, so that a free
 * looks through all caches and no thread loses the ownership of its cache by that.  A table that
 * was outgrown therefore stays for late readers, as caches do; all of a cache's old tables are
 * together as large as the last one.
 */
#ifndef CUSHIM_COMPANION_POOL_BUCKETS_H
#define CUSHIM_COMPANION_POOL_BUCKETS_H

#include <stdatomic.h>
#include <stddef.h>

struct cushim_pool_block;
struct cushim_pool_bucket_table;

/* Idle blocks of a bucket, the newest first; a line of its own, which a hit and a free write. */
struct cushim_pool_bucket {
    _Alignas(64) atomic_size_t bucket_bytes; /* 0: nobody's yet, or the loose one's, of any */
    atomic_size_t n;
    size_t n_most; /* that a free need not look after */
    struct cushim_pool_block *newest, *oldest;
};

/* All zero is empty. */
struct cushim_pool_buckets {
    _Atomic(struct cushim_pool_bucket_table *) table; /* NULL: none yet */
    unsigned n;                                       /* in use */
    struct cushim_pool_bucket loose;                  /* of all buckets, for want of host memory */
};

static inline size_t cushim_pool_bucket_bytes(const struct cushim_pool_bucket *bucket) {
    return atomic_load_explicit(&bucket->bucket_bytes, memory_order_relaxed);
}

static inline size_t cushim_pool_bucket_count(const struct cushim_pool_bucket *bucket) {
    return atomic_load_explicit(&bucket->n, memory_order_relaxed);
}

/* The bucket of a size, or NULL; with the cache's lock, or to count alone. */
struct cushim_pool_bucket *cushim_pool_buckets_find(const struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes);

/* How many blocks of a bucket there are at the moment; no lock. */
static inline size_t cushim_pool_buckets_count(const struct cushim_pool_buckets *buckets,
                                               size_t bucket_bytes) {
    const struct cushim_pool_bucket *bucket = cushim_pool_buckets_find(buckets, bucket_bytes);
    return bucket ? cushim_pool_bucket_count(bucket) : 0;
}

/* ---- all with the cache's lock ---- */

/* A new bucket for a size that has none; where there is no memory for it, the loose one.  Buckets
 * found before may be outgrown. */
struct cushim_pool_bucket *cushim_pool_buckets_make(struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes, size_t n_most);

/* The bucket after another, NULL: the first; the loose one is the last. */
struct cushim_pool_bucket *cushim_pool_buckets_next(struct cushim_pool_buckets *buckets,
                                                    const struct cushim_pool_bucket *bucket);

/* No buckets, whatever is in them. */
void cushim_pool_buckets_clear(struct cushim_pool_buckets *buckets);

#endif
