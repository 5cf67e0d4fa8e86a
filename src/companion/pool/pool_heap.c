#include "companion/pool/pool_call.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/try.h"
#include "companion/context/address_map.h"
#include "companion/capture/known_captures.h"
#include "memory/heap/reclaim.h"
#include "memory/heap/heap.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

struct cushim_mem_blocks cushim_pool_blocks;

enum { DEDICATED_BYTES = 2 << 20 };
static const size_t never_shared_bytes = (size_t)256 << 20;

static _Atomic(struct cushim_pool_heap *) everyone;

/* ---- making ---- */

struct with_engine {
    struct cushim_pool_heap heap;
    struct cushim_mem_heap engine;
};

static struct cushim_pool_heap *obtain(void) {
    struct cushim_pool_heap *heap = atomic_load_explicit(&everyone, memory_order_acquire);
    for (; heap; heap = heap->next_of_all) {
        bool is_used = false;
        if (atomic_compare_exchange_strong(&heap->is_used, &is_used, true))
            return heap;
    }
    heap = mmap(NULL, sizeof(struct with_engine), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED)
        return NULL;
    pthread_mutex_init(&heap->streams.lock, NULL);
    heap->streams.heap = &((struct with_engine *)(void *)heap)->engine;
    heap->streams.heap->owner = &heap->streams;
    atomic_init(&heap->streams.is_lost, true);
    atomic_init(&heap->is_used, true);
    heap->next_of_all = atomic_load_explicit(&everyone, memory_order_acquire);
    while (!atomic_compare_exchange_weak(&everyone, &heap->next_of_all, heap)) {
    }
    return heap;
}

/* Nobody's: the engine's heap is abandoned. */
static void drop(struct cushim_pool_heap *heap) {
    cushim_mem_streams_end(&heap->streams);
    pthread_mutex_lock(&heap->streams.lock);
    struct cushim_context_object *context = heap->context;
    heap->context = NULL;
    pthread_mutex_unlock(&heap->streams.lock);
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

/* ---- forgetting ---- */

/*
 * The thread that set is_lost, under the streams' lock, forgets all that is in it: the driver has
 * it no more, or there is nothing.  Then the heap is dropped, by the later of this and the pool's
 * end.
 */
static void forget(struct cushim_pool_heap *heap) {
    cushim_mem_heap_abandon(heap->streams.heap);
    pthread_mutex_lock(&heap->streams.lock);
    struct cushim_pool_object *pool = heap->pool;
    if (pool)
        atomic_store(&pool->has_lost, true);
    heap->is_forgotten = true;
    pthread_mutex_unlock(&heap->streams.lock);
    if (!pool)
        drop(heap);
}

static void forget_last(struct cushim_mem_streams *streams) {
    forget(cushim_pool_heap_of(streams));
}

/* ---- opening ---- */

static void open_engine(struct cushim_pool_heap *heap, struct cushim_pool_object *pool) {
    memset(&heap->stats, 0, sizeof heap->stats);
    memset(&heap->policy, 0, sizeof heap->policy);
    atomic_init(&heap->policy.dedicated_bytes,
                pool->options.dedicated ? DEDICATED_BYTES : never_shared_bytes);
    heap->policy.keeps_all = true;
    heap->policy.is_sparing = heap->kind == CUSHIM_MEM_PINNED;
    /* no guard: a pool records for itself, and its heap never waits */
    cushim_mem_heap_open(heap->streams.heap, &(struct cushim_mem_heap_setup){
                                                 .cuda = &cushim_driver_cuda,
                                                 .context = heap->context->handle,
                                                 .device = heap->context->device,
                                                 .blocks = &cushim_pool_blocks,
                                                 .policy = &heap->policy,
                                                 .stats = &heap->stats,
                                                 .kind = heap->kind,
                                                 .flags = provider_flags[heap->kind],
                                                 .provider = cushim_pool_providers[heap->kind],
                                                 .fence = &heap->context->fence,
                                             });
}

/* What its caches may do, before they begin. */
static void set_up_streams(struct cushim_pool_heap *heap, const struct cushim_pool_object *pool) {
    static const struct cushim_mem_streams_owner owner = {
        .block_went = cushim_address_map_note_freed, .last_went = forget_last};
    struct cushim_mem_streams *streams = &heap->streams;
    const struct cushim_pool_options *options = &pool->options;
    bool is_watched = pool->is_checked || options->cap_live_bytes || options->cap_cached_bytes;
    streams->owner = &owner;
    streams->most_bytes = is_watched ? 0 : options->cap_bucket_bytes;
    streams->most_blocks = is_watched ? 0 : options->cap_bucket_blocks;
    streams->keep_bytes = options->keep_bytes;
    streams->poll_ns = (uint64_t)options->poll_us * 1000;
    streams->has_order = heap->kind == CUSHIM_MEM_DEVICE;
    streams->is_orphan = false;
}

/* Under the pool's lock, the context current. */
static enum cushim_status make(struct cushim_scope *scope, struct cushim_pool_object *pool,
                               struct cushim_context_object *context, enum cushim_memory_kind kind,
                               struct cushim_pool_heap **out) {
    struct cushim_pool_heap *heap = obtain();
    if (!heap)
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof(struct with_engine));
    pthread_mutex_lock(&heap->streams.lock); /* other threads look at its context already */
    heap->context = cushim_object_keep(context);
    heap->is_forgotten = false;
    pthread_mutex_unlock(&heap->streams.lock);
    heap->kind = (enum cushim_mem_kind)kind;
    heap->options = pool->options;
    set_up_streams(heap, pool);
    if (!cushim_mem_streams_begin(&heap->streams, &context->fence)) {
        drop(heap);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof *heap->streams.all);
    }
    open_engine(heap, pool);
    pthread_mutex_lock(&heap->streams.lock);
    heap->pool = pool;
    atomic_store(&heap->streams.is_lost,
                 false); /* from here on a thread that sees it dead forgets it */
    pthread_mutex_unlock(&heap->streams.lock);
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

/* ---- the end of the pool, and of a context ---- */

void cushim_pool_heap_lose_dead(void) {
    struct cushim_pool_heap *heap = NULL;
    while ((heap = cushim_pool_heap_next(heap))) {
        pthread_mutex_lock(&heap->streams.lock);
        bool is_ours = heap->context && cushim_context_is_dead(heap->context) &&
                       !atomic_exchange(&heap->streams.is_lost, true);
        pthread_mutex_unlock(&heap->streams.lock);
        if (is_ours)
            forget(heap);
    }
}

void cushim_pool_heap_close(struct cushim_pool_heap *heap) {
    struct cushim_mem_streams *streams = &heap->streams;
    struct cushim_scope scope;
    bool is_alive =
        !atomic_load(&streams->is_lost) && cushim_call_begin_quietly(&scope, heap->context);
    if (is_alive) {
        cushim_mem_streams_empty(
            streams, cushim_mem_streams_has_capture(streams) ? CUSHIM_MEM_ASK : CUSHIM_MEM_WAIT);
        cushim_mem_reclaim_trim(streams->heap, 0);
        cushim_call_end(&scope, CUSHIM_OK);
    }
    pthread_mutex_lock(&streams->lock);
    heap->pool = NULL;
    streams->is_orphan = true;
    bool is_forgotten = heap->is_forgotten;
    bool is_ours =
        (!is_alive || !streams->table.n_used) && !atomic_exchange(&streams->is_lost, true);
    pthread_mutex_unlock(&streams->lock);
    if (is_ours)
        forget(heap);
    else if (is_forgotten)
        drop(heap);
}
