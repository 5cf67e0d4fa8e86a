/*
 * What libcushim shares with cushim's own libraries, of the same build: exported with the version
 * CUSHIM_PRIVATE, no part of the ABI.  Those libraries include nothing else of this folder.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/try.h"
#include "cuda/types.h"

#define CUSHIM_SHARED __attribute__((visibility("default")))

/* ---- the driver ---- */

/*
 * CUSHIM_DRIVER(cuMemFree_v2)(address) calls the driver.  Each DRV row of cuda/symbols.def, HOOK,
 * CALL and NATIVE alike, has a slot, which is NULL if the driver has no such function.
 *
 * Each slot is a variable that the linker finds.  So a source that calls the driver is not compiled
 * again when cuda/symbols.def changes, and a name without a row there does not link.
 */
#define CUSHIM_DRIVER_SLOT(entry) _Atomic(__typeof__(&entry))
#define CUSHIM_DRIVER(entry)                                                                       \
    (*__extension__({                                                                              \
        extern CUSHIM_DRIVER_SLOT(entry) cushim_driver_##entry;                                    \
        &cushim_driver_##entry;                                                                    \
    }))

/* What cushim's other libraries call. */
#define CUSHIM_SHARED_ENTRY(entry)                                                                 \
    extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(entry) cushim_driver_##entry
CUSHIM_SHARED_ENTRY(cuCtxGetCurrent);
CUSHIM_SHARED_ENTRY(cuCtxGetDevice);
CUSHIM_SHARED_ENTRY(cuCtxPopCurrent_v2);
CUSHIM_SHARED_ENTRY(cuCtxPushCurrent_v2);
CUSHIM_SHARED_ENTRY(cuDeviceGet);
CUSHIM_SHARED_ENTRY(cuDeviceGetAttribute);
CUSHIM_SHARED_ENTRY(cuDeviceGetCount);
CUSHIM_SHARED_ENTRY(cuDevicePrimaryCtxRelease_v2);
CUSHIM_SHARED_ENTRY(cuDevicePrimaryCtxRetain);
CUSHIM_SHARED_ENTRY(cuGraphRetainUserObject);
CUSHIM_SHARED_ENTRY(cuKernelSetAttribute);
CUSHIM_SHARED_ENTRY(cuLaunchHostFunc);
CUSHIM_SHARED_ENTRY(cuLaunchKernel);
CUSHIM_SHARED_ENTRY(cuLaunchKernelEx);
CUSHIM_SHARED_ENTRY(cuLibraryGetKernel);
CUSHIM_SHARED_ENTRY(cuLibraryLoadData);
CUSHIM_SHARED_ENTRY(cuLibraryUnload);
CUSHIM_SHARED_ENTRY(cuOccupancyMaxActiveClusters);
CUSHIM_SHARED_ENTRY(cuPointerGetAttribute);
CUSHIM_SHARED_ENTRY(cuStreamGetCaptureInfo_v2);
CUSHIM_SHARED_ENTRY(cuStreamGetCtx);
CUSHIM_SHARED_ENTRY(cuStreamGetDevice);
CUSHIM_SHARED_ENTRY(cuStreamIsCapturing);
CUSHIM_SHARED_ENTRY(cuUserObjectCreate);
CUSHIM_SHARED_ENTRY(cuUserObjectRelease);

enum cushim_driver_state {
    CUSHIM_DRIVER_UNLOADED,
    CUSHIM_DRIVER_READY,  /* loaded, and cuInit succeeded */
    CUSHIM_DRIVER_FAILED, /* cushim_driver_reason says why */
    CUSHIM_DRIVER_FORKED
};

extern CUSHIM_SHARED atomic_int cushim_driver_state_now;

/* The rare part of cushim_driver_use: load, or set the text of the failure. */
CUSHIM_SHARED enum cushim_status cushim_driver_use_slow(const char *what);

/**
 * Make sure that there is a driver to call.
 * @param what  our public function, for the text
 * @return CUSHIM_OK | CUSHIM_NOCUDA (no libcuda, or a forked child), CUSHIM_NODEVICE, or what
 *         cuInit said; the error text is set
 *
 * Threads  any; the first use takes a lock
 */
static inline enum cushim_status cushim_driver_use(const char *what) {
    if (__builtin_expect(atomic_load_explicit(&cushim_driver_state_now, memory_order_acquire) ==
                             CUSHIM_DRIVER_READY,
                         1))
        return CUSHIM_OK;
    return cushim_driver_use_slow(what);
}

/* An entry point by its exported name, from our table or from the library; NULL: absent. */
CUSHIM_SHARED void *cushim_driver_find(const char *name);

/* ---- the text of errors (companion/core/error.h) ---- */

/**
 * We refuse.
 * @param what     our function: __func__ of the public one
 * @param status   which is returned
 * @param format   details; "" for none
 *
 * Threads  any; keeps errno
 */
CUSHIM_SHARED __attribute__((format(printf, 3, 4))) enum cushim_status
cushim_fail(const char *what, enum cushim_status status, const char *format, ...);

/* Refuse from inside a public function. */
#define CUSHIM_FAIL(status, ...) cushim_fail(__func__, (status), __VA_ARGS__)

/**
 * The driver refused.
 * @param entry   the ABI name: suffixes _v2, _ptsz, .. are cut off the text; may carry an argument,
 *                as in "cuDeviceGetAttribute(83)"
 * @param result  not CUDA_SUCCESS
 * @return the status of result
 */
CUSHIM_SHARED __attribute__((format(printf, 3, 4))) enum cushim_status
cushim_fail_cu(const char *entry, CUresult result, const char *format, ...);

/* The loaded driver has no such entry: NOSYM naming it; `what` is our function. */
CUSHIM_SHARED enum cushim_status cushim_fail_nosym(const char *what, const char *entry);

/* The driver's name of a result, or our own if the driver has none; never NULL, static. */
CUSHIM_SHARED const char *cushim_error_cu_name(CUresult result);

/* ---- contexts and captures ---- */

/* The device of a context.  Older drivers need the context to be current, so it is for a moment. */
CUSHIM_SHARED CUresult cushim_context_ask_device(CUcontext handle, int *device);

/* Enter relaxed capture mode for our own driver calls; pass the result to _back. */
CUSHIM_SHARED CUstreamCaptureMode cushim_capture_relax(void);
CUSHIM_SHARED void cushim_capture_back(CUstreamCaptureMode mode);

/* Whether a stream, not the legacy one, is in a capture, even an invalidated one; false if the
 * driver cannot say. */
static inline bool cushim_capture_has(CUstream stream) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUSHIM_DRIVER(cuStreamIsCapturing) &&
           CUSHIM_DRIVER(cuStreamIsCapturing)(stream, &state) == CUDA_SUCCESS &&
           state != CU_STREAM_CAPTURE_STATUS_NONE;
}
