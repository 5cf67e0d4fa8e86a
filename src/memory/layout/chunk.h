/*
 * A chunk: a run of pages that serves blocks by bumping an offset, the top.
 *
 * Nothing is searched and no block is put back.  The chunk counts its blocks.  When the last one is
 * given back, it rewinds and serves from its start again.  Top, number of blocks and number of
 * rewinds are one word, which changes by compare and exchange.  So a rewind succeeds only while the
 * chunk has no block, and fails if a block is taken meanwhile.  If frees do not wait, `newest_tag`
 * has the youngest epoch in which a block was freed, and the chunk does not rewind before that
 * epoch is done.
 *
 * A block starts on a grain (512 bytes).  `starts` has a bit there, by which an inner address finds
 * its block, and `cells` has its metadata.  The arrays stay with the struct, and the struct with
 * its arena.  So a late reader finds an old value, never the memory of another object.
 *
 * Take, give and find take no lock; open and close need the heap's.
 */
#pragma once

#include "memory/layout/segment.h"
#include "memory/stats.h"

/* How far a chunk is filled.  A closed one has a top beyond any size.  The number of rewinds
 * distinguishes a chunk that was rewound and filled up to the same top again. */
struct cushim_mem_chunk_level {
    uint64_t top : 20, n_blocks : 20, n_rewinds : 24; /* top: in grains */
};

/* All zero is a chunk that was never opened; cushim_mem_chunk_make comes first. */
struct cushim_mem_chunk {
    _Alignas(64) _Atomic(struct cushim_mem_chunk_level) level;
    atomic_uint_fast64_t newest_tag;
    atomic_bool is_passed; /* there was a reset, and nothing was served since; for the arena */
    atomic_bool is_shown;  /* another process was told about a block, so nothing is served again */
    struct cushim_mem_extent *extent;    /* NULL: closed; under the lock */
    uint32_t n_grains;                   /* constant from make on, as are the arrays */
    struct cushim_mem_block_meta *cells; /* [n_grains]; valid if a block starts there */
    atomic_uint_fast64_t *starts;        /* [ceil(n_grains / 64)] */
};

/* Get host memory for a chunk of n_grains; false: it is out.  The chunk is closed. */
bool cushim_mem_chunk_make(struct cushim_mem_chunk *chunk, struct cushim_mem_meta *meta,
                           uint32_t n_grains);

/* Serve from the pages of `extent`, which is taken, on no list, and becomes kind ARENA. */
void cushim_mem_chunk_open(struct cushim_mem_chunk *chunk, struct cushim_mem_extent *extent);

/*
 * Close the chunk if it has no block and the work on all its blocks is over.  Then the extent is a
 * taken run of pages again, and is returned.  Otherwise NULL.
 */
struct cushim_mem_extent *cushim_mem_chunk_close(struct cushim_mem_chunk *chunk, uint64_t done);

/* The memory is gone.  Close the chunk, whatever is in it.  Live blocks no longer count for
 * `stats`. */
void cushim_mem_chunk_abandon(struct cushim_mem_chunk *chunk, struct cushim_mem_stats *stats);

/**
 * Take a block of n_bytes (> 0).  Its state is FREE until the caller makes it LIVE.
 * @param done      the epoch up to which work is over; 0 if frees wait
 * @param is_whole  only if the chunk is rewound, or can be
 * @param stats     count the rewind
 * @param ref     out; its index is also the first grain of the block
 * @return false if it does not fit
 */
bool cushim_mem_chunk_take(struct cushim_mem_chunk *chunk, size_t n_bytes, uint64_t done,
                           bool is_whole, struct cushim_mem_stats *stats,
                           struct cushim_mem_blockref *ref);

/* The chunk after a give. */
enum cushim_mem_chunk_end {
    CUSHIM_MEM_CHUNK_USED,     /* blocks are there */
    CUSHIM_MEM_CHUNK_DEFERRED, /* no blocks, but their work may still run; it rewinds at the next
                                * look, unless it is shown */
    CUSHIM_MEM_CHUNK_REWOUND   /* it serves from its start */
};

/*
 * Give a block back whose state is FREE already.  `tag` is the epoch in which it was freed, 0 if
 * all work on it is over.
 */
enum cushim_mem_chunk_end cushim_mem_chunk_give(struct cushim_mem_chunk *chunk, uint64_t tag,
                                                uint64_t done);

/*
 * Lower the top to the end of the highest block that is not FREE.  False: nothing was done, because
 * the work on given blocks is not over, or the chunk is shown.
 */
bool cushim_mem_chunk_lower(struct cushim_mem_chunk *chunk, uint64_t done);

/* Does it have a block? */
bool cushim_mem_chunk_is_used(const struct cushim_mem_chunk *chunk);

/* Is the work on all given blocks over? */
static inline bool cushim_mem_chunk_is_over(const struct cushim_mem_chunk *chunk, uint64_t done) {
    return load_relaxed(&chunk->newest_tag) <= done;
}

/* The first grain of the block that covers `grain`; false if no block ever did. */
bool cushim_mem_chunk_find(const struct cushim_mem_chunk *chunk, uint32_t grain, uint32_t *index);

/* The chunks of a heap (memory/arena.h).  All zero has none. */
struct cushim_mem_arena {
    struct cushim_mem_chunk *chunks;  /* set before n_ready rises, kept over lives */
    atomic_uint n_ready;              /* chunks that were made, open or closed */
    atomic_uint n_open;               /* written under the lock */
    atomic_uint current;              /* the chunk that serves; n_ready or beyond: none */
    atomic_uint_fast64_t n_changes;   /* how often a chunk became empty, or a reset came */
    atomic_uint_fast64_t searched_at; /* n_changes + done at the last search, if it found nothing */
};

/* Does this block belong to the arena? */
static inline bool cushim_mem_arena_has(const struct cushim_mem_blockref *ref) {
    return load_relaxed(&ref->extent->kind) == CUSHIM_MEM_EXTENT_ARENA;
}
