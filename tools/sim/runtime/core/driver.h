/*
 * The driver as the runtime sees it: two tables of entry points, one row of driver.def a slot.
 *
 * Like NVIDIA's runtime this one has no link to libcuda.  It opens libcuda.so.1, asks dlsym for
 * cuGetProcAddress_v2 alone, and the resolver for everything else, all before cuInit; so whoever
 * stands between a program and the driver is reached the same way.  `simrt_legacy` is what the
 * plain runtime names use, `simrt_per_thread` their _ptsz and _ptds variants: a body is written
 * once and is handed the table.  Both are written once, by simrt_driver_load, and read without a
 * lock after it.
 */
#ifndef SIMRT_DRIVER_H
#define SIMRT_DRIVER_H

/* The shared library exports what the CUDA headers declare, the archive nothing. */
#ifdef SIMRT_SHARED
#pragma GCC visibility push(default)
#endif
/* With this every exported name is declared, per-thread variants too, and none is an alias. */
#define __CUDA_API_VERSION_INTERNAL
#ifndef CUDA_ENABLE_DEPRECATED
#define CUDA_ENABLE_DEPRECATED
#endif
#include <cuda.h>
#include <cuda_runtime_api.h>
/* Their headers are of a package of its own. */
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
#if SIMRT_ABI == 12
#include "abi12.h"
#endif
#ifdef SIMRT_SHARED
#pragma GCC visibility pop
#endif

/* What the runtime says it is. */
#if SIMRT_ABI == 12
enum { SIMRT_VERSION = 12090 };
#else
enum { SIMRT_VERSION = CUDART_VERSION };
#endif

struct simrt_driver {
    __typeof__(&cuGetProcAddress_v2) cuGetProcAddress_v2;
#define CALL(abi, asked_as, since, per_thread) __typeof__(&abi) abi;
#include "driver.def"
#undef CALL
};

extern struct simrt_driver simrt_legacy;
extern struct simrt_driver simrt_per_thread;

/* Fill both tables and call cuInit, once a process; every call returns the same answer. */
cudaError_t simrt_driver_load(void);

/* CUDA 13 numbers both enums alike. */
static inline cudaError_t simrt_from_cu(CUresult result) {
    return (cudaError_t)result;
}

#endif
