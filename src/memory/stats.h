/*
 * Statistics of one device and one kind of memory: plain counters, never reset.
 *
 * Written with relaxed atomics by whoever does the thing that is counted; read by the report. Bytes
 * are what the program asked for unless the name says otherwise.
 */
#ifndef CUSHIM_MEMORY_STATS_H
#define CUSHIM_MEMORY_STATS_H

#include <stdatomic.h>
#include <stdint.h>

struct cushim_mem_stats {
    atomic_uint_fast64_t n_requests; /* served, by the pool or natively */
    atomic_uint_fast64_t n_hits;     /* served without a driver call */
    atomic_uint_fast64_t n_misses;   /* served by the pool, with a driver call for a segment */
    atomic_uint_fast64_t n_natively; /* handed to the driver as they were */
    atomic_uint_fast64_t n_refused;  /* the driver had no memory */
    atomic_uint_fast64_t n_frees;    /* of blocks of ours, or of native memory that was counted */
    atomic_uint_fast64_t requested_bytes;
    atomic_uint_fast64_t live_bytes; /* of blocks of ours, as asked */
    atomic_uint_fast64_t peak_live_bytes;
    atomic_uint_fast64_t
        block_bytes;                 /* of live blocks, as cut: block_bytes - live_bytes is waste */
    atomic_uint_fast64_t held_bytes; /* segments we have from the driver, live or not */
    atomic_uint_fast64_t peak_held_bytes;
    atomic_uint_fast64_t n_segments;
    atomic_uint_fast64_t n_native_allocs; /* driver calls of ours, and the time they took */
    atomic_uint_fast64_t native_alloc_ns;
    atomic_uint_fast64_t n_native_frees;
    atomic_uint_fast64_t native_free_ns;
    atomic_uint_fast64_t n_waits; /* frees that found the device busy */
    atomic_uint_fast64_t wait_ns;
    /* findings: what the program did wrong, answered as native */
    atomic_uint_fast64_t n_double_frees;
    atomic_uint_fast64_t n_interior_frees;
    atomic_uint_fast64_t n_overruns;
    atomic_uint_fast64_t n_uses_after_free;
};

static inline void cushim_mem_stats_add(atomic_uint_fast64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline void cushim_mem_stats_subtract(atomic_uint_fast64_t *counter, uint64_t n) {
    atomic_fetch_sub_explicit(counter, n, memory_order_relaxed);
}

static inline uint64_t cushim_mem_stats_read(const atomic_uint_fast64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Add n to a gauge and raise its peak with it. */
static inline void cushim_mem_stats_grow(atomic_uint_fast64_t *gauge, atomic_uint_fast64_t *peak,
                                         uint64_t n) {
    uint64_t now = atomic_fetch_add_explicit(gauge, n, memory_order_relaxed) + n;
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak_explicit(
                             peak, &seen, now, memory_order_relaxed, memory_order_relaxed)) {
    }
}

#endif
