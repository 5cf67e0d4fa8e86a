/*
 * Queries of kernels and how many of them fit.  The software device runs any shape, so the answers
 * are those of an ordinary kernel without shared memory.
 */
#include "tools/sim/runtime/core/registry.h"
#include "tools/sim/runtime/core/thread.h"
#include "tools/sim/runtime/stream/launch.h"

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

static cudaError_t resolve(const void *named, CUfunction *function) {
    cudaError_t error = simrt_enter();
    return error == cudaSuccess ? simrt_registry_resolve(named, function) : error;
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
    CUfunction function = NULL;
    cudaError_t error = resolve(func, &function);
    if (error == cudaSuccess)
        error = simrt_from_cu(
            simrt_legacy.cuFuncSetAttribute(function, (CUfunction_attribute)attr, value));
    return simrt_leave(error);
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
    return __cudaGetKernel(kernelPtr, entryFuncAddr);
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

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
                                                      int numBlocks, int blockSize) {
    int n_blocks = 0;
    cudaError_t error =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n_blocks, func, blockSize, 0);
    if (error != cudaSuccess)
        return error;
    if (!dynamicSmemSize || numBlocks <= 0 || numBlocks > n_blocks)
        return simrt_leave(cudaErrorInvalidValue);
    CUfunction function;
    int per_multiprocessor = 0, reserved = 0, limit = 0;
    error = resolve(func, &function);
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDeviceGetAttribute(
            &per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            simrt_thread.device));
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDeviceGetAttribute(
            &reserved, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, simrt_thread.device));
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDeviceGetAttribute(
            &limit, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, simrt_thread.device));
    int share = per_multiprocessor / numBlocks - reserved;
    if (error == cudaSuccess)
        *dynamicSmemSize = (size_t)(share < limit ? share : limit);
    return simrt_leave(error);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
                                           const cudaLaunchConfig_t *launchConfig) {
    CUfunction function = NULL;
    cudaError_t error = resolve(func, &function);
    if (error == cudaSuccess && !launchConfig)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        CUlaunchConfig asked = simrt_launch_config(launchConfig);
        error =
            simrt_from_cu(simrt_legacy.cuOccupancyMaxActiveClusters(numClusters, function, &asked));
    }
    return simrt_leave(error);
}

/* The largest portable cluster, which every kernel may have. */
cudaError_t cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
                                                 const cudaLaunchConfig_t *launchConfig) {
    enum { PORTABLE_BLOCKS = 8 };
    cudaError_t error = check(func);
    if (error == cudaSuccess && (!clusterSize || !launchConfig))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *clusterSize = PORTABLE_BLOCKS;
    return simrt_leave(error);
}

cudaError_t cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
                                 size_t *paramSize) {
    CUfunction function = NULL;
    cudaError_t error = resolve(func, &function);
    if (error == cudaSuccess)
        error = simrt_from_cu(
            simrt_legacy.cuFuncGetParamInfo(function, paramIndex, paramOffset, paramSize));
    return simrt_leave(error);
}

cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config) {
    (void)config;
    return simrt_leave(check(func));
}
