#include "preload/state/primary.h"

#include "cuda/table.h"
#include "memory/current_context.h"

CUcontext cushim_primary_of(struct cushim_cuda *cuda, CUdevice device) {
    unsigned flags;
    int is_active = 0;
    CUcontext context = NULL;
    if (!cuda->cuDevicePrimaryCtxGetState || !cuda->cuDevicePrimaryCtxRetain ||
        cuda->cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS || !is_active)
        return NULL;
    /* the handle is told by a retain alone; the release right behind it cannot be the last */
    if (cuda->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    if (cuda->cuDevicePrimaryCtxRelease_v2)
        cuda->cuDevicePrimaryCtxRelease_v2(device);
    else
        cuda->cuDevicePrimaryCtxRelease(device);
    return context;
}

CUcontext cushim_primary_of_green(struct cushim_cuda *cuda, CUcontext green) {
    CUresult answer;
    CUdevice device;
    bool has_entered = cushim_mem_current_context_enter(cuda, green, &answer);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuCtxGetDevice(&device);
    if (has_entered)
        cushim_mem_current_context_leave(cuda);
    return answer == CUDA_SUCCESS ? cushim_primary_of(cuda, device) : NULL;
}
