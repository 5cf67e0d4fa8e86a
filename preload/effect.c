#include "preload/effect.h"

/* The current context has a shorter way to its pool. */
static struct cushim_mem_pool *pool_of(struct cushim_cuda *cuda, CUcontext context) {
    return context ? cushim_contexts_find(context) : cushim_contexts_current(cuda);
}

static bool is_default(CUstream stream) {
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

struct cushim_mem_fence *cushim_effect_note(struct cushim_cuda *cuda, CUstream stream) {
    if (!cushim_effect_matters())
        return NULL;
    CUcontext context = is_default(stream) ? NULL : cushim_contexts_of_stream(cuda, stream);
    struct cushim_mem_pool *pool = pool_of(cuda, context);
    if (!pool)
        return NULL;
    cushim_mem_fence_note_effect(pool->fence);
    return pool->fence;
}

void cushim_effect_note_all(void) {
    if (cushim_effect_matters())
        cushim_contexts_note_effects();
}

CUresult cushim_effect_synchronised(struct cushim_cuda *cuda, CUcontext context, CUresult answer) {
    struct cushim_mem_pool *pool =
        answer == CUDA_SUCCESS && cushim_effect_matters() ? pool_of(cuda, context) : NULL;
    if (pool)
        cushim_mem_fence_synchronised(pool->fence, pool->gate);
    return answer;
}
