/*
 * Questions about kernels and how many of them fit.  The software device runs any shape, so the
 * answers are those of an ordinary kernel without shared memory.
 */
#include "tools/sim/runtime/core/registry.h"
#include "tools/sim/runtime/core/thread.h"

#include <string.h>

enum {
    THREADS_PER_BLOCK = 1024,
    THREADS_PER_MULTIPROCESSOR = 2048,
    BLOCKS_PER_MULTIPROCESSOR = 32
};

static cudaError_t check(const void *stub) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !simrt_registry_kernel(stub))
        error = cudaErrorInvalidDeviceFunction;
    return error;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func) {
    cudaError_t error = check(func);
    if (error == cudaSuccess && !attr)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        memset(attr, 0, sizeof *attr);
        attr->maxThreadsPerBlock = THREADS_PER_BLOCK;
        attr->numRegs = 32;
        attr->ptxVersion = 90;
        attr->binaryVersion = 90;
    }
    return simrt_leave(error);
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value) {
    (void)attr, (void)value;
    return simrt_leave(check(func));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig) {
    (void)cacheConfig;
    return simrt_leave(check(func));
}

cudaError_t cudaFuncGetName(const char **name, const void *func) {
    cudaError_t error = check(func);
    if (error == cudaSuccess && !name)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *name = simrt_registry_kernel(func)->name;
    return simrt_leave(error);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr) {
    cudaError_t error = check(symbolPtr);
    if (error == cudaSuccess)
        error = simrt_registry_function(simrt_registry_kernel(symbolPtr), functionPtr);
    return simrt_leave(error);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr) {
    cudaError_t error = check(entryFuncAddr);
    return error == cudaSuccess ? __cudaGetKernel(kernelPtr, entryFuncAddr) : simrt_leave(error);
}

static cudaError_t fitting_blocks(int *n_blocks, const void *stub, int n_threads) {
    cudaError_t error = check(stub);
    if (error == cudaSuccess && (!n_blocks || n_threads <= 0))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && n_threads > THREADS_PER_BLOCK) {
        *n_blocks = 0;
    } else if (error == cudaSuccess) {
        int fitting = THREADS_PER_MULTIPROCESSOR / n_threads;
        *n_blocks = fitting < BLOCKS_PER_MULTIPROCESSOR ? fitting : BLOCKS_PER_MULTIPROCESSOR;
    }
    return simrt_leave(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                          int blockSize, size_t dynamicSMemSize) {
    (void)dynamicSMemSize;
    return fitting_blocks(numBlocks, func, blockSize);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags) {
    (void)dynamicSMemSize, (void)flags;
    return fitting_blocks(numBlocks, func, blockSize);
}
