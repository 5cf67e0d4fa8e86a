/* All heaps at once: they note effects that the host sees, and give back their idle memory. */
#include "base/bits.h"
#include "base/clock.h"
#include "copy/ring.h"
#include "cuda/current_context.h"
#include "cuda/table.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "preload/events.h"
#include "preload/state/context_heap.h"
#include "preload/state/control.h"
#include "preload/state/primary.h"
#include "preload/state/process_options.h"

void cushim_contexts_note_effects(void) {
    for (struct cushim_context_heap *each = NULL; (each = cushim_context_heap_next(each));)
        cushim_mem_fence_note_effect(each->heap.fence);
}

void cushim_contexts_each(void (*visit)(struct cushim_mem_heap *heap)) {
    for (struct cushim_context_heap *each = NULL; (each = cushim_context_heap_next(each));) {
        if (!cushim_contexts_hold(&each->heap))
            continue;
        visit(&each->heap);
        cushim_contexts_let(&each->heap);
    }
}

/* The heaps of all devices (-1) or of one give back idle memory. */
static size_t give_back(int device, bool is_pinned_too, uint64_t until_ns) {
    size_t n_bytes = 0;
    if (cushim_thread.host_function_depth)
        return 0;
    n_bytes += cushim_events.memory_short(device);
    for (struct cushim_context_heap *each = NULL; (each = cushim_context_heap_next(each));) {
        struct cushim_mem_heap *heap = &each->heap;
        if (!cushim_contexts_hold(heap))
            continue;
        if ((heap->kind != CUSHIM_MEM_PINNED || is_pinned_too) &&
            (device < 0 || heap->device == device))
            n_bytes += cushim_mem_reclaim_empty(heap, until_ns);
        cushim_contexts_let(heap);
    }
    return n_bytes;
}

size_t cushim_contexts_make_room(const struct cushim_mem_heap *heap, uint64_t until_ns) {
    return give_back(heap->device, false, until_ns);
}

size_t cushim_contexts_give_back(void) {
    return give_back(-1, false, cushim_mem_reclaim_until());
}

size_t cushim_contexts_give_back_all(void) {
    return give_back(-1, true, cushim_mem_reclaim_until()) + cushim_copy_rings_give_back();
}

size_t cushim_contexts_give_back_at_once(void) {
    return give_back(-1, false, cushim_clock_ns());
}

/* What is spilled and free goes at once. */
static bool is_leaving_host(const struct cushim_mem_heap *heap) {
    return cushim_mem_heap_is_spilled(heap) &&
           load_relaxed(&heap->held_bytes) >
               cushim_less(load_relaxed(&heap->live_bytes), load_relaxed(&heap->deferred.n_bytes));
}

void cushim_contexts_give_back_stale(CUcontext synchronised) {
    if (load_acquire(&cushim_control.is_looked_at))
        cushim_events.looked_at();
    cushim_control_look();
    for (struct cushim_context_heap *each = NULL; (each = cushim_context_heap_next(each));) {
        struct cushim_mem_heap *heap = &each->heap;
        /* until it is held, it may begin to serve another context, with other memory */
        if (!(cushim_process_options.spill || cushim_mem_heap_is_stale(heap)) ||
            !cushim_process_is_on() || cushim_thread.host_function_depth ||
            !cushim_contexts_hold(heap))
            continue;
        uint64_t life = is_leaving_host(heap) || cushim_mem_heap_is_stale(heap)
                            ? cushim_mem_heap_life(heap)
                            : 0;
        if (life && heap->context == synchronised)
            cushim_mem_reclaim_shrink(heap, life, 0, true);
        else if (life)
            cushim_mem_reclaim_idle(heap, life);
        cushim_contexts_let(heap);
    }
}

/* The primary contexts have heaps from now on, though they may have asked for no memory. */
static void open_primary(struct cushim_cuda *cuda) {
    CUresult answer;
    int n = 0;
    if (!cuda->cuDeviceGetCount || cuda->cuDeviceGetCount(&n) != CUDA_SUCCESS)
        return;
    for (int device = 0; device < n; device++) {
        CUcontext primary = cushim_primary_of(cuda, device);
        if (!primary || cushim_contexts_find(primary))
            continue;
        bool has_entered = cushim_current_context_enter(cuda, primary, &answer);
        if (answer == CUDA_SUCCESS)
            cushim_contexts_current(cuda);
        if (has_entered)
            cushim_current_context_leave(cuda);
    }
}

void cushim_contexts_await_others(const struct cushim_mem_heap *heap) {
    CUresult answer;
    if (!cushim_mem_heap_is_spilled(heap))
        return;
    open_primary(heap->cuda);
    uint64_t until_ns = cushim_mem_reclaim_until();
    atomic_thread_fence(memory_order_seq_cst); /* after what was submitted */
    for (struct cushim_context_heap *each = NULL; (each = cushim_context_heap_next(each));) {
        struct cushim_mem_heap *other = &each->heap;
        if (other->fence != &other->own_fence || other->context == heap->context ||
            !cushim_contexts_hold(other))
            continue;
        cushim_mem_fence_await(other->fence, cushim_mem_fence_tag(other->fence), until_ns,
                               other->stats, &answer);
        cushim_contexts_let(other);
    }
}

size_t cushim_contexts_reusable_bytes(int device, bool is_spilled) {
    size_t n_bytes = 0;
    for (struct cushim_context_heap *each = NULL; (each = cushim_context_heap_next(each));) {
        if (each->heap.kind == CUSHIM_MEM_DEVICE && each->heap.device == device &&
            cushim_mem_heap_is_spilled(&each->heap) == is_spilled)
            n_bytes += cushim_mem_reclaim_reusable_bytes(&each->heap);
    }
    return n_bytes;
}
