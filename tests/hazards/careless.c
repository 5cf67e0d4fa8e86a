/*
 * Replaces functions of the fence (ld --wrap), only for tests: a preload that never waits in
 * `exact`, and that treats every epoch as done in `relaxed` but waits for effects. Its staged
 * copies begin before their stream reaches them. Programs that test the wait and the fence must go
 * wrong under it, otherwise they test nothing.
 */
#include "copy/ring.h"
#include "memory/fence/record.h"
#include "memory/fence/fence.h"

enum cushim_status __wrap_cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                                struct cushim_mem_stats *stats, CUresult *answer);
enum cushim_status __wrap_cushim_mem_fence_await(struct cushim_mem_fence *fence, uint64_t epoch,
                                                 uint64_t deadline_ns,
                                                 struct cushim_mem_stats *stats, CUresult *answer);
void __wrap_cushim_mem_fence_note_effect(struct cushim_mem_fence *fence);
CUresult __wrap_cushim_copy_ring_await(struct cushim_cuda *cuda, CUstream stream, bool may_wait);
void __real_cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                                  CUcontext context, const struct cushim_mem_capture_guard *guard);
void __wrap_cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                                  CUcontext context, const struct cushim_mem_capture_guard *guard);

static const uint64_t no_tag = (uint64_t)1 << 40; /* higher than every epoch */

enum cushim_status __wrap_cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                                struct cushim_mem_stats *stats, CUresult *answer) {
    (void)fence;
    (void)stats;
    *answer = CUDA_SUCCESS;
    return CUSHIM_OK;
}

void __wrap_cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                                  CUcontext context, const struct cushim_mem_capture_guard *guard) {
    __real_cushim_mem_fence_init(fence, cuda, context, guard);
    atomic_store(&fence->done, no_tag);
    atomic_store(&fence->effect, no_tag + 1);
}

void __wrap_cushim_mem_fence_note_effect(struct cushim_mem_fence *fence) {
    atomic_store(&fence->effect, no_tag + 1);
}

enum cushim_status __wrap_cushim_mem_fence_await(struct cushim_mem_fence *fence, uint64_t epoch,
                                                 uint64_t deadline_ns,
                                                 struct cushim_mem_stats *stats, CUresult *answer) {
    (void)epoch;
    (void)deadline_ns;
    (void)stats;
    atomic_store(&fence->effect, 0);
    *answer = cushim_mem_barrier_pass(fence, true);
    return CUSHIM_OK;
}

/* A staged copy begins at once. */
CUresult __wrap_cushim_copy_ring_await(struct cushim_cuda *cuda, CUstream stream, bool may_wait) {
    (void)cuda;
    (void)stream;
    (void)may_wait;
    return CUDA_SUCCESS;
}
