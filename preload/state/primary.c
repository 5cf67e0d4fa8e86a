#include "preload/state/primary.h"

#include "base/futex.h"
#include "cuda/current_context.h"
#include "cuda/table.h"
#include "preload/state/contexts.h"

CUcontext cushim_primary_of(struct cushim_cuda *cuda, CUdevice device) {
    unsigned flags;
    int is_active = 0;
    CUcontext context = NULL;
    if (!cuda->cuDevicePrimaryCtxGetState || !cuda->cuDevicePrimaryCtxRetain ||
        cuda->cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS || !is_active)
        return NULL;
    /* only a retain gives the handle; the release after it cannot be the last */
    if (cuda->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    if (cuda->cuDevicePrimaryCtxRelease_v2)
        cuda->cuDevicePrimaryCtxRelease_v2(device);
    else
        cuda->cuDevicePrimaryCtxRelease(device);
    return context;
}

CUdevice cushim_device_of(struct cushim_cuda *cuda, CUcontext context) {
    CUresult answer;
    CUdevice device = -1;
    bool has_entered = cushim_current_context_enter(cuda, context, &answer);
    if (answer == CUDA_SUCCESS && cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        device = -1;
    if (has_entered)
        cushim_current_context_leave(cuda);
    return device;
}

/* ---- who uses it ---- */

enum { N_DEVICES = 64 };

static struct {
    struct cushim_futex_lock lock;
    unsigned n_uses; /* retains by the program that we saw */
    CUcontext last;
} primaries[N_DEVICES];

static bool is_known(CUdevice device) {
    return (unsigned)device < N_DEVICES;
}

CUresult cushim_primary_retain(__typeof__(&cuDevicePrimaryCtxRetain) real, CUcontext *context,
                               CUdevice device) {
    if (!is_known(device))
        return real(context, device);
    cushim_futex_lock_enter(&primaries[device].lock);
    CUresult answer = real(context, device);
    if (answer == CUDA_SUCCESS) {
        primaries[device].n_uses++;
        primaries[device].last = *context;
    }
    cushim_futex_lock_leave(&primaries[device].lock);
    return answer;
}

/* The primary context is about to end, if it is active. */
static CUcontext leave(struct cushim_cuda *cuda, CUdevice device) {
    CUcontext context = primaries[device].last;
    if (!context) /* the program retained it unseen, or not at all */
        context = cushim_primary_of(cuda, device);
    if (context)
        cushim_contexts_leave(context);
    return context;
}

static bool is_active(struct cushim_cuda *cuda, CUdevice device) {
    unsigned flags;
    int is_active = 1;
    if (cuda->cuDevicePrimaryCtxGetState)
        cuda->cuDevicePrimaryCtxGetState(device, &flags, &is_active);
    return is_active != 0;
}

CUresult cushim_primary_release(struct cushim_cuda *cuda,
                                __typeof__(&cuDevicePrimaryCtxRelease_v2) real, CUdevice device) {
    if (!is_known(device))
        return real(device);
    cushim_futex_lock_enter(&primaries[device].lock);
    bool is_last = primaries[device].n_uses <= 1;
    CUcontext context = is_last ? leave(cuda, device) : NULL;
    CUresult answer = real(device);
    if (answer == CUDA_SUCCESS && primaries[device].n_uses)
        primaries[device].n_uses--;
    if (context)
        cushim_contexts_settle(context, !is_active(cuda, device));
    cushim_futex_lock_leave(&primaries[device].lock);
    return answer;
}

CUresult cushim_primary_reset(struct cushim_cuda *cuda,
                              __typeof__(&cuDevicePrimaryCtxReset_v2) real, CUdevice device) {
    if (!is_known(device))
        return real(device);
    cushim_futex_lock_enter(&primaries[device].lock);
    CUcontext context = leave(cuda, device);
    CUresult answer = real(device);
    primaries[device].n_uses = 0;
    if (context)
        cushim_contexts_settle(context, answer == CUDA_SUCCESS);
    cushim_futex_lock_leave(&primaries[device].lock);
    return answer;
}
