#include "companion/pool/pool_call.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/try.h"
#include "companion/context/address_map.h"
#include "companion/capture/known_captures.h"
#include "memory/reclaim.h"
#include "memory/alloc.h"
#include "memory/heap.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

struct cushim_mem_blocks cushim_pool_blocks;

enum { DEDICATED_BYTES = 2 << 20 };
static const size_t never_shared_bytes = (size_t)256 << 20;

static _Atomic(struct cushim_pool_heap *) everyone;

/* ---- the table, under the heap's lock ---- */

struct cushim_pool_block *cushim_pool_heap_at(struct cushim_pool_heap *heap, uint32_t index) {
    uint32_t i = index >> CUSHIM_POOL_LOG2_CHUNK;
    struct cushim_pool_block *chunk =
        i < CUSHIM_POOL_N_CHUNKS
            ? atomic_load_explicit(&heap->table.chunks[i], memory_order_acquire)
            : NULL;
    return chunk ? &chunk[index & ((1u << CUSHIM_POOL_LOG2_CHUNK) - 1)] : NULL;
}

static bool grow(struct cushim_pool_heap *heap) {
    struct cushim_pool_table *table = &heap->table;
    uint32_t n_chunks = table->n_blocks >> CUSHIM_POOL_LOG2_CHUNK;
    if (n_chunks == CUSHIM_POOL_N_CHUNKS)
        return false;
    size_t bytes = sizeof(struct cushim_pool_block) << CUSHIM_POOL_LOG2_CHUNK;
    struct cushim_pool_block *chunk = aligned_alloc(_Alignof(struct cushim_pool_block), bytes);
    if (!chunk)
        return false;
    memset(chunk, 0, bytes);
    for (uint32_t i = 1u << CUSHIM_POOL_LOG2_CHUNK; i-- > 0;) {
        chunk[i].heap = heap;
        chunk[i].index = table->n_blocks + i;
        chunk[i].older = table->spare;
        table->spare = &chunk[i];
    }
    atomic_store_explicit(&table->chunks[n_chunks], chunk, memory_order_release);
    table->n_blocks += 1u << CUSHIM_POOL_LOG2_CHUNK;
    return true;
}

/* Without an address nobody finds it: what a thread remembers of it is worthless from here on. */
static void take_address(struct cushim_pool_block *block) {
    atomic_store_explicit(&block->address, 0, memory_order_release);
}

static void put_spare(struct cushim_pool_heap *heap, struct cushim_pool_block *block) {
    block->older = heap->table.spare;
    heap->table.spare = block;
}

/* False: that life is over, and the place with it. */
static bool give_place(struct cushim_pool_heap *heap, const struct cushim_mem_blockref *ref,
                       uint64_t life) {
    struct cushim_mem_heap *core = heap->core;
    if (!cushim_mem_heap_lock_life(core, life))
        return false;
    cushim_mem_free_lists_give(core, ref);
    pthread_mutex_unlock(&core->lock);
    return true;
}

/* Off the free lists, with the allocator's lock where it is CUSHIM_OK. */
static enum cushim_status take(struct cushim_mem_heap *core, size_t bucket_bytes,
                               enum cushim_pool_from from, struct cushim_mem_blockref *ref,
                               uint64_t life) {
    if (!(life & 1))
        return CUSHIM_STATE;
    if (from == CUSHIM_POOL_NEW)
        return cushim_mem_heap_take(core, life, bucket_bytes, ref);
    if (!cushim_mem_heap_lock_life(core, life))
        return CUSHIM_STATE;
    if (from == CUSHIM_POOL_FREE
            ? cushim_mem_free_lists_take(core, bucket_bytes, ref)
            : cushim_mem_free_lists_take_cut(core, cushim_mem_sizeclass_of(bucket_bytes), ref))
        return CUSHIM_OK;
    pthread_mutex_unlock(&core->lock);
    return CUSHIM_NOTFOUND;
}

enum cushim_status cushim_pool_heap_take(struct cushim_pool_heap *heap, size_t bucket_bytes,
                                         enum cushim_pool_from from,
                                         struct cushim_pool_block **out) {
    struct cushim_mem_blockref ref;
    uint64_t life = cushim_pool_heap_life(heap);
    CUSHIM_TRY(take(heap->core, bucket_bytes, from, &ref, life));
    /* LIVE to the allocator, and so found by its address */
    struct cushim_mem_block_meta *meta = &ref.extent->cells[ref.index];
    atomic_store_explicit(&meta->asked_bytes, bucket_bytes, memory_order_relaxed);
    atomic_store_explicit(&meta->state, CUSHIM_MEM_LIVE, memory_order_release);
    pthread_mutex_unlock(&heap->core->lock);
    pthread_mutex_lock(&heap->lock);
    struct cushim_pool_block *block = NULL;
    /* a table that was emptied meanwhile gets no block: nobody would empty it again */
    bool is_lost = atomic_load(&heap->is_lost);
    if (!is_lost && (heap->table.spare || grow(heap))) {
        block = heap->table.spare;
        heap->table.spare = block->older;
        heap->table.n_used++;
        block->ref = ref;
        block->bucket_bytes = bucket_bytes;
        block->deferred_life = 0;
        block->is_poisoned = false;
        atomic_store_explicit(&block->n_holds, 0, memory_order_relaxed);
        atomic_store_explicit(&block->cache, NULL, memory_order_relaxed);
        atomic_store_explicit(&block->asked_bytes, bucket_bytes, memory_order_relaxed);
        /* what a look-up reads without a lock: the builtins, for the field is the allocator's */
        __atomic_store_n(&meta->next_free, block->index, __ATOMIC_RELEASE);
        atomic_store_explicit(&block->address,
                              cushim_mem_extent_address(ref.extent) +
                                  ref.index * ref.extent->block_bytes,
                              memory_order_release);
        cushim_pool_block_set_live(block);
    }
    pthread_mutex_unlock(&heap->lock);
    if (!block)
        give_place(heap, &ref, life);
    *out = block;
    return block ? CUSHIM_OK : is_lost ? CUSHIM_STATE : CUSHIM_NOMEM;
}

struct cushim_pool_block *cushim_pool_heap_block(uint64_t address) {
    struct cushim_mem_lookup lookup;
    if (!cushim_mem_blocks_find(&cushim_pool_blocks, address, &lookup) ||
        lookup.state != CUSHIM_MEM_LIVE)
        return NULL;
    struct cushim_pool_heap *heap = (struct cushim_pool_heap *)(void *)lookup.segment->heap - 1;
    struct cushim_pool_block *block =
        cushim_pool_heap_at(heap, __atomic_load_n(&lookup.meta->next_free, __ATOMIC_ACQUIRE));
    return block && cushim_pool_block_address(block) == lookup.base ? block : NULL;
}

bool cushim_pool_block_defer(struct cushim_pool_block *block, struct cushim_pool_cache *cache,
                             uint32_t life) {
    if (!atomic_load_explicit(&block->n_holds, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&block->heap->lock);
    bool is_held = atomic_load_explicit(&block->n_holds, memory_order_relaxed) != 0;
    if (is_held) {
        block->deferred_life = life;
        atomic_store_explicit(&block->cache, cache, memory_order_relaxed);
    }
    pthread_mutex_unlock(&block->heap->lock);
    return is_held;
}

uint64_t cushim_pool_heap_life(const struct cushim_pool_heap *heap) {
    return atomic_load(&heap->core->generation);
}

/* All blocks are spare again; the allocator has forgotten them, or will. */
static void empty_table(struct cushim_pool_heap *heap) {
    for (uint32_t i = 0; i < heap->table.n_blocks; i++) {
        struct cushim_pool_block *block = cushim_pool_heap_at(heap, i);
        if (cushim_pool_block_address(block)) {
            atomic_store(&block->n_holds, 0);
            take_address(block);
            put_spare(heap, block);
        }
    }
    heap->table.n_used = 0;
}

/* ---- making ---- */

/* So that cushim_pool_heap_block finds the one by the other. */
struct with_core {
    struct cushim_pool_heap heap;
    struct cushim_mem_heap core;
};

_Static_assert(offsetof(struct with_core, core) == sizeof(struct cushim_pool_heap), "behind it");

static struct cushim_pool_heap *obtain(void) {
    struct cushim_pool_heap *heap = atomic_load_explicit(&everyone, memory_order_acquire);
    for (; heap; heap = heap->next_of_all) {
        bool is_used = false;
        if (atomic_compare_exchange_strong(&heap->is_used, &is_used, true))
            return heap;
    }
    heap = mmap(NULL, sizeof(struct with_core), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (heap == MAP_FAILED)
        return NULL;
    pthread_mutex_init(&heap->lock, NULL);
    heap->core = &((struct with_core *)(void *)heap)->core;
    atomic_init(&heap->is_used, true);
    heap->next_of_all = atomic_load_explicit(&everyone, memory_order_acquire);
    while (!atomic_compare_exchange_weak(&everyone, &heap->next_of_all, heap)) {
    }
    return heap;
}

/* Nobody's: its allocator is abandoned. */
static void drop(struct cushim_pool_heap *heap) {
    for (struct cushim_pool_cache *cache = NULL; (cache = cushim_pool_next_cache(heap, cache));) {
        struct cushim_context_object *context = cache->of.context;
        cache->of.context = NULL;
        cache->counts = (struct cushim_pool_counts){0}; /* a call may have counted late */
        cushim_object_release(context);
    }
    pthread_mutex_lock(&heap->lock);
    struct cushim_context_object *context = heap->context;
    heap->context = NULL;
    pthread_mutex_unlock(&heap->lock);
    cushim_object_release(context);
    atomic_store(&heap->is_used, false);
}

struct cushim_pool_heap *cushim_pool_heap_next(struct cushim_pool_heap *heap) {
    heap = heap ? heap->next_of_all : atomic_load_explicit(&everyone, memory_order_acquire);
    while (heap && !atomic_load_explicit(&heap->is_used, memory_order_acquire))
        heap = heap->next_of_all;
    return heap;
}

_Static_assert((int)CUSHIM_MEM_DEVICE == CUSHIM_MEMORY_DEVICE &&
                   (int)CUSHIM_MEM_MANAGED == CUSHIM_MEMORY_MANAGED &&
                   (int)CUSHIM_MEM_PINNED == CUSHIM_MEMORY_PINNED &&
                   CUSHIM_POOL_N_KINDS == CUSHIM_MEMORY_PINNED + 1,
               "the first kinds of the public header are those of pools");

const struct cushim_mem_provider *const cushim_pool_providers[CUSHIM_POOL_N_KINDS] = {
    [CUSHIM_MEM_DEVICE] = &cushim_mem_provider_device,
    [CUSHIM_MEM_MANAGED] = &cushim_mem_provider_managed,
    [CUSHIM_MEM_PINNED] = &cushim_mem_provider_pinned,
};

static const unsigned provider_flags[CUSHIM_POOL_N_KINDS] = {
    [CUSHIM_MEM_MANAGED] = CU_MEM_ATTACH_GLOBAL,
    [CUSHIM_MEM_PINNED] = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
};

static void open_core(struct cushim_pool_heap *heap, struct cushim_pool_object *pool) {
    memset(&heap->core_stats, 0, sizeof heap->core_stats);
    memset(&heap->core_policy, 0, sizeof heap->core_policy);
    atomic_init(&heap->core_policy.dedicated_bytes,
                pool->options.dedicated ? DEDICATED_BYTES : never_shared_bytes);
    heap->core_policy.keeps_all = true;
    heap->core_policy.is_sparing = heap->kind == CUSHIM_MEM_PINNED;
    /* no guard: this allocator never waits */
    cushim_mem_heap_open(heap->core, &(struct cushim_mem_heap_setup){
                                         .cuda = &cushim_driver_cuda,
                                         .context = heap->context->handle,
                                         .device = heap->context->device,
                                         .blocks = &cushim_pool_blocks,
                                         .policy = &heap->core_policy,
                                         .stats = &heap->core_stats,
                                         .kind = heap->kind,
                                         .flags = provider_flags[heap->kind],
                                         .provider = cushim_pool_providers[heap->kind],
                                     });
}

/* Under the pool's lock, the context current. */
static enum cushim_status make(struct cushim_scope *scope, struct cushim_pool_object *pool,
                               struct cushim_context_object *context, enum cushim_memory_kind kind,
                               struct cushim_pool_heap **out) {
    struct cushim_pool_heap *heap = obtain();
    if (!heap)
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof(struct with_core));
    pthread_mutex_lock(&heap->lock); /* who looks for dead ones sees it already */
    heap->context = cushim_object_keep(context);
    heap->is_forgotten = false;
    pthread_mutex_unlock(&heap->lock);
    heap->kind = (enum cushim_mem_kind)kind;
    atomic_store(&heap->is_lost, false);
    atomic_store(&heap->graph_blocks, 0);
    atomic_store(&heap->graph_bytes, 0);
    heap->peak_bytes[0] = heap->peak_bytes[1] = 0;
    heap->options = pool->options;
    heap->is_free_long =
        pool->is_checked || pool->options.cap_live_bytes || pool->options.cap_cached_bytes;
    uint32_t life;
    heap->all = cushim_pool_cache_of(
        heap, &(struct cushim_pool_stream){.context = context, .handle = CUSHIM_POOL_ALL},
        scope->what, &life);
    if (!heap->all) {
        drop(heap);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof *heap->all);
    }
    open_core(heap, pool);
    pthread_mutex_lock(&heap->lock);
    heap->pool = pool;
    pthread_mutex_unlock(&heap->lock);
    atomic_store(&heap->next, atomic_load(&pool->heaps));
    atomic_store(&pool->heaps, heap);
    *out = heap;
    return CUSHIM_OK;
}

/* The heap of a device, which has one whose context lives; NULL: none. */
static struct cushim_pool_heap *known_heap(struct cushim_pool_object *pool, int dev,
                                           enum cushim_memory_kind kind) {
    struct cushim_pool_heap *heap = NULL;
    while ((heap = cushim_pool_next_heap(pool, heap)) &&
           (heap->context->device != dev || (int)heap->kind != kind ||
            cushim_context_is_dead(heap->context))) {
    }
    return heap;
}

enum cushim_status cushim_pool_heap_find(struct cushim_pool_object *pool, const char *what, int dev,
                                         enum cushim_memory_kind kind,
                                         struct cushim_pool_heap **out) {
    struct cushim_context_object *context = pool->context;
    struct cushim_scope scope;
    if (context && dev == -1)
        dev = context->device;
    if ((*out = known_heap(pool, dev, kind)))
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_context_ordinal(what, dev, &dev));
    if (context && dev != context->device)
        return cushim_fail(what, CUSHIM_BADDEVICE, "device=%d pool_device=%d", dev,
                           context->device);
    if ((*out = known_heap(pool, dev, kind)))
        return CUSHIM_OK;
    if (context)
        cushim_object_keep(context);
    else
        CUSHIM_TRY(cushim_context_of_device(what, dev, &context));
    cushim_pool_heap_lose_dead();
    enum cushim_status status = cushim_call_begin_known(&scope, what, context);
    if (status == CUSHIM_OK) {
        pthread_mutex_lock(&pool->lock);
        if (!(*out = known_heap(pool, dev, kind)))
            status = make(&scope, pool, context, kind, out);
        pthread_mutex_unlock(&pool->lock);
        status = cushim_call_end(&scope, status);
    }
    cushim_object_release(context);
    return status;
}

/* ---- ending ---- */

/*
 * Whoever set is_lost, under the heap's lock, forgets all that is in it: the driver has it no more,
 * or there is nothing.  Then it is dropped, by whoever comes last of this and the pool's end.
 */
static void forget(struct cushim_pool_heap *heap) {
    for (struct cushim_pool_cache *cache = NULL; (cache = cushim_pool_next_cache(heap, cache));)
        cushim_pool_cache_forget(cache);
    cushim_mem_heap_abandon(heap->core);
    pthread_mutex_lock(&heap->lock);
    struct cushim_pool_object *pool = heap->pool;
    if (pool)
        atomic_store(&pool->has_lost, true);
    empty_table(heap);
    heap->is_forgotten = true;
    pthread_mutex_unlock(&heap->lock);
    if (!pool)
        drop(heap);
}

void cushim_pool_heap_lose_dead(void) {
    struct cushim_pool_heap *heap = NULL;
    while ((heap = cushim_pool_heap_next(heap))) {
        pthread_mutex_lock(&heap->lock);
        bool is_ours = heap->context && cushim_context_is_dead(heap->context) &&
                       !atomic_exchange(&heap->is_lost, true);
        pthread_mutex_unlock(&heap->lock);
        if (is_ours)
            forget(heap);
    }
}

/* All idle blocks go to the free lists, over or not: the segments' release waits for what is left.
 */
static void empty_caches(struct cushim_pool_heap *heap, const char *what) {
    bool may_wait = cushim_capture_count(heap->context) == 0;
    uint64_t life = cushim_pool_heap_life(heap);
    for (struct cushim_pool_cache *cache = NULL; (cache = cushim_pool_next_cache(heap, cache));) {
        struct cushim_pool_block *block;
        cushim_futex_lock_enter(&cache->lock);
        atomic_fetch_add(&cache->life, 2); /* no fast path puts anything in from here on */
        cushim_futex_lock_leave(&cache->lock);
        if (may_wait)
            cushim_pool_cache_prove(cache, what, CUSHIM_POOL_WAIT);
        while ((block = cushim_pool_cache_pop_earliest(cache, UINT64_MAX, false)))
            cushim_pool_heap_give(heap, block, life);
        cushim_pool_cache_forget(cache);
    }
}

void cushim_pool_heap_close(struct cushim_pool_heap *heap, const char *what) {
    struct cushim_scope scope;
    bool is_alive =
        !atomic_load(&heap->is_lost) && cushim_call_begin_quietly(&scope, heap->context);
    if (is_alive) {
        empty_caches(heap, what);
        cushim_mem_reclaim_trim(heap->core, 0);
        cushim_call_end(&scope, CUSHIM_OK);
    }
    pthread_mutex_lock(&heap->lock);
    heap->pool = NULL;
    bool is_forgotten = heap->is_forgotten;
    bool is_ours = (!is_alive || !heap->table.n_used) && !atomic_exchange(&heap->is_lost, true);
    pthread_mutex_unlock(&heap->lock);
    if (is_ours)
        forget(heap);
    else if (is_forgotten)
        drop(heap);
}

void cushim_pool_heap_give(struct cushim_pool_heap *heap, struct cushim_pool_block *block,
                           uint64_t life) {
    struct cushim_mem_heap *core = heap->core;
    uint64_t address = cushim_pool_block_address(block);
    if (address)
        cushim_address_map_note_freed(address);
    pthread_mutex_lock(&heap->lock); /* a table is emptied under it, after that life is over */
    bool is_its = give_place(heap, &block->ref, life);
    if (is_its)
        take_address(block);
    bool has_pool = heap->pool != NULL;
    pthread_mutex_unlock(&heap->lock);
    if (!is_its)
        return;
    if (!has_pool)
        cushim_pool_give_back(heap, 0);
    pthread_mutex_lock(&heap->lock); /* who finds none used finds their memory back */
    put_spare(heap, block);
    bool is_same = atomic_load(&core->generation) == life;
    if (is_same)
        heap->table.n_used--;
    bool is_last =
        is_same && !heap->pool && !heap->table.n_used && !atomic_exchange(&heap->is_lost, true);
    pthread_mutex_unlock(&heap->lock);
    if (is_last)
        forget(heap);
}
