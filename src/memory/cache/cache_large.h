/*
 * The large blocks of a cache: of device memory, above 1 MiB and up to 32, each a segment of its
 * own.
 *
 * Sixteen at most, from the oldest to the youngest, each with the epoch that it was freed in; 0
 * where all work on it is over.  The caches of a heap share a budget of 32 MiB, which is what a
 * heap may hold idle in any case, and 1/32 of what is live.  Their bytes are counted in the heap
 * (cached_large_bytes): they are idle, though no free list has them.
 *
 * The cache's lock guards them.
 */
#ifndef CUSHIM_MEMORY_CACHE_LARGE_H
#define CUSHIM_MEMORY_CACHE_LARGE_H

#include "memory/layout/extent.h"

struct cushim_mem_cache;

enum {
    CUSHIM_MEM_LARGE_STEP_BYTES = 2 << 20, /* what they are rounded to */
    CUSHIM_MEM_LARGE_MOST_BYTES = 32 << 20,
    CUSHIM_MEM_LARGE_BLOCKS = 16
};

struct cushim_mem_large_block {
    struct cushim_mem_extent *extent;
    size_t block_bytes;
    uint64_t tag;
};

struct cushim_mem_large {
    unsigned n;
    size_t cached_bytes, limit_bytes;
    struct cushim_mem_large_block blocks[CUSHIM_MEM_LARGE_BLOCKS];
};

/* Take a block of exactly so many bytes whose work is over, the youngest; NULL: there is none. */
struct cushim_mem_extent *cushim_mem_large_pop(struct cushim_mem_cache *cache, size_t block_bytes,
                                               uint64_t done);

/* The epoch of the oldest of that size; 0: there is none. */
uint64_t cushim_mem_large_tag_of(const struct cushim_mem_cache *cache, size_t block_bytes);

static inline bool cushim_mem_large_fits(const struct cushim_mem_large *large, size_t block_bytes) {
    return large->n < CUSHIM_MEM_LARGE_BLOCKS &&
           large->cached_bytes + block_bytes <= large->limit_bytes;
}

/* Put a block in as the youngest; false where it does not fit. */
bool cushim_mem_large_push(struct cushim_mem_cache *cache, struct cushim_mem_extent *extent,
                           uint64_t tag);

/* The same where it did not fit: the older half goes to the free lists first. */
bool cushim_mem_large_push_over(struct cushim_mem_cache *cache, struct cushim_mem_extent *extent,
                                uint64_t tag, uint64_t done);

/* They are no more. */
void cushim_mem_large_forget(struct cushim_mem_cache *cache);

/* Under the heap's lock: the oldest go to the free lists, or wait there for their epoch, until no
 * more than keep_bytes are left.  False where host memory for that is out. */
bool cushim_mem_large_give(struct cushim_mem_cache *cache, size_t keep_bytes, uint64_t done);

#endif
