#include "memory/cache/stream_buckets.h"

#include <stdlib.h>

enum { LEAST_MADE = 16 };

/* Drop the empty buckets, so that a program with ever new sizes does not keep those of old ones. */
static void drop(struct cushim_mem_stream_buckets *buckets, bool is_all) {
    struct cushim_mem_stream_bucket *bucket, *next;
    HASH_ITER(hh, buckets->table, bucket, next) {
        if (bucket->n && !is_all)
            continue;
        HASH_DEL(buckets->table, bucket);
        free(bucket);
    }
    buckets->n_made = 0;
}

struct cushim_mem_stream_bucket *
cushim_mem_stream_buckets_make(struct cushim_mem_stream_buckets *buckets, size_t bucket_bytes,
                               size_t n_most) {
    if (buckets->n_made >= LEAST_MADE + HASH_COUNT(buckets->table) / 2)
        drop(buckets, false);
    struct cushim_mem_stream_bucket *bucket =
        aligned_alloc(_Alignof(struct cushim_mem_stream_bucket), sizeof *bucket);
    if (!bucket)
        return &buckets->loose;
    *bucket = (struct cushim_mem_stream_bucket){.bucket_bytes = bucket_bytes, .n_most = n_most};
    HASH_ADD_BYHASHVALUE(hh, buckets->table, bucket_bytes, sizeof bucket_bytes,
                         cushim_mem_stream_buckets_hash(bucket_bytes), bucket);
    if (!bucket->hh.tbl) { /* uthash was out of memory */
        free(bucket);
        return &buckets->loose;
    }
    buckets->n_made++;
    return bucket;
}

struct cushim_mem_stream_bucket *
cushim_mem_stream_buckets_next(struct cushim_mem_stream_buckets *buckets,
                               const struct cushim_mem_stream_bucket *bucket) {
    if (bucket == &buckets->loose)
        return NULL;
    struct cushim_mem_stream_bucket *next = bucket ? bucket->hh.next : buckets->table;
    return next ? next : &buckets->loose;
}

void cushim_mem_stream_buckets_clear(struct cushim_mem_stream_buckets *buckets) {
    drop(buckets, true);
    *buckets = (struct cushim_mem_stream_buckets){0};
}
