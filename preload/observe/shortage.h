/*
 * A request that found no memory.  It is noted in the page for the report, and printed on standard
 * error if CUSHIM_OOM asks for that.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cushim_mem_heap;
struct cushim_mem_reclaim;
struct cushim_mem_census;
struct cushim_mem_stats;

/* Memory is out after everything was tried.  No lock is held. */
void cushim_shortage_note(struct cushim_mem_heap *heap, const struct cushim_mem_reclaim *tried,
                          const struct cushim_mem_census *census, size_t n_bytes);

/* The driver refused a request as it was, or a limit did; `stats` are the counters of its place.
 * What a heap was asked for first, and told, is not told again. */
void cushim_shortage_note_native(const struct cushim_mem_stats *stats, size_t n_bytes);

/* What this thread asked for last and did not get; the counters are NULL if it got over that. */
struct cushim_refused {
    const struct cushim_mem_stats *stats;
    size_t n_bytes;
    uint64_t number, ns;
};
extern _Thread_local struct cushim_refused cushim_refused
    __attribute__((tls_model("initial-exec")));

/* A request was served: if the refused one was a probe for as much as there is, say so. */
void cushim_shortage_note_served(const struct cushim_mem_stats *stats, size_t n_bytes);

static inline void cushim_shortage_served(const struct cushim_mem_stats *stats, size_t n_bytes) {
    if (cushim_refused.stats)
        cushim_shortage_note_served(stats, n_bytes);
}
