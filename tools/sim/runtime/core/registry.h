/*
 * What nvcc's start-up code registers: the kernels and variables of a program.
 *
 * Each is identified by the address of its stand-in on the host (a kernel's stub, a variable's
 * shadow) and goes with its fat binary.  Device code itself is never read: a kernel runs as the
 * host function that the driver finds under the kernel's name.  There is one lock; look-ups walk a
 * list, because such programs have a handful of kernels.
 */
#pragma once

#include "driver.h"

#include <stdatomic.h>

struct simrt_kernel {
    const void *stub;
    const char *name;             /* the program's own string */
    _Atomic(CUfunction) function; /* NULL until the first launch asks the driver */
    void **binary;
    struct simrt_kernel *next;
};

struct simrt_variable {
    const void *shadow;
    size_t n_bytes;
    CUdeviceptr address; /* 0 until first used; written under the registry's lock */
    void **binary;
    struct simrt_variable *next;
};

/* The kernel of this stub, or NULL. */
struct simrt_kernel *simrt_registry_kernel(const void *stub);

/*
 * What a launch may name: a stub, or the driver's handle of a kernel or a function.  Invalid device
 * function: neither.
 */
cudaError_t simrt_registry_resolve(const void *named, CUfunction *function);

/* The driver's function of a kernel, asked for once. */
cudaError_t simrt_registry_function(struct simrt_kernel *kernel, CUfunction *function);

/* A variable's address on the device, and its size; memory is taken when first needed. */
cudaError_t simrt_registry_variable(const void *shadow, CUdeviceptr *address, size_t *n_bytes);

/* nvcc's generated code calls these; no installed header declares them for C. */
#ifdef SIMRT_SHARED
#pragma GCC visibility push(default)
#endif
void **__cudaRegisterFatBinary(void *fat_binary);
void __cudaRegisterFatBinaryEnd(void **binary);
void __cudaUnregisterFatBinary(void **binary);
char __cudaInitModule(void **binary);
void __cudaRegisterFunction(void **binary, const char *stub, char *device_stub, const char *name,
                            int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                            int *warp_size);
void __cudaRegisterVar(void **binary, char *shadow, char *device_address, const char *name,
                       int external, size_t n_bytes, int constant, int global);
void __cudaRegisterManagedVar(void **binary, void **shadow, char *device_address, const char *name,
                              int external, size_t n_bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                    size_t shared_bytes, cudaStream_t stream);
#ifdef SIMRT_SHARED
#pragma GCC visibility pop
#endif
