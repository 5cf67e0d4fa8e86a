#include "kernels/dropin/enter.h"

#include <stdatomic.h>

#include "cushim/library.h"
#include "companion/shared.h"

/*
 * Numbers of cudaError_t that are not those of a CUresult, or that stand for a status without one.
 */
enum {
    ERROR_MEMORY = 2,
    ERROR_NO_DRIVER = 35,
    ERROR_NEWER_DRIVER = 36,
    ERROR_NO_DEVICE = 100,
    ERROR_NO_CONTEXT = 201,
    ERROR_UNKNOWN = 999
};

/* In CUDA 13 only these two have no cudaError_t of the same number and meaning. */
static int error_of_result(int result) {
    return result == 202 || result == 916 ? ERROR_UNKNOWN : result;
}

static int error_of(enum cushim_status status) {
    int result = cushim_last_cuda_code(); /* 0 if no driver call was refused */
    if (status == CUSHIM_OK)
        return DROPIN_OK;
    if (result)
        return error_of_result(result);
    switch (status) {
    case CUSHIM_INVALID:
        return DROPIN_INVALID;
    case CUSHIM_NOMEM:
        return ERROR_MEMORY;
    case CUSHIM_NOCUDA:
        return ERROR_NO_DRIVER;
    case CUSHIM_NOSYM:
        return ERROR_NEWER_DRIVER;
    case CUSHIM_NODEVICE:
        return ERROR_NO_DEVICE;
    case CUSHIM_NOCONTEXT:
        return ERROR_NO_CONTEXT;
    case CUSHIM_NOTSUPPORTED:
        return DROPIN_NOT_SUPPORTED;
    default:
        return ERROR_UNKNOWN;
    }
}

/* ---- the context ---- */

static _Atomic(CUcontext) kept; /* device 0's primary context; this library holds a reference */

static CUresult retain(CUcontext *context) {
    CUcontext expected = NULL;
    CUdevice device;
    CUresult result = CUSHIM_DRIVER(cuDeviceGet)(&device, 0);
    if (result == CUDA_SUCCESS)
        result = CUSHIM_DRIVER(cuDevicePrimaryCtxRetain)(context, device);
    /* a thread that was slower gives its reference back */
    if (result == CUDA_SUCCESS && !atomic_compare_exchange_strong(&kept, &expected, *context))
        CUSHIM_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
    return result;
}

static CUresult push(void) {
    CUcontext context = atomic_load(&kept);
    CUresult result = context ? CUDA_SUCCESS : retain(&context);
    if (result == CUDA_SUCCESS)
        result = CUSHIM_DRIVER(cuCtxPushCurrent_v2)(context);
    if (result != CUDA_ERROR_CONTEXT_IS_DESTROYED && result != CUDA_ERROR_INVALID_CONTEXT)
        return result;
    /* the device was reset in the meantime, which took the reference too */
    atomic_compare_exchange_strong(&kept, &context, NULL);
    result = retain(&context);
    return result == CUDA_SUCCESS ? CUSHIM_DRIVER(cuCtxPushCurrent_v2)(context) : result;
}

static bool is_of_context(cudaStream_t stream) {
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

void cushim_dropin_enter(struct dropin_scope *scope, cudaStream_t stream) {
    CUcontext current = NULL;
    *scope = (struct dropin_scope){.is_pushed = false};
    /* without a driver the call itself fails, unless it has nothing to do */
    if (!is_of_context(stream) || cushim_driver_use(__func__) != CUSHIM_OK ||
        CUSHIM_DRIVER(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || current)
        return;
    CUresult result = push();
    scope->is_pushed = result == CUDA_SUCCESS;
    scope->error = error_of_result((int)result);
}

void cushim_dropin_enter_context(struct dropin_scope *scope, cudaStream_t stream) {
    CUcontext context = NULL;
    cushim_dropin_enter(scope, stream);
    if (is_of_context(stream) || cushim_driver_use(__func__) != CUSHIM_OK ||
        CUSHIM_DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || context ||
        !CUSHIM_DRIVER(cuStreamGetCtx) ||
        CUSHIM_DRIVER(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS)
        return;
    scope->is_pushed = CUSHIM_DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
}

int cushim_dropin_leave(const struct dropin_scope *scope, enum cushim_status status) {
    CUcontext popped;
    int error = error_of(status);
    if (scope->is_pushed)
        CUSHIM_DRIVER(cuCtxPopCurrent_v2)(&popped);
    return scope->error && error > DROPIN_INVALID ? scope->error : error;
}
