#include "memory/arena.h"

#include "memory/state/heap_state.h"
#include "memory/state/free_lists.h"
#include "memory/alloc.h"
#include "memory/heap.h"

enum {
    STEP_BYTES = 2 << 20,
    SHARES = 32, /* chunks in an arena, unless they would be very small or very large */
    MOST_CHUNKS = 512,
    NONE = MOST_CHUNKS
};
static const size_t most_chunk_bytes = (size_t)256 << 20;

static size_t chunk_bytes_of(const struct cushim_mem_heap *heap) {
    size_t share_bytes = cushim_least(heap->policy->arena_bytes / SHARES, most_chunk_bytes);
    return cushim_most(cushim_rounded(share_bytes, STEP_BYTES), STEP_BYTES);
}

static size_t most_chunks_of(const struct cushim_mem_heap *heap) {
    size_t n_chunks = heap->policy->arena_bytes / chunk_bytes_of(heap);
    return cushim_most(cushim_least(n_chunks, MOST_CHUNKS), 1);
}

/* The epoch up to which all work is over; if frees wait, blocks have none. */
static uint64_t done_of(struct cushim_mem_heap *heap) {
    return heap->policy->is_relaxed ? cushim_mem_fence_done(heap->fence) : 0;
}

static unsigned n_ready(const struct cushim_mem_arena *arena) {
    return load_acquire(&arena->n_ready);
}

/* ---- taking ---- */

/* Take from a chunk that serves from its start again, or that has not served since a reset. */
static bool take_from_other(struct cushim_mem_heap *heap, struct cushim_mem_chunk *chunk,
                            size_t n_bytes, uint64_t done, struct cushim_mem_blockref *ref) {
    if (cushim_mem_chunk_take(chunk, n_bytes, done, true, heap->stats, ref))
        return true;
    if (!load_relaxed(&chunk->is_passed) || !cushim_mem_chunk_lower(chunk, done) ||
        !atomic_exchange_explicit(&chunk->is_passed, false, memory_order_relaxed))
        return false;
    return cushim_mem_chunk_take(chunk, n_bytes, done, false, heap->stats, ref);
}

/* Take from the open chunks, without the lock. */
static bool take_from_any(struct cushim_mem_heap *heap, size_t n_bytes,
                          struct cushim_mem_blockref *ref) {
    struct cushim_mem_arena *arena = &heap->arena;
    unsigned n = n_ready(arena);
    unsigned current = load_relaxed(&arena->current);
    uint64_t done = done_of(heap);
    if (current < n &&
        cushim_mem_chunk_take(&arena->chunks[current], n_bytes, done, false, heap->stats, ref))
        return true;
    uint64_t now = load_acquire(&arena->n_changes) + done;
    if (load_relaxed(&arena->searched_at) == now)
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (take_from_other(heap, &arena->chunks[i], n_bytes, done, ref)) {
            store_relaxed(&arena->current, i);
            return true;
        }
    }
    store_relaxed(&arena->searched_at, now);
    return false;
}

/* The epoch for which the youngest empty chunk waits; 0: none waits. */
static uint64_t deferred_tag(struct cushim_mem_heap *heap) {
    uint64_t youngest = 0, done = done_of(heap);
    for (unsigned i = 0; i < n_ready(&heap->arena); i++) {
        const struct cushim_mem_chunk *chunk = &heap->arena.chunks[i];
        uint64_t tag = load_relaxed(&chunk->newest_tag);
        if (tag > done && tag > youngest && !cushim_mem_chunk_is_used(chunk))
            youngest = tag;
    }
    return youngest;
}

/* Ask the driver whether work is over that keeps an empty chunk from being rewound, and work of
 * streams in whose order blocks were freed. */
static void poll_fence(struct cushim_mem_heap *heap) {
    CUresult answer;
    if (load_relaxed(&heap->deferred.n_rows)) {
        pthread_mutex_lock(&heap->lock);
        cushim_mem_heap_give_deferred(heap);
        pthread_mutex_unlock(&heap->lock);
    }
    uint64_t tag = deferred_tag(heap);
    if (tag)
        cushim_mem_deferred_batch_prove(heap, tag, &answer);
}

/* ---- opening and closing ---- */

/* If it has no block, its pages belong to the heap again.  The caller holds the lock. */
static void close_chunk(struct cushim_mem_heap *heap, struct cushim_mem_chunk *chunk) {
    struct cushim_mem_extent *extent = cushim_mem_chunk_close(chunk, done_of(heap));
    if (!extent)
        return;
    atomic_fetch_sub_explicit(&heap->arena.n_open, 1, memory_order_relaxed);
    cushim_mem_free_lists_give(heap, &(struct cushim_mem_blockref){extent, 0});
}

/* A closed chunk, which is made if there is none; NULL if all are open or host memory is out. */
static struct cushim_mem_chunk *closed_chunk(struct cushim_mem_heap *heap) {
    struct cushim_mem_arena *arena = &heap->arena;
    unsigned n = n_ready(arena);
    for (unsigned i = 0; i < n; i++) {
        if (!arena->chunks[i].extent)
            return &arena->chunks[i];
    }
    if (!arena->chunks)
        arena->chunks =
            cushim_mem_meta_obtain(&heap->meta, most_chunks_of(heap) * sizeof *arena->chunks);
    uint32_t n_grains = (uint32_t)(chunk_bytes_of(heap) / CUSHIM_MEM_GRAIN_BYTES);
    if (!arena->chunks || n == most_chunks_of(heap) ||
        !cushim_mem_chunk_make(&arena->chunks[n], &heap->meta, n_grains))
        return NULL;
    store_release(&arena->n_ready, n + 1);
    return &arena->chunks[n];
}

static bool may_open(const struct cushim_mem_heap *heap) {
    return load_relaxed(&heap->arena.n_open) < most_chunks_of(heap);
}

/* Open a chunk on free pages of the heap and take the block from it.  The caller holds the lock. */
static bool open_and_take(struct cushim_mem_heap *heap, size_t n_bytes,
                          struct cushim_mem_blockref *ref) {
    struct cushim_mem_blockref run;
    if (take_from_any(heap, n_bytes, ref)) /* another thread opened one */
        return true;
    struct cushim_mem_chunk *chunk = closed_chunk(heap);
    if (!chunk || !cushim_mem_free_lists_take_run(heap, chunk_bytes_of(heap), &run))
        return false;
    cushim_mem_chunk_open(chunk, run.extent);
    atomic_fetch_add_explicit(&heap->arena.n_open, 1, memory_order_relaxed);
    store_relaxed(&heap->arena.current, (unsigned)(chunk - heap->arena.chunks));
    return cushim_mem_chunk_take(chunk, n_bytes, 0, false, heap->stats, ref);
}

/* Take from a chunk that became usable meanwhile, or from one on fresh memory of the driver. */
static enum cushim_status fetch(struct cushim_mem_heap *heap, uint64_t life, size_t n_bytes,
                                struct cushim_mem_blockref *ref, bool *is_hit) {
    struct cushim_mem_extent *extent;
    poll_fence(heap);
    if (take_from_any(heap, n_bytes, ref))
        return CUSHIM_OK;
    enum cushim_status status =
        may_open(heap) ? cushim_mem_heap_grow(heap, life, chunk_bytes_of(heap), false, &extent)
                       : CUSHIM_NOTSUPPORTED;
    if (status != CUSHIM_OK)
        return status == CUSHIM_STATE ? CUSHIM_STATE : CUSHIM_NOTSUPPORTED;
    bool is_taken = open_and_take(heap, n_bytes, ref);
    pthread_mutex_unlock(&heap->lock);
    *is_hit = !is_taken;
    return is_taken ? CUSHIM_OK : CUSHIM_NOTSUPPORTED;
}

enum cushim_status cushim_mem_arena_take(struct cushim_mem_heap *heap, uint64_t life,
                                         size_t n_bytes, bool may_fetch,
                                         struct cushim_mem_blockref *ref, bool *is_hit) {
    /* does the arena, if there is one, serve requests of this size? */
    if (heap->guard_bytes || n_bytes > heap->policy->arena_most_bytes ||
        heap->kind != CUSHIM_MEM_DEVICE || n_bytes > chunk_bytes_of(heap))
        return CUSHIM_NOTSUPPORTED;
    if (take_from_any(heap, n_bytes, ref))
        return CUSHIM_OK;
    if (may_open(heap)) {
        if (!cushim_mem_heap_lock_life(heap, life))
            return CUSHIM_STATE;
        bool is_taken = open_and_take(heap, n_bytes, ref);
        pthread_mutex_unlock(&heap->lock);
        if (is_taken)
            return CUSHIM_OK;
    } else if (!deferred_tag(heap)) { /* if there is one, it may help to ask whether it is over */
        return CUSHIM_NOTSUPPORTED;
    }
    return may_fetch ? fetch(heap, life, n_bytes, ref, is_hit) : CUSHIM_NOTFOUND;
}

void cushim_mem_arena_drain(struct cushim_mem_heap *heap) {
    for (unsigned i = 0; i < n_ready(&heap->arena); i++)
        close_chunk(heap, &heap->arena.chunks[i]);
}

void cushim_mem_arena_abandon(struct cushim_mem_heap *heap) {
    struct cushim_mem_arena *arena = &heap->arena;
    for (unsigned i = 0; i < n_ready(arena); i++)
        cushim_mem_chunk_abandon(&arena->chunks[i], heap->stats);
    store_relaxed(&arena->n_open, 0);
    atomic_fetch_add_explicit(&arena->n_changes, 1, memory_order_release);
}

/* ---- giving ---- */

void cushim_mem_arena_give(struct cushim_mem_heap *heap, const struct cushim_mem_blockref *ref,
                           uint64_t tag) {
    struct cushim_mem_chunk *chunk = ref->extent->chunk;
    CUresult answer;
    uint32_t pending = CUSHIM_MEM_DEFERRED;
    uint64_t done = tag ? done_of(heap) : 0;
    /* the context may be gone meanwhile, and the block with it */
    if (!chunk || !atomic_compare_exchange_strong_explicit(
                      &chunk->cells[ref->index].state, &pending, CUSHIM_MEM_FREE,
                      memory_order_release, memory_order_relaxed))
        return;
    enum cushim_mem_chunk_end end = cushim_mem_chunk_give(chunk, tag, done);
    if (end == CUSHIM_MEM_CHUNK_USED)
        return;
    if (end == CUSHIM_MEM_CHUNK_REWOUND)
        cushim_mem_stats_add(&heap->stats->n_arena_rewinds, 1);
    else if (!cushim_mem_chunk_is_over(chunk, done))
        /* it makes a fence, because otherwise the chunk might stay deferred until something else
         * does */
        cushim_mem_fence_start(heap->fence, &answer);
    atomic_fetch_add_explicit(&heap->arena.n_changes, 1, memory_order_release);
}

bool cushim_mem_arena_serves(const struct cushim_mem_blockref *ref) {
    const struct cushim_mem_chunk *chunk = cushim_mem_arena_has(ref) ? ref->extent->chunk : NULL;
    return chunk && !load_relaxed(&chunk->is_shown);
}

void cushim_mem_arena_give_locked(struct cushim_mem_heap *heap,
                                  const struct cushim_mem_blockref *ref) {
    struct cushim_mem_chunk *chunk = ref->extent->chunk;
    cushim_mem_arena_give(heap, ref, 0);
    if (chunk && load_relaxed(&chunk->is_shown))
        close_chunk(heap, chunk);
}

unsigned cushim_mem_arena_reset(struct cushim_mem_heap *heap) {
    struct cushim_mem_arena *arena = &heap->arena;
    uint64_t done = done_of(heap);
    unsigned n_kept = 0;
    bool is_deferred = false;
    CUresult answer;
    for (unsigned i = 0; i < n_ready(arena); i++) {
        struct cushim_mem_chunk *chunk = &arena->chunks[i];
        is_deferred |= !cushim_mem_chunk_is_over(chunk, done);
        if (!cushim_mem_chunk_is_used(chunk))
            continue;
        store_relaxed(&chunk->is_passed, true);
        n_kept++;
    }
    if (is_deferred)
        cushim_mem_fence_start(heap->fence, &answer);
    store_relaxed(&arena->current, NONE);
    atomic_fetch_add_explicit(&arena->n_changes, 1, memory_order_release);
    if (n_kept)
        cushim_mem_stats_add(&heap->stats->n_arena_kept, n_kept);
    return n_kept;
}
