/*
 * Statistics of one device and one kind of memory: plain counters, which are never reset, except
 * the recent peaks.
 *
 * The thread that counts writes with relaxed atomics.  Events of every request and free are counted
 * in the thread's cache, and only a part of them is here; cushim_mem_cache_sum adds all up for
 * reports.  Bytes are what the program asked for unless the name says otherwise.
 */
#pragma once

#include <stddef.h>

#include "base/atomics.h"
#include "base/clock.h"

struct cushim_mem_stats {
    atomic_uint_fast64_t n_requests; /* served, by the heap or the driver */
    atomic_uint_fast64_t n_hits;     /* served without a driver call */
    atomic_uint_fast64_t n_misses;   /* served by the heap, with a driver call for a segment */
    atomic_uint_fast64_t n_natively; /* forwarded to the driver */
    atomic_uint_fast64_t n_refused;  /* the driver had no memory */
    atomic_uint_fast64_t n_frees;    /* of blocks of ours, or of counted memory of the driver */
    atomic_uint_fast64_t requested_bytes;
    atomic_uint_fast64_t live_bytes; /* of blocks of ours, as asked */
    atomic_uint_fast64_t peak_live_bytes;
    atomic_uint_fast64_t recent_peak_live_bytes; /* since it was restarted */
    atomic_uint_fast64_t
        block_bytes; /* of live blocks, as cut: block_bytes - live_bytes is rounding */
    atomic_uint_fast64_t wasted_bytes; /* part of these, in segments larger than their block
                                        * needs */
    atomic_uint_fast64_t held_bytes;   /* segments we have from the driver, live or not */
    atomic_uint_fast64_t peak_held_bytes, recent_peak_held_bytes;
    atomic_uint_fast64_t n_segments;
    atomic_uint_fast64_t free_segment_bytes; /* of segments in which nothing is live or pending */
    atomic_uint_fast64_t n_native_allocs;    /* driver calls of ours, and the time they took */
    atomic_uint_fast64_t native_alloc_ns;
    atomic_uint_fast64_t n_native_frees;
    atomic_uint_fast64_t native_free_ns;
    atomic_uint_fast64_t n_waits; /* frees that found the device busy */
    atomic_uint_fast64_t wait_ns;
    atomic_uint_fast64_t n_effect_waits; /* those of them that were relaxed, for effects that the
                                          * host could see */
    atomic_uint_fast64_t effect_wait_ns;
    atomic_uint_fast64_t n_out_of_memory; /* requests that reclaim could not serve either */
    atomic_uint_fast64_t n_reclaim_steps; /* that made something free */
    atomic_uint_fast64_t n_reclaim_waits;
    atomic_uint_fast64_t n_arena; /* requests that the arena served */
    atomic_uint_fast64_t n_arena_rewinds;
    atomic_uint_fast64_t n_arena_kept; /* chunks that a reset met with a live block in them */
    atomic_uint_fast64_t
        last_ns; /* of cushim_clock_ns: when the last call counted above that takes time ended */
    /* findings: errors of the program, which the driver would refuse, too */
    atomic_uint_fast64_t n_double_frees;
    atomic_uint_fast64_t n_interior_frees;
    atomic_uint_fast64_t n_overruns;
    atomic_uint_fast64_t n_uses_after_free;
};

static inline void cushim_mem_stats_add(atomic_uint_fast64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Something took from start_ns until now; returns how long. */
static inline uint64_t cushim_mem_stats_add_time(struct cushim_mem_stats *stats,
                                                 atomic_uint_fast64_t *counter, uint64_t start_ns) {
    uint64_t now_ns = cushim_clock_ns();
    cushim_mem_stats_add(counter, now_ns - start_ns);
    store_relaxed(&stats->last_ns, now_ns);
    return now_ns - start_ns;
}

static inline void cushim_mem_stats_subtract(atomic_uint_fast64_t *counter, uint64_t n) {
    atomic_fetch_sub_explicit(counter, n, memory_order_relaxed);
}

static inline uint64_t cushim_mem_stats_read(const atomic_uint_fast64_t *counter) {
    return load_relaxed(counter);
}

/* Raise a peak to what its gauge said.  A gauge lags behind the caches (cache.h), so it may be
 * below 0 for a while. */
static inline void cushim_mem_stats_raise(atomic_uint_fast64_t *peak, uint64_t now) {
    uint64_t seen = load_relaxed(peak);
    while ((int64_t)now > (int64_t)seen &&
           !atomic_compare_exchange_weak_explicit(peak, &seen, now, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

/* Raise both peaks of what is live. */
static inline void cushim_mem_stats_raise_live(struct cushim_mem_stats *stats, uint64_t now) {
    cushim_mem_stats_raise(&stats->peak_live_bytes, now);
    cushim_mem_stats_raise(&stats->recent_peak_live_bytes, now);
}

/* n more are live, or held. */
static inline void cushim_mem_stats_grow_live(struct cushim_mem_stats *stats, uint64_t n) {
    cushim_mem_stats_raise_live(
        stats, atomic_fetch_add_explicit(&stats->live_bytes, n, memory_order_relaxed) + n);
}

static inline void cushim_mem_stats_grow_held(struct cushim_mem_stats *stats, uint64_t n) {
    uint64_t now = atomic_fetch_add_explicit(&stats->held_bytes, n, memory_order_relaxed) + n;
    cushim_mem_stats_raise(&stats->peak_held_bytes, now);
    cushim_mem_stats_raise(&stats->recent_peak_held_bytes, now);
}

/* A copy for a report; every field is a counter.  A request is counted in the order of the fields,
 * and they are read in the reverse order, so a request that is live in the copy is also counted as
 * requested. */
static inline void cushim_mem_stats_copy(struct cushim_mem_stats *to,
                                         const struct cushim_mem_stats *from) {
    atomic_uint_fast64_t *counters = (atomic_uint_fast64_t *)to;
    const atomic_uint_fast64_t *sources = (const atomic_uint_fast64_t *)from;
    for (size_t i = sizeof *to / sizeof *counters; i-- > 0;)
        store_relaxed(&counters[i], load_acquire(&sources[i]));
}

/*
 * The counters of one thread, in its cache.  The thread that has taken the cache writes them, by
 * load and store, and reports read them.  Other threads may free blocks that this one obtained, so
 * live bytes can be less than 0.
 */
struct cushim_mem_counts {
    atomic_uint_fast64_t n_hits, n_frees;
    atomic_uint_fast64_t obtained_bytes;    /* as asked */
    atomic_uint_fast64_t block_bytes;       /* of live blocks, as cut */
    atomic_uint_fast64_t unpublished_bytes; /* of live blocks, as asked: not in the gauge yet */
    atomic_uint_fast64_t most_bytes;        /* the highest value of these since they were 0 */
};

/* Add a thread's counters to the shared ones, except the live bytes, which the gauge may have
 * already.
 */
static inline void cushim_mem_stats_add_counts(struct cushim_mem_stats *to,
                                               const struct cushim_mem_counts *counts) {
    uint64_t n_hits = cushim_mem_stats_read(&counts->n_hits);
    cushim_mem_stats_add(&to->n_requests, n_hits);
    cushim_mem_stats_add(&to->n_hits, n_hits);
    cushim_mem_stats_add(&to->n_frees, cushim_mem_stats_read(&counts->n_frees));
    cushim_mem_stats_add(&to->requested_bytes, cushim_mem_stats_read(&counts->obtained_bytes));
    cushim_mem_stats_add(&to->block_bytes, cushim_mem_stats_read(&counts->block_bytes));
}

/* The same for a copy, whose live bytes were gauge_bytes before anything was added.  It adds the
 * live bytes, too, and first, as in a copy. */
static inline void cushim_mem_stats_add_live_counts(struct cushim_mem_stats *sum,
                                                    const struct cushim_mem_counts *counts,
                                                    uint64_t gauge_bytes) {
    cushim_mem_stats_raise_live(sum, gauge_bytes + cushim_mem_stats_read(&counts->most_bytes));
    cushim_mem_stats_add(&sum->live_bytes, cushim_mem_stats_read(&counts->unpublished_bytes));
    cushim_mem_stats_add_counts(sum, counts);
}
