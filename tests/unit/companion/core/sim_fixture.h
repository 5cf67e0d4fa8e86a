/*
 * The software device for these suites: the library loads it from CUSHIM_LIBCUDA, and dlopen loads
 * it here, so that tests can also call its own functions (tools/sim/sim.h) and the raw driver.
 * Without that variable both load the machine's driver.
 */
#pragma once

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/types.h"

/* A function of the software device by name, into a pointer of its type. */
static inline void sim_find(const char *name, void *function) {
    const char *path = getenv("CUSHIM_LIBCUDA");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    ck_assert_ptr_nonnull(library);
    void *address = dlsym(library, name);
    ck_assert_ptr_nonnull(address);
    memcpy(function, &address, sizeof address);
}

/* SIM(cuCtxGetCurrent)(&context): a raw call that bypasses the library. */
#define SIM(name)                                                                                  \
    __extension__({                                                                                \
        __typeof__(&name) function_;                                                               \
        sim_find(#name, &function_);                                                               \
        function_;                                                                                 \
    })

/* The calling thread's CUDA context. */
static inline CUcontext sim_current(void) {
    CUcontext context = NULL;
    ck_assert_int_eq(SIM(cuCtxGetCurrent)(&context), CUDA_SUCCESS);
    return context;
}
