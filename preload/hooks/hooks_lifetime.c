/*
 * Hooks of the driver's start and of contexts' ends (interposition.md E): a heap goes with its
 * context, without a driver call of ours.
 */
#include "preload/entry/async_pool.h"
#include "preload/entry/context_memory.h"
#include "preload/entry/entry.h"
#include "preload/hooks/hook.h"
#include "preload/observe/check.h"
#include "preload/state/contexts.h"
#include "preload/state/host_effect.h"
#include "preload/state/primary.h"

CUSHIM_EXPORT CUresult cuInit(unsigned flags) {
    struct cushim_cuda *cuda = cushim_call_begin(CUSHIM_SYMBOL_cuInit);
    if (!cuda || !cuda->cuInit)
        return CUDA_ERROR_NO_DEVICE; /* B17 */
    CUresult answer = cuda->cuInit(flags);
    if (answer == CUDA_SUCCESS)
        cushim_process_note_driver_use();
    return answer;
}

/* All work of the context (NULL: the current one) is over, so its deferred blocks can be checked,
 * and its idle memory can go back. */
static CUresult look(struct cushim_cuda *cuda, CUcontext context, CUresult answer) {
    if (answer == CUDA_SUCCESS)
        cushim_async_give_back_stale();
    if (answer != CUDA_SUCCESS || !cushim_contexts_count())
        return answer;
    if (!context)
        cuda->cuCtxGetCurrent(&context);
    if (cushim_check_is_on())
        cushim_check_synchronised(context ? cushim_contexts_find(context) : NULL);
    cushim_contexts_give_back_stale(context);
    return answer;
}

#define SYNCHRONISE(context, call)                                                                 \
    struct cushim_synchronise synchronise = cushim_host_effect_synchronise(cuda, context);         \
    CUresult answer = cushim_host_effect_synchronised(&synchronise, call);                         \
    return look(cuda, context, answer)

HOOK(cuCtxSynchronize, TAKES(void), SYNCHRONISE(NULL, REAL()))
HOOK(cuCtxSynchronize_v2, TAKES(CUcontext context), SYNCHRONISE(context, REAL(context)))

static CUresult destroy_context(__typeof__(&cuCtxDestroy_v2) real, CUcontext context) {
    if (!context || !cushim_process_is_on())
        return real(context);
    cushim_contexts_leave(context);
    CUresult answer = real(context);
    cushim_contexts_settle(context, answer == CUDA_SUCCESS);
    return answer;
}

HOOK(cuCtxDestroy, TAKES(CUcontext context), return destroy_context(REAL, context))
HOOK(cuCtxDestroy_v2, TAKES(CUcontext context), return destroy_context(REAL, context))

HOOK(cuCtxAttach, TAKES(CUcontext *context, unsigned flags),
     ON_SUCCESS(REAL(context, flags), if (cushim_process_is_on()) cushim_contexts_attach(*context)))

/* It ends the context only if this was its last use. */
CUSHIM_EXPORT CUresult cuCtxDetach(CUcontext context) {
    CUSHIM_ENTER(cuCtxDetach)
    if (!context || !cushim_process_is_on() || !cushim_contexts_detach(context))
        return destroy_context(cuda->cuCtxDetach, context);
    CUresult answer = cuda->cuCtxDetach(context);
    if (answer != CUDA_SUCCESS)
        cushim_contexts_attach(context);
    return answer;
}

CUSHIM_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc descriptor,
                                        CUdevice device, unsigned flags) {
    CUSHIM_ENTER(cuGreenCtxCreate)
    CUcontext context;
    CUresult answer = cuda->cuGreenCtxCreate(green, descriptor, device, flags);
    /* done before it has streams, because a query of their context gives this one */
    if (answer == CUDA_SUCCESS && cushim_process_is_on() && cuda->cuCtxFromGreenCtx &&
        cuda->cuCtxFromGreenCtx(&context, *green) == CUDA_SUCCESS)
        cushim_contexts_note_green(cuda, context);
    return answer;
}

HOOK(cuCtxFromGreenCtx, TAKES(CUcontext *context, CUgreenCtx green),
     ON_SUCCESS(REAL(context, green),
                if (cushim_process_is_on()) cushim_contexts_note_green(cuda, *context)))

CUSHIM_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green) {
    CUSHIM_ENTER(cuGreenCtxDestroy)
    CUcontext context = NULL;
    if (cushim_process_is_on() && cuda->cuCtxFromGreenCtx)
        cuda->cuCtxFromGreenCtx(&context, green);
    CUresult answer = cuda->cuGreenCtxDestroy(green);
    if (answer == CUDA_SUCCESS && context)
        cushim_contexts_settle(context, true);
    return answer;
}

static CUresult reset_primary(struct cushim_cuda *cuda,
                              __typeof__(&cuDevicePrimaryCtxReset_v2) real, CUdevice device) {
    if (!cushim_process_is_on())
        return real(device);
    size_t live_bytes = cushim_check_before_reset(device);
    CUresult answer = cushim_primary_reset(cuda, real, device);
    cushim_check_after_reset(device, live_bytes);
    return answer;
}

HOOK(cuDevicePrimaryCtxReset, TAKES(CUdevice device), return reset_primary(cuda, REAL, device))
HOOK(cuDevicePrimaryCtxReset_v2, TAKES(CUdevice device), return reset_primary(cuda, REAL, device))

/* ---- contexts that are made ---- */

/* The context is there, or there was no memory for it. */
static CUresult made(struct cushim_context_memory *memory, struct cushim_cuda *cuda,
                     CUresult answer, const CUcontext *context, CUdevice device) {
    if (answer == CUDA_SUCCESS) {
        cushim_check_context_made(cuda, device);
        cushim_context_memory_taken(memory, *context);
    } else if (answer == CUDA_ERROR_OUT_OF_MEMORY) {
        cushim_context_memory_refused(device);
    }
    return answer;
}

#define CREATE(before, call)                                                                       \
    struct cushim_context_memory memory = before;                                                  \
    CUresult answer = CUSHIM_ENTRY_RETRIED(call);                                                  \
    return made(&memory, cuda, answer, context, device)

CUSHIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CUSHIM_ENTER(cuDevicePrimaryCtxRetain)
    struct cushim_context_memory before = {0};
    if (!cushim_process_is_on())
        return cuda->cuDevicePrimaryCtxRetain(context, device);
    if (cushim_process.is_watched && !cushim_primary_of(cuda, device))
        before = cushim_context_memory_of_context(cuda, device);
    CREATE(before, cushim_primary_retain(cuda->cuDevicePrimaryCtxRetain, context, device));
}

HOOK(cuCtxCreate_v2, TAKES(CUcontext *context, unsigned flags, CUdevice device),
     CREATE(cushim_context_memory_of_context(cuda, device), REAL(context, flags, device)))
HOOK(cuCtxCreate_v3,
     TAKES(CUcontext *context, CUexecAffinityParam *affinities, int n, unsigned flags,
           CUdevice device),
     CREATE(cushim_context_memory_of_context(cuda, device),
            REAL(context, affinities, n, flags, device)))
HOOK(cuCtxCreate_v4,
     TAKES(CUcontext *context, CUctxCreateParams *params, unsigned flags, CUdevice device),
     CREATE(cushim_context_memory_of_context(cuda, device), REAL(context, params, flags, device)))

static CUresult release_primary(struct cushim_cuda *cuda,
                                __typeof__(&cuDevicePrimaryCtxRelease_v2) real, CUdevice device) {
    return cushim_process_is_on() ? cushim_primary_release(cuda, real, device) : real(device);
}

HOOK(cuDevicePrimaryCtxRelease, TAKES(CUdevice device), return release_primary(cuda, REAL, device))
HOOK(cuDevicePrimaryCtxRelease_v2, TAKES(CUdevice device),
     return release_primary(cuda, REAL, device))
