#include "preload/state/context_heap.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/helgrind.h"
#include "base/lock.h"
#include "cuda/table.h"
#include "memory/provider/provider.h"
#include "preload/events.h"
#include "preload/state/spill.h"

/* Guards the spares, the lists of kinds, and which heaps serve.  It is taken inside the lock of
 * contexts. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_context_heap *spares; /* without a context */
static _Atomic(struct cushim_context_heap *) heaps;
static struct cushim_mem_policy
    kind_policies[CUSHIM_MEM_PINNED + 1]; /* written once, at the start */

/* A heap that no context has; NULL: host memory is out.  The caller holds the lock. */
static struct cushim_context_heap *take(void) {
    struct cushim_context_heap *heap = spares;
    if (heap) {
        spares = atomic_load(&heap->next);
        return heap;
    }
    heap = calloc(1, sizeof *heap);
    if (heap) {
        cushim_helgrind_ignore(heap, sizeof *heap);
        heap->next_of_all = atomic_load(&heaps);
        atomic_store(&heaps, heap);
    }
    return heap;
}

static struct cushim_context_heap *open_locked(const struct cushim_mem_heap_setup *setup) {
    struct cushim_context_heap *heap = take();
    if (heap) {
        cushim_mem_heap_open(&heap->heap, setup);
        atomic_store(&heap->is_serving, true);
    }
    return heap;
}

struct cushim_context_heap *cushim_context_heap_open(const struct cushim_mem_heap_setup *setup) {
    CUSHIM_LOCKED(&lock);
    return open_locked(setup);
}

/* The blocks went with the context.  The caller holds the lock. */
static void abandon(struct cushim_context_heap *heap) {
    cushim_events.heap_gone(&heap->heap);
    cushim_mem_heap_abandon(&heap->heap);
    atomic_store(&heap->next, spares);
    spares = heap;
}

/* The caller holds the lock. */
static void set_serving(struct cushim_context_heap *owner, bool is_serving) {
    struct cushim_context_heap *heap = atomic_load(&owner->kinds);
    atomic_store(&owner->is_serving, is_serving);
    for (; heap; heap = atomic_load(&heap->next))
        atomic_store(&heap->is_serving, is_serving);
}

void cushim_context_heap_set_serving(struct cushim_context_heap *owner, bool is_serving) {
    CUSHIM_LOCKED(&lock);
    set_serving(owner, is_serving);
}

void cushim_context_heap_abandon(struct cushim_context_heap *owner) {
    CUSHIM_LOCKED(&lock);
    set_serving(owner, false);
    struct cushim_context_heap *heap = atomic_exchange(&owner->kinds, NULL), *next;
    for (; heap; heap = next) {
        next = atomic_load(&heap->next);
        abandon(heap);
    }
    abandon(owner);
}

/* ---- holds ---- */

static struct cushim_context_heap *of(const struct cushim_mem_heap *heap) {
    return (struct cushim_context_heap *)(uintptr_t)heap;
}

bool cushim_contexts_hold(struct cushim_mem_heap *heap) {
    atomic_fetch_add(&of(heap)->n_holds, 1);
    /* the thread that ends the context does this in the other order: it looks for holds last */
    if (atomic_load(&of(heap)->is_serving))
        return true;
    atomic_fetch_sub(&of(heap)->n_holds, 1);
    return false;
}

void cushim_contexts_let(struct cushim_mem_heap *heap) {
    atomic_fetch_sub(&of(heap)->n_holds, 1);
}

/* Its pages are cleared before the heap serves another context, so one that serves still has them.
 */
static bool is_settled(uint64_t address, const struct cushim_mem_lookup *lookup) {
    return atomic_load(&of(lookup->segment->heap)->is_serving) &&
           cushim_mem_pagemap_find(&cushim_process.blocks.map, address) == lookup->segment;
}

/* Hold the heap of a block, if the block did not go with its context before that.  The struct of a
 * segment is never freed. */
static bool hold(const struct cushim_mem_segment *segment) {
    struct cushim_mem_heap *heap = segment->heap;
    if (!cushim_contexts_hold(heap))
        return false;
    if (segment->heap == heap && segment->generation == atomic_load(&heap->generation))
        return true;
    cushim_contexts_let(heap);
    return false;
}

/* Inlined, because frees come here. */
ALWAYS_INLINE bool find_block(uint64_t address, bool is_held, bool may_wait,
                              struct cushim_mem_lookup *lookup) {
    uint64_t until_ns = 0;
    unsigned n_looks = 0;
    while (cushim_mem_blocks_find(&cushim_process.blocks, address, lookup)) {
        if (is_held ? hold(lookup->segment) : is_settled(address, lookup))
            return true;
        until_ns = until_ns ? until_ns : cushim_clock_ns() + CUSHIM_CONTEXTS_PATIENCE_NS;
        if (!may_wait || cushim_clock_ns() >= until_ns)
            return false;
        cushim_futex_back_off(&n_looks);
    }
    return false;
}

bool cushim_contexts_find_block(uint64_t address, bool may_wait, struct cushim_mem_lookup *lookup) {
    return find_block(address, false, may_wait, lookup);
}

bool cushim_contexts_hold_block(uint64_t address, struct cushim_mem_lookup *lookup) {
    return find_block(address, true, true, lookup);
}

/* The wait is limited, because a thread that was cancelled, or left by a jump, inside a driver call
 * never lets go. */
static void wait_until(const struct cushim_context_heap *heap, uint64_t until_ns) {
    unsigned n_looks = 0;
    while (atomic_load(&heap->n_holds) && cushim_clock_ns() < until_ns)
        cushim_futex_back_off(&n_looks);
}

void cushim_context_heap_wait(const struct cushim_context_heap *owner) {
    uint64_t until_ns = cushim_clock_ns() + CUSHIM_CONTEXTS_PATIENCE_NS;
    const struct cushim_context_heap *heap = atomic_load(&owner->kinds);
    wait_until(owner, until_ns);
    for (; heap; heap = atomic_load(&heap->next))
        wait_until(heap, until_ns);
}

/* ---- kinds ---- */

void cushim_contexts_set_policies(void) {
    for (int kind = CUSHIM_MEM_DEVICE; kind <= CUSHIM_MEM_PINNED; kind++)
        cushim_mem_policy_of_kind(&kind_policies[kind], &cushim_process.policy,
                                  (enum cushim_mem_kind)kind);
    cushim_spill_set_policy(&kind_policies[CUSHIM_MEM_DEVICE]);
}

/*
 * The device clears managed memory that is handed out again.  If host and device may not touch
 * managed memory at the same time (before Pascal, Jetson), that would fault other threads of the
 * program.
 */
static bool is_managed_fit(struct cushim_cuda *cuda, int device) {
    int is_concurrent = 0;
    return cuda->cuDeviceGetAttribute &&
           cuda->cuDeviceGetAttribute(&is_concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                      device) == CUDA_SUCCESS &&
           is_concurrent;
}

static struct cushim_mem_heap *find_kind(const struct cushim_context_heap *owner,
                                         enum cushim_mem_kind kind, unsigned flags) {
    struct cushim_context_heap *heap = atomic_load_explicit(&owner->kinds, memory_order_acquire);
    for (; heap; heap = atomic_load_explicit(&heap->next, memory_order_acquire)) {
        if (heap->heap.kind == kind && heap->heap.flags == flags)
            return &heap->heap;
    }
    return NULL;
}

/*
 * Open a heap of another kind of memory.  It has the fence of the context's heap, because the
 * driver's free of such memory waits for the context that allocated it, whichever is current, and
 * not for other devices' kernels or copies (measured, docs/results/driver.md).  The caller holds
 * the lock.
 */
static const struct cushim_mem_provider *const providers[] = {
    [CUSHIM_MEM_DEVICE] = &cushim_mem_provider_spill,
    [CUSHIM_MEM_MANAGED] = &cushim_mem_provider_managed,
    [CUSHIM_MEM_PINNED] = &cushim_mem_provider_pinned,
};

static struct cushim_mem_heap *open_kind(struct cushim_context_heap *owner,
                                         enum cushim_mem_kind kind, unsigned flags) {
    const struct cushim_mem_heap *base = &owner->heap;
    struct cushim_context_heap *heap = open_locked(&(struct cushim_mem_heap_setup){
        .cuda = base->cuda,
        .context = base->context,
        .device = base->device,
        .blocks = base->blocks,
        .policy = &kind_policies[kind],
        .stats = &cushim_page.stats[base->device][kind ? (int)kind : CUSHIM_KIND_SPILLED],
        .kind = kind,
        .flags = flags,
        .provider = providers[kind],
        .fence = base->fence,
    });
    if (!heap)
        return NULL;
    atomic_store(&heap->next, atomic_load(&owner->kinds));
    atomic_store(&owner->kinds, heap);
    return &heap->heap;
}

struct cushim_mem_heap *cushim_context_heap_of_kind(struct cushim_mem_heap *base,
                                                    enum cushim_mem_kind kind, unsigned flags) {
    struct cushim_mem_heap *heap = find_kind(of(base), kind, flags);
    if (heap || (kind == CUSHIM_MEM_MANAGED && !is_managed_fit(base->cuda, base->device)))
        return heap;
    CUSHIM_LOCKED(&lock);
    heap = find_kind(of(base), kind, flags);
    if (!heap && atomic_load(&of(base)->is_serving))
        heap = open_kind(of(base), kind, flags);
    return heap;
}

/* ---- all heaps ---- */

struct cushim_context_heap *cushim_context_heap_next(const struct cushim_context_heap *heap) {
    struct cushim_context_heap *next = heap ? heap->next_of_all : atomic_load(&heaps);
    while (next && !atomic_load(&next->is_serving))
        next = next->next_of_all;
    return next;
}
