#include "companion/pool/pool_call.h"

#include <string.h>

#include "companion/context/address_map.h"
#include "base/lock.h"
#include "memory/heap.h"

struct cushim_mem_blocks cushim_pool_blocks;

enum { DEDICATED_BYTES = 2 << 20 };
static const size_t never_shared_bytes = (size_t)256 << 20;

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

/* ---- callbacks of the engine ---- */

static void forgot(struct cushim_mem_streams *streams) {
    atomic_store(&cushim_pool_heap_of(streams)->pool->has_lost, true);
}

static void leave(struct cushim_mem_streams *streams) {
    cushim_pool_heap_of(streams)->pool = NULL;
}

static const struct cushim_mem_streams_owner owner = {
    .block_went = cushim_address_map_note_freed, .forgot = forgot, .leave = leave};

/* ---- opening ---- */

/* From the options of its pool: the heap's policy, and the limits of its stream caches. */
static void set_up(struct cushim_pool_heap *heap, const struct cushim_pool_object *pool) {
    struct cushim_mem_streams *streams = &heap->streams;
    const struct cushim_pool_options *options = &pool->options;
    bool is_watched = pool->is_checked || options->cap_live_bytes || options->cap_cached_bytes;
    memset(&heap->stats, 0, sizeof heap->stats);
    heap->process_bytes = heap->process_peak_bytes = 0;
    memset(&heap->policy, 0, sizeof heap->policy);
    atomic_init(&heap->policy.dedicated_bytes,
                options->dedicated ? DEDICATED_BYTES : never_shared_bytes);
    heap->policy.least_idle_bytes = cushim_least(options->keep_bytes, SIZE_MAX / 2);
    heap->policy.is_sparing = heap->kind == CUSHIM_MEM_PINNED;
    streams->owner = &owner;
    streams->most_bytes = is_watched ? 0 : options->cap_bucket_bytes;
    streams->most_blocks = is_watched ? 0 : options->cap_bucket_blocks;
    streams->poll_ns = (uint64_t)options->poll_us * 1000;
    streams->has_order = heap->kind == CUSHIM_MEM_DEVICE;
}

/* The caller holds the pool's lock, and the context is current. */
static enum cushim_status make(struct cushim_scope *scope, struct cushim_pool_object *pool,
                               struct cushim_context_object *context, enum cushim_memory_kind kind,
                               struct cushim_pool_heap **out) {
    struct cushim_mem_streams *streams = cushim_mem_streams_obtain(sizeof **out);
    CUSHIM_FAIL_IF(scope->what, !streams, CUSHIM_NOMEM, "host=%zu", sizeof **out);
    struct cushim_pool_heap *heap = cushim_pool_heap_of(streams);
    heap->context = context;
    heap->kind = (enum cushim_mem_kind)kind;
    heap->options = pool->options;
    heap->pool = pool;
    set_up(heap, pool);
    /* no capture guard, because the pool records its own fences and its heap never waits */
    const struct cushim_mem_heap_setup setup = {
        .cuda = &cushim_driver_cuda,
        .context = context->handle,
        .device = context->device,
        .blocks = &cushim_pool_blocks,
        .policy = &heap->policy,
        .stats = &heap->stats,
        .kind = heap->kind,
        .flags = provider_flags[heap->kind],
        .provider = cushim_pool_providers[heap->kind],
        .fence = &context->fence,
    };
    if (!cushim_mem_streams_open(streams, &setup))
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof *streams->all);
    atomic_store(&heap->next, atomic_load(&pool->heaps));
    atomic_store(&pool->heaps, heap);
    *out = heap;
    return CUSHIM_OK;
}

/* The pool's heap of a device and kind whose context lives; NULL: none. */
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
    CUSHIM_SCOPE scope = {0};
    if (context && dev == -1)
        dev = context->device;
    if ((*out = known_heap(pool, dev, kind)))
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_context_ordinal(what, dev, &dev));
    CUSHIM_FAIL_IF(what, context && dev != context->device, CUSHIM_BADDEVICE,
                   "device=%d pool_device=%d", dev, context->device);
    if ((*out = known_heap(pool, dev, kind)))
        return CUSHIM_OK;
    if (context)
        cushim_object_keep(context);
    else
        CUSHIM_TRY(cushim_context_of_device(what, dev, &context));
    cushim_mem_streams_lose_gone();
    CUSHIM_TRY(cushim_call_begin_taken(&scope, what, context));
    CUSHIM_LOCKED(&pool->lock);
    if ((*out = known_heap(pool, dev, kind)))
        return CUSHIM_OK;
    return make(&scope, pool, context, kind, out);
}
