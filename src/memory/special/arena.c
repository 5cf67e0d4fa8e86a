#include "memory/special/arena.h"

#include "base/bits.h"
#include "memory/layout/chunk.h"
#include "memory/state/heap_state.h"
#include "memory/state/free_lists.h"
#include "memory/heap/heap.h"

enum {
    STEP_BYTES = 2 << 20,
    SHARES = 32, /* chunks in an arena, unless they would be very small or very large */
    MOST_CHUNKS = 512,
    NONE = MOST_CHUNKS
};
static const size_t most_chunk_bytes = (size_t)256 << 20;

static size_t chunk_bytes_of(const struct cushim_mem_heap *pool) {
    size_t share_bytes = cushim_least(pool->policy->arena_bytes / SHARES, most_chunk_bytes);
    return cushim_most(cushim_rounded(share_bytes, STEP_BYTES), STEP_BYTES);
}

static size_t most_chunks_of(const struct cushim_mem_heap *pool) {
    size_t n_chunks = pool->policy->arena_bytes / chunk_bytes_of(pool);
    return cushim_most(cushim_least(n_chunks, MOST_CHUNKS), 1);
}

/* Is a request of this size the arena's, where there is one? */
static bool is_wanted(const struct cushim_mem_heap *pool, size_t n_bytes) {
    return !pool->guard_bytes && n_bytes <= pool->policy->arena_most_bytes &&
           pool->kind == CUSHIM_MEM_DEVICE && n_bytes <= chunk_bytes_of(pool);
}

/* The epoch up to which all work is over; where frees wait no block has one. */
static uint64_t done_of(struct cushim_mem_heap *pool) {
    return pool->policy->is_relaxed ? cushim_mem_fence_done(pool->fence) : 0;
}

static unsigned n_ready(const struct cushim_mem_arena *arena) {
    return atomic_load_explicit(&arena->n_ready, memory_order_acquire);
}

/* ---- taking ---- */

/* From a chunk that serves from its start again, or that a reset passed since it last served. */
static bool take_from_other(struct cushim_mem_heap *pool, struct cushim_mem_chunk *chunk,
                            size_t n_bytes, uint64_t done, struct cushim_mem_blockref *place) {
    if (cushim_mem_chunk_take(chunk, n_bytes, done, true, pool->stats, place))
        return true;
    if (!atomic_load_explicit(&chunk->is_passed, memory_order_relaxed) ||
        !cushim_mem_chunk_lower(chunk, done) ||
        !atomic_exchange_explicit(&chunk->is_passed, false, memory_order_relaxed))
        return false;
    return cushim_mem_chunk_take(chunk, n_bytes, done, false, pool->stats, place);
}

/* From the chunks that are open, without the lock. */
static bool take_from_any(struct cushim_mem_heap *pool, size_t n_bytes,
                          struct cushim_mem_blockref *place) {
    struct cushim_mem_arena *arena = &pool->arena;
    unsigned n = n_ready(arena);
    unsigned current = atomic_load_explicit(&arena->current, memory_order_relaxed);
    uint64_t done = done_of(pool);
    if (current < n &&
        cushim_mem_chunk_take(&arena->chunks[current], n_bytes, done, false, pool->stats, place))
        return true;
    uint64_t now = atomic_load_explicit(&arena->n_changes, memory_order_acquire) + done;
    if (atomic_load_explicit(&arena->searched_at, memory_order_relaxed) == now)
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (take_from_other(pool, &arena->chunks[i], n_bytes, done, place)) {
            atomic_store_explicit(&arena->current, i, memory_order_relaxed);
            return true;
        }
    }
    atomic_store_explicit(&arena->searched_at, now, memory_order_relaxed);
    return false;
}

/* The epoch that the youngest empty chunk waits for; 0 where none does. */
static uint64_t deferred_tag(struct cushim_mem_heap *pool) {
    uint64_t youngest = 0, done = done_of(pool);
    for (unsigned i = 0; i < n_ready(&pool->arena); i++) {
        const struct cushim_mem_chunk *chunk = &pool->arena.chunks[i];
        uint64_t tag = atomic_load_explicit(&chunk->newest_tag, memory_order_relaxed);
        if (tag > done && tag > youngest && !cushim_mem_chunk_is_used(chunk))
            youngest = tag;
    }
    return youngest;
}

/* Ask the driver whether the work is over that keeps an empty chunk from being rewound, and that of
 * streams which blocks were freed on. */
static void poll_fence(struct cushim_mem_heap *pool) {
    CUresult answer;
    if (atomic_load_explicit(&pool->deferred.n_rows, memory_order_relaxed)) {
        pthread_mutex_lock(&pool->lock);
        cushim_mem_heap_give_deferred(pool);
        pthread_mutex_unlock(&pool->lock);
    }
    uint64_t tag = deferred_tag(pool);
    if (tag)
        cushim_mem_deferred_batch_prove(pool, tag, &answer);
}

/* ---- opening and closing ---- */

/* Its pages are the heap's again, where no block is there.  Under the lock. */
static void close_chunk(struct cushim_mem_heap *pool, struct cushim_mem_chunk *chunk) {
    struct cushim_mem_extent *extent = cushim_mem_chunk_close(chunk, done_of(pool));
    if (!extent)
        return;
    atomic_fetch_sub_explicit(&pool->arena.n_open, 1, memory_order_relaxed);
    cushim_mem_free_lists_give(pool, &(struct cushim_mem_blockref){extent, 0});
}

/* A chunk that is closed, made if there is none; NULL where all are open or host memory is out. */
static struct cushim_mem_chunk *closed_chunk(struct cushim_mem_heap *pool) {
    struct cushim_mem_arena *arena = &pool->arena;
    unsigned n = n_ready(arena);
    for (unsigned i = 0; i < n; i++) {
        if (!arena->chunks[i].extent)
            return &arena->chunks[i];
    }
    if (!arena->chunks)
        arena->chunks =
            cushim_mem_meta_obtain(&pool->meta, most_chunks_of(pool) * sizeof *arena->chunks);
    uint32_t n_grains = (uint32_t)(chunk_bytes_of(pool) / CUSHIM_MEM_GRAIN_BYTES);
    if (!arena->chunks || n == most_chunks_of(pool) ||
        !cushim_mem_chunk_make(&arena->chunks[n], &pool->meta, n_grains))
        return NULL;
    atomic_store_explicit(&arena->n_ready, n + 1, memory_order_release);
    return &arena->chunks[n];
}

static bool may_open(const struct cushim_mem_heap *pool) {
    return atomic_load_explicit(&pool->arena.n_open, memory_order_relaxed) < most_chunks_of(pool);
}

/* Open a chunk on free pages of the heap and take the block from it.  Under the lock. */
static bool open_and_take(struct cushim_mem_heap *pool, size_t n_bytes,
                          struct cushim_mem_blockref *place) {
    struct cushim_mem_blockref run;
    if (take_from_any(pool, n_bytes, place)) /* another thread opened one */
        return true;
    struct cushim_mem_chunk *chunk = closed_chunk(pool);
    if (!chunk || !cushim_mem_free_lists_take_run(pool, chunk_bytes_of(pool), &run))
        return false;
    cushim_mem_chunk_open(chunk, run.extent);
    atomic_fetch_add_explicit(&pool->arena.n_open, 1, memory_order_relaxed);
    atomic_store_explicit(&pool->arena.current, (unsigned)(chunk - pool->arena.chunks),
                          memory_order_relaxed);
    return cushim_mem_chunk_take(chunk, n_bytes, 0, false, pool->stats, place);
}

/* From a chunk that became usable meanwhile, or from one on memory of the driver. */
static enum cushim_status fetch(struct cushim_mem_heap *pool, uint64_t life, size_t n_bytes,
                                struct cushim_mem_blockref *place, bool *is_hit) {
    struct cushim_mem_extent *extent;
    poll_fence(pool);
    if (take_from_any(pool, n_bytes, place))
        return CUSHIM_OK;
    enum cushim_status status =
        may_open(pool) ? cushim_mem_heap_grow(pool, life, chunk_bytes_of(pool), false, &extent)
                       : CUSHIM_NOTSUPPORTED;
    if (status != CUSHIM_OK)
        return status == CUSHIM_STATE ? CUSHIM_STATE : CUSHIM_NOTSUPPORTED;
    bool is_taken = open_and_take(pool, n_bytes, place);
    pthread_mutex_unlock(&pool->lock);
    *is_hit = !is_taken;
    return is_taken ? CUSHIM_OK : CUSHIM_NOTSUPPORTED;
}

enum cushim_status cushim_mem_arena_take(struct cushim_mem_heap *pool, uint64_t life,
                                         size_t n_bytes, bool may_fetch,
                                         struct cushim_mem_blockref *place, bool *is_hit) {
    if (!is_wanted(pool, n_bytes))
        return CUSHIM_NOTSUPPORTED;
    if (take_from_any(pool, n_bytes, place))
        return CUSHIM_OK;
    if (may_open(pool)) {
        if (!cushim_mem_heap_lock_life(pool, life))
            return CUSHIM_STATE;
        bool is_taken = open_and_take(pool, n_bytes, place);
        pthread_mutex_unlock(&pool->lock);
        if (is_taken)
            return CUSHIM_OK;
    } else if (!deferred_tag(pool)) { /* else it may help to ask whether one is over */
        return CUSHIM_NOTSUPPORTED;
    }
    return may_fetch ? fetch(pool, life, n_bytes, place, is_hit) : CUSHIM_NOTFOUND;
}

void cushim_mem_arena_drain(struct cushim_mem_heap *pool) {
    for (unsigned i = 0; i < n_ready(&pool->arena); i++)
        close_chunk(pool, &pool->arena.chunks[i]);
}

void cushim_mem_arena_abandon(struct cushim_mem_heap *pool) {
    struct cushim_mem_arena *arena = &pool->arena;
    for (unsigned i = 0; i < n_ready(arena); i++)
        cushim_mem_chunk_abandon(&arena->chunks[i], pool->stats);
    atomic_store_explicit(&arena->n_open, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&arena->n_changes, 1, memory_order_release);
}

/* ---- giving ---- */

void cushim_mem_arena_give(struct cushim_mem_heap *pool, const struct cushim_mem_blockref *place,
                           uint64_t tag) {
    struct cushim_mem_chunk *chunk = place->extent->chunk;
    CUresult answer;
    uint32_t pending = CUSHIM_MEM_DEFERRED;
    uint64_t done = tag ? done_of(pool) : 0;
    /* the context may have gone meanwhile, and the block with it */
    if (!chunk || !atomic_compare_exchange_strong_explicit(
                      &chunk->cells[place->index].state, &pending, CUSHIM_MEM_FREE,
                      memory_order_release, memory_order_relaxed))
        return;
    enum cushim_mem_chunk_end end = cushim_mem_chunk_give(chunk, tag, done);
    if (end == CUSHIM_MEM_CHUNK_USED)
        return;
    if (end == CUSHIM_MEM_CHUNK_REWOUND)
        cushim_mem_stats_add(&pool->stats->n_arena_rewinds, 1);
    else if (!cushim_mem_chunk_is_over(chunk, done))
        /* a fence of its own, or the chunk might stay deferred for as long as nobody fences */
        cushim_mem_fence_start(pool->fence, &answer);
    atomic_fetch_add_explicit(&pool->arena.n_changes, 1, memory_order_release);
}

bool cushim_mem_arena_serves(const struct cushim_mem_blockref *place) {
    const struct cushim_mem_chunk *chunk =
        cushim_mem_arena_has(place) ? place->extent->chunk : NULL;
    return chunk && !atomic_load_explicit(&chunk->is_shown, memory_order_relaxed);
}

void cushim_mem_arena_give_locked(struct cushim_mem_heap *pool,
                                  const struct cushim_mem_blockref *place) {
    struct cushim_mem_chunk *chunk = place->extent->chunk;
    cushim_mem_arena_give(pool, place, 0);
    if (chunk && atomic_load_explicit(&chunk->is_shown, memory_order_relaxed))
        close_chunk(pool, chunk);
}

unsigned cushim_mem_arena_reset(struct cushim_mem_heap *pool) {
    struct cushim_mem_arena *arena = &pool->arena;
    uint64_t done = done_of(pool);
    unsigned n_kept = 0;
    bool is_deferred = false;
    CUresult answer;
    for (unsigned i = 0; i < n_ready(arena); i++) {
        struct cushim_mem_chunk *chunk = &arena->chunks[i];
        is_deferred |= !cushim_mem_chunk_is_over(chunk, done);
        if (!cushim_mem_chunk_is_used(chunk))
            continue;
        atomic_store_explicit(&chunk->is_passed, true, memory_order_relaxed);
        n_kept++;
    }
    if (is_deferred)
        cushim_mem_fence_start(pool->fence, &answer);
    atomic_store_explicit(&arena->current, NONE, memory_order_relaxed);
    atomic_fetch_add_explicit(&arena->n_changes, 1, memory_order_release);
    if (n_kept)
        cushim_mem_stats_add(&pool->stats->n_arena_kept, n_kept);
    return n_kept;
}
