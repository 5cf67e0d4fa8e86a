/*
 * The driver: one table, loaded at first use, and whether this process may use it.
 *
 * States go UNLOADED -> READY or FAILED; cushim_load and cushim_unload go back.  A child forked
 * after the first use is FORKED for good: nothing of the driver or of our locks survives a fork.
 * Lock: one mutex for loading and unloading; a call that finds READY takes none.
 */
#ifndef CUSHIM_COMPANION_DRIVER_H
#define CUSHIM_COMPANION_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/types.h"
#include "cushim/status.h"
#include "companion/core/export.h"

/*
 * CUSHIM_DRIVER(cuMemFree_v2)(address) calls the driver.  Each DRV row of symbols.def, HOOK, CALL
 * and NATIVE alike, has a slot, which is NULL where the driver has no such function.
 *
 * A slot is a variable of its own, which the linker finds: who calls the driver is not compiled
 * anew when symbols.def changes, and a name that has no row there does not link.
 */
#define CUSHIM_DRIVER_SLOT(entry) _Atomic(__typeof__(&entry))
#define CUSHIM_DRIVER(entry)                                                                       \
    (*__extension__({                                                                              \
        extern CUSHIM_DRIVER_SLOT(entry) cushim_driver_##entry;                                    \
        &cushim_driver_##entry;                                                                    \
    }))

/* What cushim's other libraries call. */
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuCtxGetCurrent) cushim_driver_cuCtxGetCurrent;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuCtxGetDevice) cushim_driver_cuCtxGetDevice;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuCtxPopCurrent_v2) cushim_driver_cuCtxPopCurrent_v2;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuCtxPushCurrent_v2) cushim_driver_cuCtxPushCurrent_v2;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuDeviceGet) cushim_driver_cuDeviceGet;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuDeviceGetAttribute) cushim_driver_cuDeviceGetAttribute;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuDeviceGetCount) cushim_driver_cuDeviceGetCount;
extern CUSHIM_SHARED
    CUSHIM_DRIVER_SLOT(cuDevicePrimaryCtxRelease_v2) cushim_driver_cuDevicePrimaryCtxRelease_v2;
extern CUSHIM_SHARED
    CUSHIM_DRIVER_SLOT(cuDevicePrimaryCtxRetain) cushim_driver_cuDevicePrimaryCtxRetain;
extern CUSHIM_SHARED
    CUSHIM_DRIVER_SLOT(cuGraphRetainUserObject) cushim_driver_cuGraphRetainUserObject;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuKernelSetAttribute) cushim_driver_cuKernelSetAttribute;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuLaunchHostFunc) cushim_driver_cuLaunchHostFunc;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuLaunchKernel) cushim_driver_cuLaunchKernel;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuLaunchKernelEx) cushim_driver_cuLaunchKernelEx;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuLibraryGetKernel) cushim_driver_cuLibraryGetKernel;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuLibraryLoadData) cushim_driver_cuLibraryLoadData;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuLibraryUnload) cushim_driver_cuLibraryUnload;
extern CUSHIM_SHARED
    CUSHIM_DRIVER_SLOT(cuOccupancyMaxActiveClusters) cushim_driver_cuOccupancyMaxActiveClusters;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuPointerGetAttribute) cushim_driver_cuPointerGetAttribute;
extern CUSHIM_SHARED
    CUSHIM_DRIVER_SLOT(cuStreamGetCaptureInfo_v2) cushim_driver_cuStreamGetCaptureInfo_v2;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuStreamGetCtx) cushim_driver_cuStreamGetCtx;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuStreamGetDevice) cushim_driver_cuStreamGetDevice;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuStreamIsCapturing) cushim_driver_cuStreamIsCapturing;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuUserObjectCreate) cushim_driver_cuUserObjectCreate;
extern CUSHIM_SHARED CUSHIM_DRIVER_SLOT(cuUserObjectRelease) cushim_driver_cuUserObjectRelease;

/* The part that the layers above take. */
extern struct cushim_cuda cushim_driver_cuda;

enum cushim_driver_state {
    CUSHIM_DRIVER_UNLOADED,
    CUSHIM_DRIVER_READY,  /* loaded, and cuInit succeeded */
    CUSHIM_DRIVER_FAILED, /* cushim_driver_reason says why */
    CUSHIM_DRIVER_FORKED
};

extern CUSHIM_SHARED atomic_int cushim_driver_state_now;

/* Load, or say why not: the part of cushim_driver_use that is not the rule. */
CUSHIM_SHARED enum cushim_status cushim_driver_use_slow(const char *what);

/**
 * Be sure that there is a driver to call.
 * @param what  our public function, for the text
 * @return CUSHIM_OK | CUSHIM_NOCUDA (no libcuda, or a forked child), CUSHIM_NODEVICE, or what
 * cuInit said; the error text is set Threads  any; the first use takes a lock
 */
static inline enum cushim_status cushim_driver_use(const char *what) {
    if (__builtin_expect(atomic_load_explicit(&cushim_driver_state_now, memory_order_acquire) ==
                             CUSHIM_DRIVER_READY,
                         1))
        return CUSHIM_OK;
    return cushim_driver_use_slow(what);
}

/* For what needs no driver (an arena on the caller's memory): NOCUDA in a forked child, else OK. */
enum cushim_status cushim_driver_use_process(const char *what);

/* Loaded and initialised, in a process that is no forked child and watches for forks. */
static inline bool cushim_driver_is_ready(void) {
    return __builtin_expect(atomic_load_explicit(&cushim_driver_state_now, memory_order_acquire) ==
                                CUSHIM_DRIVER_READY,
                            1);
}

/* Is this a child forked after the first use? */
static inline bool cushim_driver_is_forked(void) {
    return atomic_load_explicit(&cushim_driver_state_now, memory_order_relaxed) ==
           CUSHIM_DRIVER_FORKED;
}

/* cuDriverGetVersion: 1000 * major + 10 * minor; 0 before it is loaded. */
int cushim_driver_number(void);

/* Load from `path` (NULL: the default search) or unload; cushim_load and cushim_unload. */
enum cushim_status cushim_driver_load(const char *what, const char *path);
enum cushim_status cushim_driver_unload(const char *what);

/* Names tried and the loader's words; "" where nothing failed; the calling thread's copy. */
const char *cushim_driver_reason(void);

/* An entry point by any exported name: the table's, else the driver's own; NULL: absent. */
CUSHIM_SHARED void *cushim_driver_find(const char *name);

#endif
