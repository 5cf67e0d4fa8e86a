/* Names that pass on to one call of the driver, that are refused, or that need a later driver. */
#include "thread.h"

/* The refusal takes no arguments, whatever the name takes; clang does not check that. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif

#define BODY(table, call, arguments)                                                               \
    {                                                                                              \
        cudaError_t error = simrt_enter();                                                         \
        if (error == cudaSuccess)                                                                  \
            error = simrt_from_cu(table.call arguments);                                           \
        return simrt_leave(error);                                                                 \
    }
#define THIN(name, parameters, call, arguments)                                                    \
    cudaError_t name parameters BODY(simrt_legacy, call, arguments)
#define PER_THREAD(name, parameters, call, arguments)                                              \
    cudaError_t name parameters BODY(simrt_legacy, call, arguments)                                \
    cudaError_t name##_ptsz parameters BODY(simrt_per_thread, call, arguments)
#define REFUSED(name) __typeof__(name) name __attribute__((alias("simrt_refuse")));

/* Headers of CUDA 13.0 do not declare them, later ones do. */
#if SIMRT_ABI == 12
#define LATER(name)
#else
#define LATER(name)                                                                                \
    cudaError_t later_##name(void) __asm__(#name) __attribute__((alias("simrt_later")));
#endif

cudaError_t simrt_refuse(void);
cudaError_t simrt_later(void);

__attribute__((visibility("hidden"))) cudaError_t simrt_refuse(void) {
    return simrt_leave(cudaErrorNotSupported);
}

__attribute__((visibility("hidden"))) cudaError_t simrt_later(void) {
    return simrt_leave(cudaErrorCallRequiresNewerDriver);
}

#ifdef SIMRT_SHARED
#pragma GCC visibility push(default)
#endif
#include "names.def"
#ifdef SIMRT_SHARED
#pragma GCC visibility pop
#endif
