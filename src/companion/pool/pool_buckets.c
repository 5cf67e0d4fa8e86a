#include "companion/pool/pool_buckets.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

enum { LOG2_LEAST_BINS = 4 };

struct cushim_pool_bucket_table {
    struct cushim_pool_bucket_table *outgrown; /* that nobody loses it */
    unsigned log2_bins;
    struct cushim_pool_bucket buckets[];
};

static struct cushim_pool_bucket_table *table_of(const struct cushim_pool_buckets *buckets) {
    return atomic_load_explicit(&buckets->table, memory_order_acquire);
}

static size_t size_of(const struct cushim_pool_bucket_table *table) {
    return table ? (size_t)1 << table->log2_bins : 0;
}

/* The bucket of a size, or the free place for it: a table is never full. */
static struct cushim_pool_bucket *place_in(struct cushim_pool_bucket_table *table,
                                           size_t bucket_bytes) {
    size_t mask = size_of(table) - 1;
    size_t i = cushim_hash(bucket_bytes, table->log2_bins);
    for (;; i = (i + 1) & mask) {
        size_t found_bytes = cushim_pool_bucket_bytes(&table->buckets[i]);
        if (!found_bytes || found_bytes == bucket_bytes)
            return &table->buckets[i];
    }
}

struct cushim_pool_bucket *cushim_pool_buckets_find(const struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes) {
    struct cushim_pool_bucket_table *table = table_of(buckets);
    struct cushim_pool_bucket *bucket = table ? place_in(table, bucket_bytes) : NULL;
    return bucket && cushim_pool_bucket_bytes(bucket) ? bucket : NULL;
}

static struct cushim_pool_bucket *put(struct cushim_pool_bucket_table *table, size_t bucket_bytes,
                                      const struct cushim_pool_bucket *like) {
    struct cushim_pool_bucket *bucket = place_in(table, bucket_bytes);
    atomic_store_explicit(&bucket->n, cushim_pool_bucket_count(like), memory_order_relaxed);
    bucket->n_most = like->n_most;
    bucket->newest = like->newest;
    bucket->oldest = like->oldest;
    atomic_store_explicit(&bucket->bucket_bytes, bucket_bytes, memory_order_relaxed);
    return bucket;
}

/* Twice as many, without those that are empty; NULL: no host memory. */
static struct cushim_pool_bucket_table *grow(struct cushim_pool_buckets *buckets) {
    struct cushim_pool_bucket_table *old = table_of(buckets), *table;
    unsigned log2_bins = old ? old->log2_bins + 1 : LOG2_LEAST_BINS;
    size_t bytes = sizeof *table + (sizeof *table->buckets << log2_bins);
    table = aligned_alloc(_Alignof(struct cushim_pool_bucket_table), bytes);
    if (!table)
        return NULL;
    memset(table, 0, bytes);
    table->log2_bins = log2_bins;
    table->outgrown = old;
    buckets->n = 0;
    for (size_t i = 0; i < size_of(old); i++) {
        if (cushim_pool_bucket_count(&old->buckets[i])) {
            put(table, cushim_pool_bucket_bytes(&old->buckets[i]), &old->buckets[i]);
            buckets->n++;
        }
    }
    atomic_store_explicit(&buckets->table, table, memory_order_release);
    return table;
}

struct cushim_pool_bucket *cushim_pool_buckets_make(struct cushim_pool_buckets *buckets,
                                                    size_t bucket_bytes, size_t n_most) {
    struct cushim_pool_bucket_table *table = table_of(buckets);
    if (buckets->n >= size_of(table) / 2)
        table = grow(buckets);
    if (!table)
        return &buckets->loose;
    buckets->n++;
    return put(table, bucket_bytes, &(struct cushim_pool_bucket){.n_most = n_most});
}

struct cushim_pool_bucket *cushim_pool_buckets_next(struct cushim_pool_buckets *buckets,
                                                    const struct cushim_pool_bucket *bucket) {
    struct cushim_pool_bucket_table *table = table_of(buckets);
    if (bucket == &buckets->loose)
        return NULL;
    size_t i = bucket ? (size_t)(bucket - table->buckets) + 1 : 0;
    while (i < size_of(table) && !cushim_pool_bucket_bytes(&table->buckets[i]))
        i++;
    return i < size_of(table) ? &table->buckets[i] : &buckets->loose;
}

static void empty(struct cushim_pool_bucket *bucket) {
    atomic_store_explicit(&bucket->bucket_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&bucket->n, 0, memory_order_relaxed);
    bucket->newest = bucket->oldest = NULL;
}

void cushim_pool_buckets_clear(struct cushim_pool_buckets *buckets) {
    struct cushim_pool_bucket_table *table = table_of(buckets);
    for (size_t i = 0; i < size_of(table); i++)
        empty(&table->buckets[i]);
    empty(&buckets->loose);
    buckets->n = 0;
}
