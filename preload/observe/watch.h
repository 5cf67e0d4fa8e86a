/*
 * Observers of each block of a process: the recording (tracing.h) and the sites (sites.h).  They
 * are called only if cushim_process.is_watched.
 */
#pragma once

#include "memory/alloc.h"
#include "memory/state/heap_state.h"
#include "preload/observe/sites.h"
#include "preload/observe/tracing.h"

/* A heap served a request. */
void cushim_watch_alloc(const struct cushim_mem_heap *heap, const struct cushim_mem_block *block,
                        size_t n_bytes);

/* A block of a heap is about to be given back; the second call says how that went. */
struct cushim_watched_free {
    struct cushim_mem_heap *heap; /* the block's segment may go */
    struct cushim_sites_free site;
};

static inline struct cushim_watched_free cushim_watch_free(const struct cushim_mem_lookup *lookup) {
    return (struct cushim_watched_free){lookup->segment->heap,
                                        cushim_sites_free(lookup, lookup->base)};
}

static inline void cushim_watch_freed(const struct cushim_watched_free *freed, bool is_done) {
    cushim_tracing_freed(freed->heap->stats, freed->heap);
    if (!is_done)
        cushim_sites_restore(&freed->site);
}

/* The options were read, and the check's are in the policy. */
void cushim_watch_begin(void);

/* In a forked child: it is no longer watched, or from its start if it `is_fresh`. */
void cushim_watch_in_child(bool is_fresh);

/*
 * Begin a recording of a process that is not recorded, or end it; events come in between.  A block
 * is RECORDED if its request was recorded, or if it lived at the start and was told.  The free that
 * claims a RECORDED block is recorded, and no other one.  So it does not matter when a thread
 * notices.  0 or an errno: EBUSY if it is recorded from its start on.
 */
int cushim_watch_record(const char *folder);
void cushim_watch_tell_start(void);
void cushim_watch_stop(void);

/* A context was destroyed, and with it all blocks of a heap. */
void cushim_watch_gone(const struct cushim_mem_heap *heap);
