#include "memory/stream_heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "base/lock.h"
#include "memory/alloc.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

static _Atomic(struct cushim_mem_streams *) everyone; /* grows at its head only */

struct cushim_mem_streams *cushim_mem_streams_next_used(struct cushim_mem_streams *streams) {
    streams = streams ? streams->next_of_all : load_acquire(&everyone);
    while (streams && !load_acquire(&streams->is_used))
        streams = streams->next_of_all;
    return streams;
}

/* ---- the table, guarded by the streams' lock ---- */

struct cushim_mem_stream_block *cushim_mem_streams_at(struct cushim_mem_streams *streams,
                                                      uint32_t index) {
    uint32_t i = index >> CUSHIM_MEM_STREAM_LOG2_CHUNK;
    struct cushim_mem_stream_block *chunk =
        i < CUSHIM_MEM_STREAM_N_CHUNKS ? load_acquire(&streams->table.chunks[i]) : NULL;
    return chunk ? &chunk[index & ((1u << CUSHIM_MEM_STREAM_LOG2_CHUNK) - 1)] : NULL;
}

static bool grow(struct cushim_mem_streams *streams) {
    struct cushim_mem_stream_table *table = &streams->table;
    uint32_t n_chunks = table->n_blocks >> CUSHIM_MEM_STREAM_LOG2_CHUNK;
    if (n_chunks == CUSHIM_MEM_STREAM_N_CHUNKS)
        return false;
    size_t bytes = sizeof(struct cushim_mem_stream_block) << CUSHIM_MEM_STREAM_LOG2_CHUNK;
    struct cushim_mem_stream_block *chunk =
        aligned_alloc(_Alignof(struct cushim_mem_stream_block), bytes);
    if (!chunk)
        return false;
    memset(chunk, 0, bytes);
    for (uint32_t i = 1u << CUSHIM_MEM_STREAM_LOG2_CHUNK; i-- > 0;) {
        chunk[i].streams = streams;
        chunk[i].index = table->n_blocks + i;
        chunk[i].older = table->spare;
        table->spare = &chunk[i];
    }
    store_release(&table->chunks[n_chunks], chunk);
    table->n_blocks += 1u << CUSHIM_MEM_STREAM_LOG2_CHUNK;
    return true;
}

static void put_spare(struct cushim_mem_streams *streams, struct cushim_mem_stream_block *block) {
    block->older = streams->table.spare;
    streams->table.spare = block;
}

/* Make all blocks spare. */
static void empty_table(struct cushim_mem_streams *streams) {
    for (uint32_t i = 0; i < streams->table.n_blocks; i++) {
        struct cushim_mem_stream_block *block = cushim_mem_streams_at(streams, i);
        if (cushim_mem_stream_block_address(block)) {
            atomic_store(&block->n_holds, 0);
            /* no lookup finds it now, so what a thread remembers of it is stale */
            store_release(&block->address, 0);
            put_spare(streams, block);
        }
    }
    streams->table.n_used = 0;
}

/* ---- out of the free lists ---- */

uint64_t cushim_mem_streams_life(const struct cushim_mem_streams *streams) {
    return atomic_load(&streams->heap->generation);
}

/* Holds the heap's lock after CUSHIM_OK. */
static enum cushim_status take(struct cushim_mem_heap *heap, size_t bucket_bytes,
                               enum cushim_mem_stream_from from, struct cushim_mem_blockref *ref,
                               uint64_t life) {
    if (!(life & 1))
        return CUSHIM_STATE;
    if (from == CUSHIM_MEM_STREAM_NEW)
        return cushim_mem_heap_take(heap, life, bucket_bytes, ref);
    if (!cushim_mem_heap_lock_life(heap, life))
        return CUSHIM_STATE;
    if (from == CUSHIM_MEM_STREAM_FREE
            ? cushim_mem_free_lists_take(heap, bucket_bytes, ref)
            : cushim_mem_free_lists_take_cut(heap, cushim_mem_sizeclass_of(bucket_bytes), ref))
        return CUSHIM_OK;
    pthread_mutex_unlock(&heap->lock);
    return CUSHIM_NOTFOUND;
}

/* False: that life is over, and the place is gone. */
static bool give_place(struct cushim_mem_heap *heap, const struct cushim_mem_blockref *ref,
                       uint64_t life) {
    if (!cushim_mem_heap_lock_life(heap, life))
        return false;
    cushim_mem_free_lists_give(heap, ref);
    pthread_mutex_unlock(&heap->lock);
    return true;
}

/* Give a spare block an address, by which lookups find it.  The caller holds the streams' lock. */
static struct cushim_mem_stream_block *enter(struct cushim_mem_streams *streams,
                                             const struct cushim_mem_blockref *ref,
                                             size_t bucket_bytes) {
    struct cushim_mem_stream_block *block = streams->table.spare;
    struct cushim_mem_extent *extent = ref->extent;
    streams->table.spare = block->older;
    streams->table.n_used++;
    block->ref = *ref;
    block->bucket_bytes = bucket_bytes;
    block->deferred_life = 0;
    block->is_poisoned = block->is_shared = false;
    store_relaxed(&block->n_holds, 0);
    store_relaxed(&block->cache, NULL);
    store_relaxed(&block->asked_bytes, bucket_bytes);
    store_release(&extent->cells[ref->index].user, block->index);
    store_release(&block->address,
                  cushim_mem_extent_address(extent) + ref->index * extent->block_bytes);
    cushim_mem_stream_block_set_live(block);
    return block;
}

enum cushim_status cushim_mem_stream_block_obtain(struct cushim_mem_streams *streams,
                                                  size_t bucket_bytes,
                                                  enum cushim_mem_stream_from from,
                                                  struct cushim_mem_stream_block **out) {
    struct cushim_mem_heap *heap = streams->heap;
    struct cushim_mem_blockref ref;
    uint64_t life = cushim_mem_streams_life(streams);
    CUSHIM_TRY(take(heap, bucket_bytes, from, &ref, life));
    /* LIVE in the heap, so that a lookup of the address finds it */
    struct cushim_mem_block_meta *meta = &ref.extent->cells[ref.index];
    store_relaxed(&meta->asked_bytes, bucket_bytes);
    store_release(&meta->state, CUSHIM_MEM_LIVE);
    pthread_mutex_unlock(&heap->lock);
    pthread_mutex_lock(&streams->lock);
    /* a table that was emptied meanwhile gets no block, because it is not emptied again */
    bool is_same = cushim_mem_streams_life(streams) == life;
    bool has_room = is_same && (streams->table.spare || grow(streams));
    *out = has_room ? enter(streams, &ref, bucket_bytes) : NULL;
    pthread_mutex_unlock(&streams->lock);
    if (has_room)
        return CUSHIM_OK;
    give_place(heap, &ref, life);
    return is_same ? CUSHIM_NOMEM : CUSHIM_STATE;
}

struct cushim_mem_stream_block *cushim_mem_stream_block_find(struct cushim_mem_blocks *blocks,
                                                             uint64_t address) {
    struct cushim_mem_lookup lookup;
    if (!cushim_mem_blocks_find(blocks, address, &lookup) || lookup.state != CUSHIM_MEM_LIVE)
        return NULL;
    struct cushim_mem_stream_block *block =
        cushim_mem_streams_at(lookup.segment->heap->owner, load_acquire(&lookup.meta->user));
    return block && cushim_mem_stream_block_address(block) == lookup.base ? block : NULL;
}

/* ---- blocks that captures and graphs keep ---- */

void cushim_mem_stream_block_hold(struct cushim_mem_stream_block *block) {
    struct cushim_mem_streams *streams = block->streams;
    CUSHIM_LOCKED(&streams->lock);
    if (!atomic_fetch_add(&block->n_holds, 1)) {
        atomic_fetch_add(&streams->held_blocks, 1);
        atomic_fetch_add(&streams->held_bytes, block->bucket_bytes);
    }
}

bool cushim_mem_stream_block_defer(struct cushim_mem_stream_block *block,
                                   struct cushim_mem_stream_cache *cache, uint32_t life) {
    if (!load_relaxed(&block->n_holds))
        return false;
    CUSHIM_LOCKED(&block->streams->lock);
    bool is_held = load_relaxed(&block->n_holds) != 0;
    if (is_held) {
        block->deferred_life = life;
        store_relaxed(&block->cache, cache);
    }
    return is_held;
}

void cushim_mem_stream_block_use_again(struct cushim_mem_stream_block *block) {
    CUSHIM_LOCKED(&block->streams->lock);
    block->deferred_life = 0;
}

bool cushim_mem_stream_block_let_go(struct cushim_mem_stream_block *block, uint64_t life,
                                    bool takes_live, uint32_t *life_of_cache) {
    struct cushim_mem_streams *streams = block->streams;
    CUSHIM_LOCKED(&streams->lock);
    uint64_t address = cushim_mem_stream_block_address(block);
    bool is_there =
        address && cushim_mem_streams_life(streams) == life && !atomic_load(&streams->is_lost);
    bool is_last = is_there && atomic_fetch_sub(&block->n_holds, 1) == 1;
    *life_of_cache = is_last ? block->deferred_life : 0;
    if (is_last) {
        block->deferred_life = 0;
        atomic_fetch_sub(&streams->held_blocks, 1);
        atomic_fetch_sub(&streams->held_bytes, block->bucket_bytes);
    }
    /* if neither holds, another thread is freeing the block, and will find no holder */
    bool is_ours =
        *life_of_cache || (is_last && takes_live && cushim_mem_stream_block_take(block, address));
    return is_ours;
}

bool cushim_mem_stream_block_free_orphan(struct cushim_mem_stream_block *block, uint64_t address) {
    struct cushim_mem_streams *streams = block->streams;
    pthread_mutex_lock(&streams->lock); /* once the heap is lost, the block may be reused */
    uint64_t life = cushim_mem_streams_life(streams);
    bool is_ours = streams->is_orphan && !atomic_load(&streams->is_lost) &&
                   cushim_mem_stream_block_take(block, address);
    bool is_held = is_ours && atomic_load(&block->n_holds);
    if (is_held)
        block->deferred_life = 1; /* it goes back with the graph, to no cache */
    pthread_mutex_unlock(&streams->lock);
    if (is_ours && !is_held)
        cushim_mem_stream_block_give(block, life);
    return is_ours;
}

/* ---- back ---- */

static void put_aside(struct cushim_mem_streams *streams) {
    cushim_mem_streams_end(streams);
    atomic_store(&streams->is_used, false);
}

/* Called by the thread that set is_lost.  The heap is empty, or the driver has freed its memory. */
static void forget(struct cushim_mem_streams *streams) {
    cushim_mem_heap_abandon(streams->heap);
    pthread_mutex_lock(&streams->lock);
    bool is_orphan = streams->is_orphan;
    if (!is_orphan)
        streams->owner->forgot(streams);
    streams->is_forgotten = true;
    pthread_mutex_unlock(&streams->lock);
    if (is_orphan)
        put_aside(streams);
}

void cushim_mem_stream_block_give(struct cushim_mem_stream_block *block, uint64_t life) {
    struct cushim_mem_streams *streams = block->streams;
    uint64_t address = cushim_mem_stream_block_address(block);
    if (address)
        streams->owner->block_went(address);
    pthread_mutex_lock(&streams->lock); /* a table is emptied under this lock, after its life */
    bool is_its = give_place(streams->heap, &block->ref, life);
    if (is_its)
        store_release(&block->address, 0);
    bool is_orphan = streams->is_orphan;
    pthread_mutex_unlock(&streams->lock);
    if (!is_its)
        return;
    if (is_orphan)
        cushim_mem_reclaim_trim(streams->heap, 0);
    pthread_mutex_lock(&streams->lock); /* n_used falls only once the memory is back */
    put_spare(streams, block);
    bool is_same = cushim_mem_streams_life(streams) == life;
    if (is_same)
        streams->table.n_used--;
    bool is_last = is_same && streams->is_orphan && !streams->table.n_used &&
                   !atomic_exchange(&streams->is_lost, true);
    pthread_mutex_unlock(&streams->lock);
    if (is_last)
        forget(streams);
}

/* ---- from one use to the next ---- */

static void forget_all(struct cushim_mem_streams *streams) {
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        cushim_mem_stream_cache_forget(cache);
    }
    CUSHIM_LOCKED(&streams->lock);
    empty_table(streams);
}

enum { ALIGN_BYTES = 128 };

struct cushim_mem_streams *cushim_mem_streams_obtain(size_t n_bytes) {
    struct cushim_mem_streams *streams = load_acquire(&everyone);
    for (; streams; streams = streams->next_of_all) {
        bool is_used = false;
        if (atomic_compare_exchange_strong(&streams->is_used, &is_used, true))
            return streams;
    }
    /* not mapped, because a leak checker has to follow the struct's pointers */
    n_bytes = cushim_rounded(n_bytes, ALIGN_BYTES);
    streams = aligned_alloc(ALIGN_BYTES, n_bytes);
    struct cushim_mem_heap *heap = streams ? cushim_mem_meta_map(sizeof *heap) : NULL;
    if (!heap) {
        free(streams);
        return NULL;
    }
    memset(streams, 0, n_bytes);
    pthread_mutex_init(&streams->lock, NULL);
    streams->heap = heap;
    streams->forget = forget_all;
    heap->owner = streams;
    atomic_init(&streams->is_lost, true);
    atomic_init(&streams->is_used, true);
    streams->next_of_all = load_acquire(&everyone);
    while (!atomic_compare_exchange_weak(&everyone, &streams->next_of_all, streams)) {
    }
    return streams;
}

bool cushim_mem_streams_open(struct cushim_mem_streams *streams,
                             const struct cushim_mem_heap_setup *setup) {
    if (!cushim_mem_streams_begin(streams, setup->fence)) {
        put_aside(streams);
        return false;
    }
    cushim_mem_heap_open(streams->heap, setup);
    CUSHIM_LOCKED(&streams->lock);
    streams->is_orphan = streams->is_forgotten = false;
    atomic_store(&streams->is_lost, false);
    return true;
}

/* False: its context is gone. */
static bool empty_alive(struct cushim_mem_streams *streams) {
    CUSHIM_ENTERED entered = NULL;
    if (cushim_mem_stream_fence_enter(streams->heap->fence, &entered) != CUSHIM_OK)
        return false;
    cushim_mem_streams_empty(streams);
    cushim_mem_reclaim_trim(streams->heap, 0);
    return true;
}

void cushim_mem_streams_close(struct cushim_mem_streams *streams) {
    bool is_alive = !atomic_load(&streams->is_lost) && empty_alive(streams);
    pthread_mutex_lock(&streams->lock);
    streams->owner->leave(streams);
    streams->is_orphan = true;
    bool is_forgotten = streams->is_forgotten;
    bool is_ours =
        (!is_alive || !streams->table.n_used) && !atomic_exchange(&streams->is_lost, true);
    pthread_mutex_unlock(&streams->lock);
    if (is_ours)
        forget(streams);
    else if (is_forgotten)
        put_aside(streams);
}

void cushim_mem_streams_lose_gone(void) {
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams))) {
        pthread_mutex_lock(&streams->lock);
        /* a heap that is not lost keeps its context, and so its fence */
        bool is_ours = !atomic_load(&streams->is_lost) &&
                       cushim_mem_fence_is_gone(streams->heap->fence) &&
                       !atomic_exchange(&streams->is_lost, true);
        pthread_mutex_unlock(&streams->lock);
        if (is_ours)
            forget(streams);
    }
}

/* ---- streams that are destroyed, threads that end ---- */

void cushim_mem_streams_note(struct cushim_mem_fence *fence, CUstream handle, uint64_t begun) {
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams)))
        cushim_mem_stream_caches_note(streams, fence, handle, begun);
}

void cushim_mem_streams_end_thread(void) {
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams)))
        cushim_mem_stream_caches_end_thread(streams);
}
