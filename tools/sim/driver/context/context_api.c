/* Contexts as the program uses them: making and ending, the thread's stack, settings, waiting. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/graph/capture.h"
#include "context.h"
#include "tools/sim/driver/core/thread.h"

static CUresult push(struct sim_context *context) {
    struct sim_thread *thread = sim_thread();
    if (thread->depth == SIM_CONTEXT_STACK_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    thread->contexts[thread->depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *out) {
    struct sim_thread *thread = sim_thread();
    if (thread->depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_context *context = thread->contexts[--thread->depth];
    if (out)
        *out = (CUcontext)context;
    return CUDA_SUCCESS;
}

/* ---- making and ending ---- */

static CUresult create(CUcontext *out, unsigned flags, CUdevice ordinal, unsigned api_version) {
    struct sim_device *device = sim_device_at(ordinal);
    if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_context *context = sim_context_create(device, NULL, flags);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->api_version = api_version;
    SIM_TRY(push(context));
    *out = (CUcontext)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev) {
    SIM_ENTER(cuCtxCreate);
    return sim_leave(create(pctx, flags, dev, 3010));
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
    SIM_ENTER(cuCtxCreate_v2);
    return sim_leave(create(pctx, flags, dev, 3020));
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                        unsigned int flags, CUdevice dev) {
    SIM_ENTER(cuCtxCreate_v3);
    if (paramsArray || numParams)
        return sim_leave(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    return sim_leave(create(pctx, flags, dev, 3020));
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                        CUdevice dev) {
    SIM_ENTER(cuCtxCreate_v4);
    if (ctxCreateParams && (ctxCreateParams->execAffinityParams || ctxCreateParams->cigParams))
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    return sim_leave(create(pctx, flags, dev, 3020));
}

/* The primary context and green ones have their own ends. */
static CUresult destroy(CUcontext handle) {
    struct sim_context *context;
    struct sim_thread *thread = sim_thread();
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_of_handle(handle, &context));
    if (context->device->primary == context || context->root != context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (sim_context_top() == context)
        thread->depth--;
    sim_context_end(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx) {
    SIM_ENTER(cuCtxDestroy);
    return sim_leave(destroy(ctx));
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
    SIM_ENTER(cuCtxDestroy_v2);
    return sim_leave(destroy(ctx));
}

static CUresult attach(CUcontext *out, unsigned flags) {
    struct sim_context *context;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_current(&context));
    context->n_attached++;
    *out = (CUcontext)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags) {
    SIM_ENTER(cuCtxAttach);
    return sim_leave(attach(pctx, flags));
}

/* It must be current; its last detach ends it. */
static CUresult detach(CUcontext handle) {
    struct sim_context *context;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_of_handle(handle, &context));
    if (sim_context_top() != context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->n_attached)
        return destroy(handle);
    context->n_attached--;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx) {
    SIM_ENTER(cuCtxDetach);
    return sim_leave(detach(ctx));
}

/* ---- the thread's stack ---- */

static CUresult push_handle(CUcontext handle) {
    struct sim_context *context;
    if (!handle)
        return CUDA_ERROR_INVALID_CONTEXT;
    SIM_TRY(sim_context_of_handle(handle, &context));
    return push(context);
}

CUresult cuCtxPushCurrent(CUcontext ctx) {
    SIM_ENTER(cuCtxPushCurrent);
    return sim_leave(push_handle(ctx));
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    SIM_ENTER(cuCtxPushCurrent_v2);
    return sim_leave(push_handle(ctx));
}

CUresult cuCtxPopCurrent(CUcontext *pctx) {
    SIM_ENTER(cuCtxPopCurrent);
    return sim_leave(pop(pctx));
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx) {
    SIM_ENTER(cuCtxPopCurrent_v2);
    return sim_leave(pop(pctx));
}

/* Replaces the top; NULL removes it. */
static CUresult set_current(CUcontext handle) {
    struct sim_context *context = NULL;
    struct sim_thread *thread = sim_thread();
    if (handle)
        SIM_TRY(sim_context_of_handle(handle, &context));
    if (thread->depth)
        thread->depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    SIM_ENTER(cuCtxSetCurrent);
    return sim_leave(set_current(ctx));
}

CUresult cuCtxGetCurrent(CUcontext *pctx) {
    SIM_ENTER(cuCtxGetCurrent);
    if (!pctx)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *pctx = (CUcontext)sim_context_top();
    return sim_leave(CUDA_SUCCESS);
}

/* ---- questions and settings ---- */

static CUresult get_device(CUdevice *out, CUcontext handle) {
    struct sim_context *context;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_of_handle(handle, &context));
    *out = context->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    SIM_ENTER(cuCtxGetDevice);
    return sim_leave(get_device(device, NULL));
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
    SIM_ENTER(cuCtxGetDevice_v2);
    return sim_leave(get_device(device, ctx));
}

static CUresult get_flags(unsigned *out) {
    struct sim_context *context;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_current(&context));
    *out = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags) {
    SIM_ENTER(cuCtxGetFlags);
    return sim_leave(get_flags(flags));
}

static CUresult set_flags(unsigned flags) {
    struct sim_context *context;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_current(&context));
    context->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
    SIM_ENTER(cuCtxSetFlags);
    return sim_leave(set_flags(flags));
}

static CUresult get_id(CUcontext handle, unsigned long long *out) {
    struct sim_context *context;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_of_handle(handle, &context));
    *out = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
    SIM_ENTER(cuCtxGetId);
    return sim_leave(get_id(ctx, ctxId));
}

static CUresult get_api_version(CUcontext handle, unsigned *out) {
    struct sim_context *context;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_of_handle(handle, &context));
    *out = context->api_version;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
    SIM_ENTER(cuCtxGetApiVersion);
    return sim_leave(get_api_version(ctx, version));
}

static CUresult find_limit(CUlimit limit, size_t **out) {
    struct sim_context *context;
    SIM_TRY(sim_context_current(&context));
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if ((int)limit >= SIM_N_LIMITS)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *out = &context->root->limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    SIM_ENTER(cuCtxSetLimit);
    size_t *place;
    CUresult result = find_limit(limit, &place);
    if (result == CUDA_SUCCESS)
        *place = value;
    return sim_leave(result);
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
    SIM_ENTER(cuCtxGetLimit);
    size_t *place;
    CUresult result = pvalue ? find_limit(limit, &place) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pvalue = *place;
    return sim_leave(result);
}

/* Success if there is a context; the setting makes no difference to a software device. */
static CUresult accept(void) {
    struct sim_context *context;
    return sim_context_current(&context);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    SIM_ENTER(cuCtxSetCacheConfig);
    return sim_leave((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                                                   : accept());
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
    SIM_ENTER(cuCtxGetCacheConfig);
    CUresult result = pconfig ? accept() : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pconfig = CU_FUNC_CACHE_PREFER_NONE;
    return sim_leave(result);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    SIM_ENTER(cuCtxSetSharedMemConfig);
    return sim_leave((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
                         ? CUDA_ERROR_INVALID_VALUE
                         : accept());
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
    SIM_ENTER(cuCtxGetSharedMemConfig);
    CUresult result = pConfig ? accept() : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return sim_leave(result);
}

CUresult cuCtxResetPersistingL2Cache(void) {
    SIM_ENTER(cuCtxResetPersistingL2Cache);
    return sim_leave(accept());
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    SIM_ENTER(cuCtxGetStreamPriorityRange);
    CUresult result = accept();
    if (result == CUDA_SUCCESS && leastPriority)
        *leastPriority = 0;
    if (result == CUDA_SUCCESS && greatestPriority)
        *greatestPriority = -5;
    return sim_leave(result);
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope) {
    SIM_ENTER(cuFlushGPUDirectRDMAWrites);
    (void)target;
    (void)scope;
    return sim_leave(accept());
}

/* ---- waiting ---- */

static CUresult synchronize(CUcontext handle) {
    struct sim_context *context;
    SIM_TRY(sim_context_of_handle(handle, &context));
    SIM_TRY(sim_capture_refuse_context(context));
    return sim_context_synchronize(context);
}

CUresult cuCtxSynchronize(void) {
    SIM_ENTER(cuCtxSynchronize);
    return sim_leave(synchronize(NULL));
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    SIM_ENTER(cuCtxSynchronize_v2);
    return sim_leave(synchronize(ctx));
}

/* ---- profilers: there are none ---- */

CUresult cuProfilerStart(void) {
    SIM_ENTER(cuProfilerStart);
    return sim_leave(CUDA_SUCCESS);
}

CUresult cuProfilerStop(void) {
    SIM_ENTER(cuProfilerStop);
    return sim_leave(CUDA_SUCCESS);
}
