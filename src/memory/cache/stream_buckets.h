/*
 * The buckets of a stream cache: its idle blocks by size.  The caller holds the cache's lock.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/bits.h"

/* The idle blocks of one size, the newest first, by <utlist.h>.  Hits and frees write the first
 * cache line only. */
struct cushim_mem_stream_bucket {
    _Alignas(64) size_t bucket_bytes; /* 0: the loose bucket, for any size */
    size_t n;
    size_t n_most; /* below this, a free need not check the caps */
    struct cushim_mem_stream_block *newest;
    UT_hash_handle hh;
};

/* All zero is empty. */
struct cushim_mem_stream_buckets {
    struct cushim_mem_stream_bucket *table; /* by <uthash.h> */
    unsigned n_made;                        /* buckets made since empty ones were dropped */
    struct cushim_mem_stream_bucket loose;  /* for blocks whose bucket found no host memory */
};

static inline unsigned cushim_mem_stream_buckets_hash(size_t bucket_bytes) {
    return (unsigned)cushim_hash(bucket_bytes, 32);
}

/* The bucket of a size, or NULL. */
static inline struct cushim_mem_stream_bucket *
cushim_mem_stream_buckets_find(const struct cushim_mem_stream_buckets *buckets,
                               size_t bucket_bytes) {
    struct cushim_mem_stream_bucket *bucket;
    HASH_FIND_BYHASHVALUE(hh, buckets->table, &bucket_bytes, sizeof bucket_bytes,
                          cushim_mem_stream_buckets_hash(bucket_bytes), bucket);
    return bucket;
}

/* Make a bucket for a size that has none.  Returns the loose bucket if host memory is out.  Drops
 * empty buckets at times, so a pointer to one may become invalid. */
struct cushim_mem_stream_bucket *
cushim_mem_stream_buckets_make(struct cushim_mem_stream_buckets *buckets, size_t bucket_bytes,
                               size_t n_most);

/* The bucket after another; NULL: the first.  The loose bucket is the last. */
struct cushim_mem_stream_bucket *
cushim_mem_stream_buckets_next(struct cushim_mem_stream_buckets *buckets,
                               const struct cushim_mem_stream_bucket *bucket);

/* Drop all buckets, even those with blocks. */
void cushim_mem_stream_buckets_clear(struct cushim_mem_stream_buckets *buckets);
