/*
 * The buckets of a stream cache: its idle blocks by size.  All with the cache's lock.
 */
#ifndef CUSHIM_MEMORY_STREAM_BUCKETS_H
#define CUSHIM_MEMORY_STREAM_BUCKETS_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/bits.h"

struct cushim_mem_stream_block;

/* Idle blocks of a bucket, the newest first, by <utlist.h>; a hit and a free write its first line.
 */
struct cushim_mem_stream_bucket {
    _Alignas(64) size_t bucket_bytes; /* 0: the loose one's, of any */
    size_t n;
    size_t n_most; /* that a free need not look after */
    struct cushim_mem_stream_block *newest;
    UT_hash_handle hh;
};

/* All zero is empty. */
struct cushim_mem_stream_buckets {
    struct cushim_mem_stream_bucket *table; /* by <uthash.h> */
    unsigned n_made;                        /* since those that were empty went */
    struct cushim_mem_stream_bucket loose;  /* of all buckets, for want of host memory */
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

/* A new bucket for a size that has none; the loose one if there is no memory for it.  Empty
 * buckets found before may be gone. */
struct cushim_mem_stream_bucket *
cushim_mem_stream_buckets_make(struct cushim_mem_stream_buckets *buckets, size_t bucket_bytes,
                               size_t n_most);

/* The bucket after another, NULL: the first; the loose one is the last. */
struct cushim_mem_stream_bucket *
cushim_mem_stream_buckets_next(struct cushim_mem_stream_buckets *buckets,
                               const struct cushim_mem_stream_bucket *bucket);

/* No buckets, whatever is in them. */
void cushim_mem_stream_buckets_clear(struct cushim_mem_stream_buckets *buckets);

#endif
