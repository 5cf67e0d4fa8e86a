#include "companion/pool/pool_buckets.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

enum { LOG2_LEAST_BINS = 4 };

static size_t size_of(const struct cushim_pool_buckets *buckets) {
    return buckets->table ? (size_t)1 << buckets->log2_table : 0;
}

/* The bucket of a size, or the free place for it: a table is never full. */
static struct cushim_pool_bucket *place_in(const struct cushim_pool_buckets *buckets,
                                           size_t bucket_bytes) {
    size_t mask = size_of(buckets) - 1;
    size_t i = cushim_hash(bucket_bytes, buckets->log2_table);
    while (buckets->table[i].bucket_bytes && buckets->table[i].bucket_bytes != bucket_bytes)
        i = (i + 1) & mask;
    return &buckets->table[i];
}

struct cushim_pool_bucket *cushim_pool_buckets_find(const struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes) {
    struct cushim_pool_bucket *bucket = buckets->table ? place_in(buckets, bucket_bytes) : NULL;
    return bucket && bucket->bucket_bytes ? bucket : NULL;
}

static size_t count_full(const struct cushim_pool_buckets *buckets) {
    size_t n = 0;
    for (size_t i = 0; i < size_of(buckets); i++)
        n += buckets->table[i].n != 0;
    return n;
}

/* Without those that are empty, and twice as many where few are; false: no host memory. */
static bool grow(struct cushim_pool_buckets *buckets) {
    struct cushim_pool_buckets old = *buckets;
    unsigned log2_table = old.table ? old.log2_table : LOG2_LEAST_BINS;
    if (old.table && count_full(&old) >= size_of(&old) / 4)
        log2_table++;
    size_t bytes = sizeof *old.table << log2_table;
    struct cushim_pool_bucket *table = aligned_alloc(_Alignof(struct cushim_pool_bucket), bytes);
    if (!table)
        return false;
    memset(table, 0, bytes);
    buckets->table = table;
    buckets->log2_table = log2_table;
    buckets->n = 0;
    for (size_t i = 0; i < size_of(&old); i++) {
        if (old.table[i].n) {
            *place_in(buckets, old.table[i].bucket_bytes) = old.table[i];
            buckets->n++;
        }
    }
    free(old.table);
    return true;
}

struct cushim_pool_bucket *cushim_pool_buckets_make(struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes, size_t n_most) {
    if (buckets->n >= size_of(buckets) / 2 && !grow(buckets))
        return &buckets->loose;
    struct cushim_pool_bucket *bucket = place_in(buckets, bucket_bytes);
    *bucket = (struct cushim_pool_bucket){.bucket_bytes = bucket_bytes, .n_most = n_most};
    buckets->n++;
    return bucket;
}

struct cushim_pool_bucket *cushim_pool_buckets_next(struct cushim_pool_buckets *buckets,
                                                    const struct cushim_pool_bucket *bucket) {
    if (bucket == &buckets->loose)
        return NULL;
    size_t i = bucket ? (size_t)(bucket - buckets->table) + 1 : 0;
    while (i < size_of(buckets) && !buckets->table[i].bucket_bytes)
        i++;
    return i < size_of(buckets) ? &buckets->table[i] : &buckets->loose;
}

void cushim_pool_buckets_clear(struct cushim_pool_buckets *buckets) {
    free(buckets->table);
    *buckets = (struct cushim_pool_buckets){0};
}
