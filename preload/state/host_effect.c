#include "preload/state/host_effect.h"

#include "cuda/table.h"
#include "memory/state/heap_state.h"

/* The current context has a shorter way to its heap. */
static struct cushim_mem_heap *heap_of(struct cushim_cuda *cuda, CUcontext context) {
    return context ? cushim_contexts_find(context) : cushim_contexts_current(cuda);
}

struct cushim_mem_fence *cushim_host_effect_note_sole(void) {
    if (cushim_contexts_count() != 1 || !cushim_contexts_is_settled())
        return NULL;
    cushim_mem_fence_note_effect(cushim_thread.heap->fence);
    return cushim_thread.heap->fence;
}

struct cushim_mem_fence *cushim_host_effect_note(struct cushim_cuda *cuda, CUstream stream) {
    if (!cushim_host_effect_matters())
        return NULL;
    struct cushim_mem_fence *fence = cushim_host_effect_note_sole();
    if (fence)
        return fence;
    CUcontext context =
        cushim_stream_is_default(stream) ? NULL : cushim_contexts_of_stream(cuda, stream);
    struct cushim_mem_heap *heap = heap_of(cuda, context);
    if (!heap)
        return NULL;
    cushim_mem_fence_note_effect(heap->fence);
    return heap->fence;
}

void cushim_host_effect_note_all(void) {
    if (cushim_host_effect_matters())
        cushim_contexts_note_effects();
}

/* Synchronising a green context covers only its own work. */
struct cushim_synchronise cushim_host_effect_synchronise(struct cushim_cuda *cuda,
                                                         CUcontext context) {
    struct cushim_synchronise synchronise = {NULL, 0};
    if (!cushim_host_effect_matters())
        return synchronise;
    struct cushim_mem_heap *heap = heap_of(cuda, context);
    if (!context)
        cuda->cuCtxGetCurrent(&context);
    if (!heap || atomic_load(&heap->fence->context) != context)
        return synchronise;
    synchronise.fence = heap->fence;
    synchronise.epoch = cushim_mem_fence_synchronise(heap->fence);
    return synchronise;
}

CUresult cushim_host_effect_synchronised(const struct cushim_synchronise *synchronise,
                                         CUresult answer) {
    if (synchronise->fence && answer == CUDA_SUCCESS)
        cushim_mem_fence_complete(synchronise->fence, synchronise->epoch);
    return answer;
}
