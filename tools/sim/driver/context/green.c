/*
 * Green contexts, in simple form: a share of the multiprocessors, and streams on it.  A green
 * context and the context made from it have the same handle; all else belongs to the primary
 * context.
 */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "context.h"
#include "device.h"
#include "tools/sim/driver/stream/stream_api.h"

#include <stdlib.h>
#include <string.h>

enum { N_MULTIPROCESSORS = 132, MULTIPROCESSORS_PER_GROUP = 8 };

static CUresult find(CUgreenCtx handle, struct sim_context **out) {
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_of_handle((CUcontext)handle, out));
    return (*out)->root != *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void fill(CUdevResource *resource, unsigned n) {
    memset(resource, 0, sizeof *resource);
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm.smCount = n;
}

static CUresult get_resource(CUdevResource *out, CUdevResourceType type) {
    if (!out || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    fill(out, N_MULTIPROCESSORS);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type) {
    SIM_ENTER(cuDeviceGetDevResource);
    return sim_leave(sim_device_at(device) ? get_resource(resource, type)
                                           : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type) {
    SIM_ENTER(cuCtxGetDevResource);
    struct sim_context *context;
    CUresult result = sim_context_of_handle(hCtx, &context);
    return sim_leave(result ? result : get_resource(resource, type));
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource,
                                  CUdevResourceType type) {
    SIM_ENTER(cuGreenCtxGetDevResource);
    struct sim_context *context;
    CUresult result = find(hCtx, &context);
    return sim_leave(result ? result : get_resource(resource, type));
}

/* Groups of at least this many multiprocessors; with result NULL only their possible number. */
static CUresult split(CUdevResource *result, unsigned *n_groups, const CUdevResource *input,
                      CUdevResource *remaining, unsigned min_count) {
    if (!n_groups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned size = (min_count + MULTIPROCESSORS_PER_GROUP - 1) / MULTIPROCESSORS_PER_GROUP *
                    MULTIPROCESSORS_PER_GROUP;
    if (size == 0)
        size = MULTIPROCESSORS_PER_GROUP;
    unsigned n = input->sm.smCount / size;
    if (n == 0)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (!result || *n_groups > n)
        *n_groups = n;
    for (unsigned i = 0; result && i < *n_groups; i++)
        fill(&result[i], size);
    if (remaining)
        fill(remaining, input->sm.smCount - *n_groups * size);
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                     const CUdevResource *input, CUdevResource *remaining,
                                     unsigned int useFlags, unsigned int minCount) {
    SIM_ENTER(cuDevSmResourceSplitByCount);
    (void)useFlags;
    return sim_leave(split(result, nbGroups, input, remaining, minCount));
}

/* A descriptor is never used up or destroyed; its resources make no difference. */
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                   unsigned int nbResources) {
    SIM_ENTER(cuDevResourceGenerateDesc);
    static char descriptor;
    if (!phDesc || !resources || nbResources == 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *phDesc = (CUdevResourceDesc)(void *)&descriptor;
    return sim_leave(CUDA_SUCCESS);
}

/* The primary context must be there, because the caller has retained it. */
static CUresult create(CUgreenCtx *out, CUdevResourceDesc descriptor, CUdevice ordinal,
                       unsigned flags) {
    struct sim_device *device = sim_device_at(ordinal);
    if (!out || !descriptor || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!device->primary || !device->primary->is_alive)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_context *context =
        sim_context_create(device, device->primary, device->primary_flags);
    *out = (CUgreenCtx)context;
    return context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags) {
    SIM_ENTER(cuGreenCtxCreate);
    return sim_leave(create(phCtx, desc, dev, flags));
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
    SIM_ENTER(cuGreenCtxDestroy);
    struct sim_context *context;
    CUresult result = find(hCtx, &context);
    if (result == CUDA_SUCCESS)
        sim_context_end(context);
    return sim_leave(result);
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx) {
    SIM_ENTER(cuCtxFromGreenCtx);
    struct sim_context *context;
    CUresult result = pContext ? find(hCtx, &context) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pContext = (CUcontext)context;
    return sim_leave(result);
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId) {
    SIM_ENTER(cuGreenCtxGetId);
    struct sim_context *context;
    CUresult result = greenCtxId ? find(greenCtx, &context) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *greenCtxId = context->id;
    return sim_leave(result);
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                int priority) {
    SIM_ENTER(cuGreenCtxStreamCreate);
    struct sim_context *context;
    CUresult result = find(greenCtx, &context);
    if (result == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING))
        result = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(result ? result : sim_stream_make(phStream, context, flags, priority));
}
