/* A program's queries of a kernel, and how many of its blocks a multiprocessor would hold. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "function.h"
#include "tools/sim/driver/core/model.h"

enum {
    MAX_THREADS = 1024,
    N_REGISTERS = 32,
};

static CUresult get(CUfunction handle, CUfunction_attribute attribute, int *out) {
    struct sim_function *function;
    SIM_TRY(sim_function_of_handle(handle, &function));
    if (!out || (int)attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = function->most_threads ? function->most_threads : MAX_THREADS;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = function->n_registers ? function->n_registers : N_REGISTERS;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *out = function->local_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = function->capability ? function->capability : sim_model().capability;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *out = (int)sim_function_shared_limit(function);
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *out = function->is_wide;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *out = (int)function->shared_bytes;
        break;
    default:
        *out = 0;
        break;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
    SIM_ENTER(cuFuncGetAttribute);
    return sim_leave(get(hfunc, attrib, pi));
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    SIM_ENTER(cuKernelGetAttribute);
    (void)dev;
    return sim_leave(get((CUfunction)kernel, attrib, pi));
}

/* The parameters, each at its place in a packed buffer. */
static CUresult get_param(CUfunction handle, size_t i, size_t *offset, size_t *n_bytes) {
    struct sim_function *function;
    size_t n = 0;
    SIM_TRY(sim_function_of_handle(handle, &function));
    while (function->param_bytes && function->param_bytes[n])
        n++;
    if (!offset || i >= n)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = sim_function_offset(function, i);
    if (n_bytes)
        *n_bytes = function->param_bytes[i];
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                            size_t *paramSize) {
    SIM_ENTER(cuFuncGetParamInfo);
    return sim_leave(get_param(func, paramIndex, paramOffset, paramSize));
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                              size_t *paramSize) {
    SIM_ENTER(cuKernelGetParamInfo);
    return sim_leave(get_param((CUfunction)kernel, paramIndex, paramOffset, paramSize));
}

/* Other settings are accepted: they make no difference here. */
static CUresult accept(CUfunction handle) {
    struct sim_function *function;
    return sim_function_of_handle(handle, &function);
}

static CUresult set(CUfunction handle, CUfunction_attribute attribute, int value) {
    struct sim_function *function;
    SIM_TRY(sim_function_of_handle(handle, &function));
    if (attribute < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
        attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > sim_model().shared_bytes_of_block - (int)function->shared_bytes)
            return CUDA_ERROR_INVALID_VALUE;
        function->dynamic_shared_bytes = value;
    }
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        function->is_wide = value != 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    SIM_ENTER(cuFuncSetAttribute);
    return sim_leave(set(hfunc, attrib, value));
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    SIM_ENTER(cuKernelSetAttribute);
    (void)dev;
    return sim_leave(set((CUfunction)kernel, attrib, val));
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    SIM_ENTER(cuFuncSetCacheConfig);
    (void)config;
    return sim_leave(accept(hfunc));
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    SIM_ENTER(cuKernelSetCacheConfig);
    (void)config, (void)dev;
    return sim_leave(accept((CUfunction)kernel));
}

CUresult cuFuncLoad(CUfunction function) {
    SIM_ENTER(cuFuncLoad);
    return sim_leave(accept(function));
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
    SIM_ENTER(cuFuncIsLoaded);
    CUresult result = state ? accept(function) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return sim_leave(result);
}

static CUresult get_name(const char **out, CUfunction handle) {
    struct sim_function *function;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_function_of_handle(handle, &function));
    *out = function->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc) {
    SIM_ENTER(cuFuncGetName);
    return sim_leave(get_name(name, hfunc));
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc) {
    SIM_ENTER(cuKernelGetName);
    return sim_leave(get_name(name, (CUfunction)hfunc));
}

/* ---- occupancy: by threads alone ---- */

static CUresult max_blocks(int *out, CUfunction handle, int block_size) {
    SIM_TRY(accept(handle));
    if (!out || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = block_size > MAX_THREADS ? 0 : sim_model().threads_of_multiprocessor / block_size;
    if (*out > 32)
        *out = 32;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
    SIM_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    (void)dynamicSMemSize;
    return sim_leave(max_blocks(numBlocks, func, blockSize));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                              int blockSize, size_t dynamicSMemSize,
                                                              unsigned int flags) {
    SIM_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
    (void)dynamicSMemSize, (void)flags;
    return sim_leave(max_blocks(numBlocks, func, blockSize));
}

static CUresult best_block(int *n_blocks, int *block_size, CUfunction handle, int limit) {
    SIM_TRY(accept(handle));
    if (!n_blocks || !block_size || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *block_size = limit && limit < MAX_THREADS ? limit : MAX_THREADS;
    *n_blocks =
        sim_model().n_multiprocessors * (sim_model().threads_of_multiprocessor / *block_size);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit) {
    SIM_ENTER(cuOccupancyMaxPotentialBlockSize);
    (void)blockSizeToDynamicSMemSize, (void)dynamicSMemSize;
    return sim_leave(best_block(minGridSize, blockSize, func, blockSizeLimit));
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
                                                   CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags) {
    SIM_ENTER(cuOccupancyMaxPotentialBlockSizeWithFlags);
    (void)blockSizeToDynamicSMemSize, (void)dynamicSMemSize, (void)flags;
    return sim_leave(best_block(minGridSize, blockSize, func, blockSizeLimit));
}

/* As many as the multiprocessors hold blocks for. */
static CUresult max_clusters(int *out, CUfunction handle, const CUlaunchConfig *config) {
    int n_blocks;
    unsigned n_in_cluster = 1;
    const struct sim_model model = sim_model();
    if (!out || !config)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(max_blocks(&n_blocks, handle,
                       (int)(config->blockDimX * config->blockDimY * config->blockDimZ)));
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            n_in_cluster = config->attrs[i].value.clusterDim.x *
                           config->attrs[i].value.clusterDim.y *
                           config->attrs[i].value.clusterDim.z;
    }
    if (n_in_cluster == 0 || (n_in_cluster > 1 && n_in_cluster > (unsigned)model.widest_cluster))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *out = model.n_multiprocessors * n_blocks / (int)n_in_cluster;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                                      const CUlaunchConfig *config) {
    SIM_ENTER(cuOccupancyMaxActiveClusters);
    return sim_leave(max_clusters(numClusters, func, config));
}
