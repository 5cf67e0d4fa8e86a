/*
 * How often each hook was called, and which look-ups the resolver saw: behind the caches' rows of a
 * page's file.
 *
 * Call counters are split into shards.  A thread has one of its own while there are some left, and
 * counts there by load and store; the next thread goes on in it.  The others share a few.
 */
#pragma once

#include "report/page.h"

/* Shards that one thread has at a time, and those that all further threads share. */
enum { CUSHIM_N_OWN_SHARDS = 256, CUSHIM_N_SHARED_SHARDS = 16 };

/* Room for the rows of enum cushim_cuda_symbol; with the flag it fills whole cache lines. */
enum { CUSHIM_PAGE_SYMBOLS = 263 };

struct cushim_shard {
    _Alignas(64) atomic_uint_fast64_t calls[CUSHIM_PAGE_SYMBOLS];
    atomic_bool is_taken; /* by a living thread */
};

/* Does the driver's resolver return the exported addresses (interposition.md A6, B14)? */
enum cushim_identity { CUSHIM_IDENTITY_UNKNOWN, CUSHIM_IDENTITY_SAME, CUSHIM_IDENTITY_OTHER };

/* What the resolver saw; any thread writes a field, relaxed, and each only rises. */
struct cushim_resolve_counts {
    atomic_ulong n_lookups;  /* look-ups of CUDA names */
    atomic_ulong n_routed;   /* of these: answered with a hook of ours */
    atomic_ulong n_by_name;  /* of these: routed by name, not by address (B14) */
    atomic_ulong n_unhooked; /* cuMem* names that went out unhooked, each counted once (B16) */
    atomic_int identity;     /* enum cushim_identity */
};

struct cushim_page_calls {
    _Alignas(
        CUSHIM_PAGE_BYTES) struct cushim_shard shards[CUSHIM_N_OWN_SHARDS + CUSHIM_N_SHARED_SHARDS];
    struct cushim_resolve_counts lookups;
};

/* The calls of a row so far. */
static inline uint64_t cushim_page_calls_of(const struct cushim_page_calls *calls, unsigned row) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < CUSHIM_N_OWN_SHARDS + CUSHIM_N_SHARED_SHARDS; i++)
        sum += cushim_mem_stats_read(&calls->shards[i].calls[row]);
    return sum;
}
