/*
 * Observers of each block of a process: the recording (tracing.h) and the sites (sites.h).  They
 * are called only if cushim_process.is_watched.
 */
#ifndef CUSHIM_PRELOAD_WATCH_H
#define CUSHIM_PRELOAD_WATCH_H

#include "memory/alloc.h"
#include "memory/state/heap_state.h"
#include "preload/observe/sites.h"
#include "preload/observe/tracing.h"

/* A heap served a request. */
static inline void cushim_watch_alloc(const struct cushim_mem_heap *heap,
                                      const struct cushim_mem_block *block, size_t n_bytes) {
    cushim_tracing_alloc(heap->stats, heap, block->address, n_bytes, block->is_hit);
    cushim_sites_alloc(heap, block->address, n_bytes);
}

/* A block of a heap is about to be given back; the second call says how that went. */
struct cushim_watched_free {
    struct cushim_mem_heap *heap; /* the block's segment may go */
    struct cushim_sites_free site;
};

static inline struct cushim_watched_free cushim_watch_free(const struct cushim_mem_lookup *lookup) {
    struct cushim_mem_heap *heap = lookup->segment->heap;
    cushim_tracing_free(heap->stats, heap, lookup->base);
    return (struct cushim_watched_free){heap, cushim_sites_free(lookup, lookup->base)};
}

static inline void cushim_watch_freed(const struct cushim_watched_free *freed,
                                      const struct cushim_mem_lookup *lookup, bool is_done) {
    cushim_tracing_freed(freed->heap->stats, freed->heap, lookup->base, lookup->asked_bytes,
                         is_done);
    if (!is_done)
        cushim_sites_restore(&freed->site);
}

/* The options were read, and the check's are in the policy. */
void cushim_watch_begin(void);

/* In a forked child: it is no longer watched, or from its start if it `is_fresh`. */
void cushim_watch_in_child(bool is_fresh);

/* A context was destroyed, and with it all blocks of a heap. */
void cushim_watch_gone(const struct cushim_mem_heap *heap);

#endif
