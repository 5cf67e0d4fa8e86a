#include "preload/entry/async_pool.h"

#include "cuda/table.h"
#include "memory/current_context.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

/* The device whose pool serves the stream; false where the driver will not say. */
static bool find_device(struct cushim_cuda *cuda, CUstream stream, CUdevice *device) {
    CUresult answer;
    CUcontext context = cushim_contexts_of_stream(cuda, stream);
    if (!context)
        return false;
    bool has_entered = cushim_mem_current_context_enter(cuda, context, &answer);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuCtxGetDevice(device);
    if (has_entered)
        cushim_mem_current_context_leave(cuda);
    return answer == CUDA_SUCCESS && *device >= 0 && *device < CUSHIM_MAX_DEVICES;
}

static void raise_threshold(struct cushim_cuda *cuda, CUdevice device) {
    CUmemoryPool pool;
    cuuint64_t now_bytes, wanted_bytes = cushim_process_options.async_keep;
    if (cuda->cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS &&
        cuda->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &now_bytes) ==
            CUDA_SUCCESS &&
        now_bytes < wanted_bytes)
        cuda->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wanted_bytes);
}

void cushim_async_keep(struct cushim_cuda *cuda, CUstream stream) {
    static atomic_bool is_raised[CUSHIM_MAX_DEVICES];
    CUdevice device;
    if (!cushim_process_is_on() || !cushim_process_options.async_keep ||
        !cuda->cuDeviceGetDefaultMemPool || !cuda->cuMemPoolGetAttribute ||
        !cuda->cuMemPoolSetAttribute)
        return;
    if (find_device(cuda, stream, &device) && !atomic_exchange(&is_raised[device], true))
        raise_threshold(cuda, device);
}
