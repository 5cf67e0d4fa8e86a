#include "companion/pool/pool_bins.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

enum { LOG2_LEAST_BINS = 4 };

struct cushim_pool_bin_table {
    struct cushim_pool_bin_table *outgrown; /* that nobody loses it */
    unsigned log2_bins;
    struct cushim_pool_bin bins[];
};

static struct cushim_pool_bin_table *table_of(const struct cushim_pool_bins *bins) {
    return atomic_load_explicit(&bins->table, memory_order_acquire);
}

static size_t size_of(const struct cushim_pool_bin_table *table) {
    return table ? (size_t)1 << table->log2_bins : 0;
}

/* The bin of a bucket, or the free place for it: a table is never full. */
static struct cushim_pool_bin *place_in(struct cushim_pool_bin_table *table, size_t bucket_bytes) {
    size_t mask = size_of(table) - 1;
    size_t i = cushim_hash(bucket_bytes, table->log2_bins);
    for (;; i = (i + 1) & mask) {
        size_t found_bytes = cushim_pool_bin_bucket(&table->bins[i]);
        if (!found_bytes || found_bytes == bucket_bytes)
            return &table->bins[i];
    }
}

struct cushim_pool_bin *cushim_pool_bins_find(const struct cushim_pool_bins *bins,
                                              size_t bucket_bytes) {
    struct cushim_pool_bin_table *table = table_of(bins);
    struct cushim_pool_bin *bin = table ? place_in(table, bucket_bytes) : NULL;
    return bin && cushim_pool_bin_bucket(bin) ? bin : NULL;
}

static struct cushim_pool_bin *put(struct cushim_pool_bin_table *table, size_t bucket_bytes,
                                   const struct cushim_pool_bin *like) {
    struct cushim_pool_bin *bin = place_in(table, bucket_bytes);
    atomic_store_explicit(&bin->n, cushim_pool_bin_count(like), memory_order_relaxed);
    bin->n_most = like->n_most;
    bin->newest = like->newest;
    bin->oldest = like->oldest;
    atomic_store_explicit(&bin->bucket_bytes, bucket_bytes, memory_order_relaxed);
    return bin;
}

/* Twice as many, without those that are empty; NULL: no host memory. */
static struct cushim_pool_bin_table *grow(struct cushim_pool_bins *bins) {
    struct cushim_pool_bin_table *old = table_of(bins), *table;
    unsigned log2_bins = old ? old->log2_bins + 1 : LOG2_LEAST_BINS;
    size_t bytes = sizeof *table + (sizeof *table->bins << log2_bins);
    table = aligned_alloc(_Alignof(struct cushim_pool_bin_table), bytes);
    if (!table)
        return NULL;
    memset(table, 0, bytes);
    table->log2_bins = log2_bins;
    table->outgrown = old;
    bins->n = 0;
    for (size_t i = 0; i < size_of(old); i++) {
        if (cushim_pool_bin_count(&old->bins[i])) {
            put(table, cushim_pool_bin_bucket(&old->bins[i]), &old->bins[i]);
            bins->n++;
        }
    }
    atomic_store_explicit(&bins->table, table, memory_order_release);
    return table;
}

struct cushim_pool_bin *cushim_pool_bins_make(struct cushim_pool_bins *bins, size_t bucket_bytes,
                                              size_t n_most) {
    struct cushim_pool_bin_table *table = table_of(bins);
    if (bins->n >= size_of(table) / 2)
        table = grow(bins);
    if (!table)
        return &bins->loose;
    bins->n++;
    return put(table, bucket_bytes, &(struct cushim_pool_bin){.n_most = n_most});
}

struct cushim_pool_bin *cushim_pool_bins_next(struct cushim_pool_bins *bins,
                                              const struct cushim_pool_bin *bin) {
    struct cushim_pool_bin_table *table = table_of(bins);
    if (bin == &bins->loose)
        return NULL;
    size_t i = bin ? (size_t)(bin - table->bins) + 1 : 0;
    while (i < size_of(table) && !cushim_pool_bin_bucket(&table->bins[i]))
        i++;
    return i < size_of(table) ? &table->bins[i] : &bins->loose;
}

static void empty(struct cushim_pool_bin *bin) {
    atomic_store_explicit(&bin->bucket_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&bin->n, 0, memory_order_relaxed);
    bin->newest = bin->oldest = NULL;
}

void cushim_pool_bins_clear(struct cushim_pool_bins *bins) {
    struct cushim_pool_bin_table *table = table_of(bins);
    for (size_t i = 0; i < size_of(table); i++)
        empty(&table->bins[i]);
    empty(&bins->loose);
    bins->n = 0;
}
