#include "memory/state/deferred_batch.h"
#include "memory/state/heap_state.h"

#include "base/futex.h"
#include "cuda/translate.h"

enum { DEVICE_SHARE = 2048, LOOKS = 200, WIDENING_BYTES = 128 << 10 /* with each fence */ };

size_t cushim_mem_deferred_batch_bytes(const struct cushim_mem_heap *pool) {
    size_t n_bytes = pool->bound.device_bytes / DEVICE_SHARE;
    if (!pool->policy->is_relaxed || pool->policy->is_sparing)
        return 0;
    if (n_bytes < CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES)
        return CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES;
    return n_bytes < CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES ? n_bytes
                                                          : CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES;
}

void cushim_mem_deferred_batch_begin(struct cushim_mem_heap *pool, size_t wider_bytes) {
    pool->limit_tag = cushim_mem_fence_tag(pool->fence) - wider_bytes / WIDENING_BYTES;
}

static size_t least_bytes(struct cushim_mem_heap *pool) {
    size_t margin_bytes = cushim_mem_watermark_margin_bytes(pool);
    return margin_bytes > CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES
               ? margin_bytes
               : CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES;
}

size_t cushim_mem_deferred_batch_limit(struct cushim_mem_heap *pool, size_t most_bytes) {
    uint64_t n_fences = cushim_mem_fence_tag(pool->fence) - pool->limit_tag;
    size_t widened_bytes = n_fences * WIDENING_BYTES;
    if (widened_bytes >= most_bytes)
        return most_bytes;
    size_t limit_bytes = least_bytes(pool) + widened_bytes;
    return limit_bytes < most_bytes ? limit_bytes : most_bytes;
}

bool cushim_mem_deferred_batch_is_much(struct cushim_mem_heap *pool, size_t waiting_bytes) {
    return waiting_bytes > 2 * least_bytes(pool);
}

enum cushim_mem_due cushim_mem_deferred_batch_count(struct cushim_mem_unfenced *unfenced,
                                                    uint64_t tag, size_t n_bytes,
                                                    size_t most_bytes) {
    enum { STEPS = 16 };
    cushim_mem_deferred_batch_turn(unfenced, tag, most_bytes);
    unfenced->n_bytes += cushim_mem_deferred_batch_weight(n_bytes, most_bytes);
    if (unfenced->n_bytes < unfenced->due_bytes)
        return CUSHIM_MEM_NOT_DUE;
    /* whatever comes of it, the next frees do not all try again */
    unfenced->due_bytes = unfenced->n_bytes + most_bytes / STEPS;
    return unfenced->n_bytes < most_bytes ? CUSHIM_MEM_DUE : CUSHIM_MEM_PRESSING;
}

enum cushim_status cushim_mem_deferred_batch_fence(struct cushim_mem_heap *pool,
                                                   enum cushim_mem_due due, CUresult *answer) {
    struct cushim_mem_fence *fence = pool->fence;
    *answer = CUDA_SUCCESS;
    if (due != CUSHIM_MEM_PRESSING && cushim_mem_fence_is_in_flight(fence)) {
        cushim_mem_fence_poll(fence, answer);
        if (*answer != CUDA_SUCCESS)
            return cushim_status_from_cu(*answer);
        if (cushim_mem_fence_is_in_flight(fence))
            return CUSHIM_NOTREADY;
    }
    return cushim_mem_fence_start(fence, pool->gate, answer);
}

/* Another thread records or asks: it will have an answer for all in a microsecond or two.  Was one
 * asking? */
static bool wait_for_the_others(struct cushim_mem_fence *fence, uint64_t tag) {
    bool was_asked = false;
    for (int i = 0; i < LOOKS && tag > cushim_mem_fence_done(fence); i++) {
        bool is_asked = atomic_load_explicit(&fence->epochs.is_polling, memory_order_relaxed);
        if (!is_asked && !atomic_load_explicit(&fence->epochs.is_recording, memory_order_relaxed))
            break;
        was_asked = is_asked;
        cushim_futex_pause();
    }
    return was_asked;
}

bool cushim_mem_deferred_batch_prove(struct cushim_mem_heap *pool, uint64_t tag, CUresult *answer) {
    struct cushim_mem_fence *fence = pool->fence;
    *answer = CUDA_SUCCESS;
    bool was_asked = wait_for_the_others(fence, tag);
    if (tag <= cushim_mem_fence_done(fence))
        return true;
    if (was_asked && cushim_mem_fence_is_in_flight(fence))
        return false;
    if (tag <= cushim_mem_fence_poll(fence, answer))
        return true;
    if (*answer != CUDA_SUCCESS || cushim_mem_fence_is_in_flight(fence) ||
        cushim_mem_fence_start(fence, pool->gate, answer) != CUSHIM_OK)
        return false;
    return tag <= cushim_mem_fence_done(fence);
}
