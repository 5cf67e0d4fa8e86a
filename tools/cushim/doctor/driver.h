/*
 * The CUDA driver, found by dlopen and dlsym, as programs find it.
 *
 * Under the preload the same look-ups must give our entry points, which the probe tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

/* The calls that the command makes itself. */
#define DRIVER_CALLS(CALL)                                                                         \
    CALL(cuInit)                                                                                   \
    CALL(cuDriverGetVersion)                                                                       \
    CALL(cuGetErrorName)                                                                           \
    CALL(cuGetProcAddress_v2)                                                                      \
    CALL(cuDeviceGetCount)                                                                         \
    CALL(cuDeviceGetName)                                                                          \
    CALL(cuDeviceTotalMem_v2)                                                                      \
    CALL(cuDevicePrimaryCtxRetain)                                                                 \
    CALL(cuCtxPushCurrent_v2)                                                                      \
    CALL(cuMemAlloc_v2)                                                                            \
    CALL(cuMemFree_v2)

struct driver {
    void *handle;
#define DRIVER_FIELD(name) __typeof__(&name) name;
    DRIVER_CALLS(DRIVER_FIELD)
#undef DRIVER_FIELD
};

/*
 * Open libcuda.so.1 and look its calls up.  Returns false if it is missing or lacks one; `wrong`
 * then has the reason as one phrase.  It stays open until the process ends.
 */
bool driver_open(struct driver *driver, char *wrong, size_t wrong_bytes);

/* Is it the driver of the software device (tools/sim)? */
bool driver_is_software(const struct driver *driver);

/* "CUDA_ERROR_NO_DEVICE" and the like; never NULL, static. */
const char *driver_error_name(const struct driver *driver, CUresult error);

/* The file that the code at `address` comes from, or "?"; valid while that file is loaded. */
const char *driver_file_of(const void *address);
