/*
 * The driver as the runtime sees it: two tables of entry points, one slot for each row of
 * driver.def.
 *
 * Like NVIDIA's runtime this one has no link to libcuda.  It opens libcuda.so.1, asks dlsym only
 * for cuGetProcAddress_v2, and the resolver for everything else, all before cuInit.  So anything
 * between a program and the driver is reached in the same way.  The plain runtime names use
 * `simrt_legacy`, their _ptsz and _ptds variants `simrt_per_thread`: a body is written once and
 * gets the table.  simrt_driver_load writes both once; they are read without a lock after it.
 */
#pragma once

/* The shared library exports what the CUDA headers declare, the archive nothing. */
#ifdef SIMRT_SHARED
#pragma GCC visibility push(default)
#endif
/* With this every exported name is declared, with per-thread variants, and none is an alias. */
#define __CUDA_API_VERSION_INTERNAL
#ifndef CUDA_ENABLE_DEPRECATED
#define CUDA_ENABLE_DEPRECATED
#endif
#include <cuda.h>
#include <cuda_runtime_api.h>
/* Another package has their headers. */
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

/* The version that the runtime reports. */
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

/* Fill both tables and call cuInit, once for each process; every call returns the same answer. */
cudaError_t simrt_driver_load(void);

/* CUDA 13 numbers both enums alike. */
static inline cudaError_t simrt_from_cu(CUresult result) {
    return (cudaError_t)result;
}
