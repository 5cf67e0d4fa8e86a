/*
 * Every kernel's device code begins with this.
 *
 * nvcc compiles kernels for the device, and a C++ compiler compiles them with
 * kernels/tests/emulator/cuda.h for tests on a machine without one.  What only one of the two knows
 * (inline PTX, shared memory of a size known at the launch) has a wrapper in this folder; other
 * code uses none of it.
 */
#ifndef CUSHIM_KERNELS_DEVICE_CUH
#define CUSHIM_KERNELS_DEVICE_CUH

#ifdef CUSHIM_EMULATED
#include "kernels/tests/emulator/cuda.h"
#else
#include <cuda_fp16.h>
#include <stdint.h>
#endif

#define DEVICE static __device__ __forceinline__

/* The kernel NAME of a family, as the launcher finds it; NAME may also be that of a function. */
#ifdef CUSHIM_EMULATED
#define KERNEL(name) extern "C" __global__ void emulated_kernel_##name
#else
#define KERNEL(name) extern "C" __global__ void name
#endif

/* The same for blocks of up to n_threads; a multiprocessor has registers for n_blocks of them. */
#ifdef CUSHIM_EMULATED
#define KERNEL_OF(n_threads, n_blocks, name)                                                       \
    static constexpr unsigned emulated_bound_##name = n_threads;                                   \
    KERNEL(name)
#else
#define KERNEL_OF(n_threads, n_blocks, name)                                                       \
    extern "C" __global__ void __launch_bounds__(n_threads, n_blocks) name
#endif

/* A part that launchers choose only from 8.0 or 9.0 on, and that older devices do not compile. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define FROM_80(...) __trap()
#else
#define FROM_80(...) __VA_ARGS__
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define FROM_90(...) __trap()
#else
#define FROM_90(...) __VA_ARGS__
#endif

/* Dynamic shared memory as an array of a type, aligned to 16 bytes; once per kernel. */
#ifdef CUSHIM_EMULATED
#define DYNAMIC_SHARED(type, name) type *name = (type *)emulated_dynamic_shared()
#else
#define DYNAMIC_SHARED(type, name)                                                                 \
    extern __shared__ __align__(16) unsigned char cushim_dynamic_shared[];                         \
    type *name = reinterpret_cast<type *>(cushim_dynamic_shared)
#endif

/* The thread's number in the grid, and the number of threads, along x. */
DEVICE int64_t thread_of_grid() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE int64_t threads_of_grid() {
    return (int64_t)gridDim.x * blockDim.x;
}

#endif
