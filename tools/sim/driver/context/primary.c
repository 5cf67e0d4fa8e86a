/*
 * Primary contexts: one for each device, alive while it is retained.
 *
 * The handle never changes.  A reset, or the last release, ends the context.  A retain brings it
 * back empty, and threads in which it is current find it alive again.
 */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "context.h"
#include "device.h"

static CUresult retain(CUcontext *out, CUdevice ordinal) {
    struct sim_device *device = sim_device_at(ordinal);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!device->primary)
        device->primary = sim_context_create(device, NULL, device->primary_flags);
    else if (!device->primary->is_alive)
        sim_context_revive(device->primary);
    if (!device->primary)
        return CUDA_ERROR_OUT_OF_MEMORY;
    device->primary->flags = device->primary_flags;
    device->n_primary_retains++;
    *out = (CUcontext)device->primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    SIM_ENTER(cuDevicePrimaryCtxRetain);
    return sim_leave(retain(pctx, dev));
}

static void end(struct sim_device *device) {
    if (device->primary && device->primary->is_alive)
        sim_context_end(device->primary);
}

static CUresult release(CUdevice ordinal) {
    struct sim_device *device = sim_device_at(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->n_primary_retains == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->n_primary_retains == 0)
        end(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    SIM_ENTER(cuDevicePrimaryCtxRelease);
    return sim_leave(release(dev));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    SIM_ENTER(cuDevicePrimaryCtxRelease_v2);
    return sim_leave(release(dev));
}

static CUresult reset(CUdevice ordinal) {
    struct sim_device *device = sim_device_at(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    device->n_primary_retains = 0;
    end(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    SIM_ENTER(cuDevicePrimaryCtxReset);
    return sim_leave(reset(dev));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    SIM_ENTER(cuDevicePrimaryCtxReset_v2);
    return sim_leave(reset(dev));
}

static CUresult set_flags(CUdevice ordinal, unsigned flags) {
    struct sim_device *device = sim_device_at(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    device->primary_flags = flags;
    if (device->primary)
        device->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    SIM_ENTER(cuDevicePrimaryCtxSetFlags);
    return sim_leave(set_flags(dev, flags));
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    SIM_ENTER(cuDevicePrimaryCtxSetFlags_v2);
    return sim_leave(set_flags(dev, flags));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
    SIM_ENTER(cuDevicePrimaryCtxGetState);
    struct sim_device *device = sim_device_at(dev);
    if (!device)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (flags)
        *flags = device->primary_flags;
    if (active)
        *active = device->primary && device->primary->is_alive;
    return sim_leave(CUDA_SUCCESS);
}
