#include "memory/fence/barrier.h"

#include "cuda/current_context.h"
#include "cuda/table.h"
#include "memory/fence/fence.h"

/* What is freed for its wait: the free of any kind of memory waits for the context. */
struct dummy {
    CUdeviceptr device;
    void *pinned; /* where the device is full */
};

static CUresult obtain(struct cushim_cuda *cuda, struct dummy *dummy) {
    *dummy = (struct dummy){0};
    CUresult answer = cuda->cuMemAlloc_v2(&dummy->device, 1);
    if (answer == CUDA_ERROR_OUT_OF_MEMORY && cuda->cuMemHostAlloc && cuda->cuMemFreeHost)
        answer = cuda->cuMemHostAlloc(&dummy->pinned, 1, 0);
    return answer;
}

static CUresult release(struct cushim_cuda *cuda, const struct dummy *dummy) {
    return dummy->pinned ? cuda->cuMemFreeHost(dummy->pinned) : cuda->cuMemFree_v2(dummy->device);
}

/* As the caller would meet it: natively this free fails and invalidates the capture. */
static CUresult release_in_own_capture(struct cushim_cuda *cuda, const struct dummy *dummy) {
    CUresult answer = release(cuda, dummy);
    if (answer == CUDA_SUCCESS)
        return answer;
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    release(cuda, dummy);
    cushim_mode_back(cuda, mode);
    return answer;
}

CUresult cushim_mem_barrier_pass(struct cushim_mem_fence *fence, bool is_relaxed) {
    struct cushim_cuda *cuda = fence->cuda;
    struct dummy dummy;
    CUresult answer;
    CUcontext context = atomic_load(&fence->context);
    if (!context) /* it went a moment ago */
        return CUDA_SUCCESS;
    bool has_entered = cushim_current_context_enter(cuda, context, &answer);
    if (answer != CUDA_SUCCESS)
        return answer;
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    answer = obtain(cuda, &dummy);
    if (answer == CUDA_SUCCESS && is_relaxed)
        answer = release(cuda, &dummy);
    cushim_mode_back(cuda, mode);
    if (answer == CUDA_SUCCESS && !is_relaxed)
        answer = release_in_own_capture(cuda, &dummy);
    if (has_entered)
        cushim_current_context_leave(cuda);
    return answer;
}
