/*
 * What the runtime keeps for a thread: its device, its last error, its launch configurations.
 *
 * Every entry that touches the device is simrt_enter, driver calls, simrt_leave.  Enter loads the
 * driver and makes sure that a context is current: the thread's own if it has one, otherwise the
 * primary context of its device, made when first needed.  Leave keeps a failure as the thread's
 * last error and returns it; a success never clears an earlier failure.
 */
#pragma once

#include "driver.h"

enum { SIMRT_CONFIGURATIONS = 8 };

/* What <<<...>>> pushes for the kernel's stub to pop. */
struct simrt_configuration {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    cudaStream_t stream;
};

struct simrt_thread {
    int device;
    cudaError_t last_error;
    unsigned n_configurations;
    struct simrt_configuration configurations[SIMRT_CONFIGURATIONS];
};

extern _Thread_local struct simrt_thread simrt_thread;

cudaError_t simrt_enter(void);
cudaError_t simrt_leave(cudaError_t error);

/* A function, and its variant for per-thread default streams, whose name ends with `suffix`.
 * `call` knows the table of the driver that is meant as `cu`. */
#define SIMRT_BOTH(abi, suffix, parameters, call)                                                  \
    SIMRT_ONE_OF_BOTH(abi, parameters, &simrt_legacy, call)                                        \
    SIMRT_ONE_OF_BOTH(abi##suffix, parameters, &simrt_per_thread, call)
#define SIMRT_ONE_OF_BOTH(abi, parameters, meant, call)                                            \
    cudaError_t abi parameters {                                                                   \
        const struct simrt_driver *cu = meant;                                                     \
        return call;                                                                               \
    }
#define TAKES(...) (__VA_ARGS__)
