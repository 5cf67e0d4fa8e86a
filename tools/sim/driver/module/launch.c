#include "launch.h"

#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "function.h"
#include "tools/sim/driver/core/model.h"
#include "tools/sim/driver/core/options.h"
#include "tools/sim/driver/stream/stream.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS_PER_BLOCK = 1024, ALIGN_BYTES = 16, PORTABLE_CLUSTER = 8 };

static CUresult judge_shape(const struct sim_function *function, const struct sim_shape *shape) {
    const unsigned *grid = shape->grid, *block = shape->block;
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 || grid[1] > 65535 || grid[2] > 65535 ||
        grid[0] > 2147483647u || (uint64_t)block[0] * block[1] * block[2] > MAX_THREADS_PER_BLOCK ||
        shape->shared_bytes > sim_function_shared_limit(function))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Blocks of its widest possible cluster. */
static unsigned widest_cluster(const struct sim_function *function) {
    unsigned widest = (unsigned)sim_model().widest_cluster;
    if (!widest)
        return 1;
    return function->is_wide || widest < PORTABLE_CLUSTER ? widest : PORTABLE_CLUSTER;
}

/* A grid must be whole clusters. */
static CUresult judge_cluster(const struct sim_function *function, const struct sim_shape *shape) {
    uint64_t n_blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (shape->cluster[i] == 0 || shape->grid[i] % shape->cluster[i])
            return CUDA_ERROR_INVALID_VALUE;
        n_blocks *= shape->cluster[i];
        if (n_blocks > widest_cluster(function))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    return CUDA_SUCCESS;
}

static size_t round_up(size_t n_bytes) {
    return (n_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/*
 * The device must have access to what a parameter points to.  A GPU's kernel would fault when it
 * touches that; here nothing sees what a kernel touches.
 */
static CUresult judge_param(const void *param, size_t n_bytes, const struct sim_device *device) {
    CUdeviceptr address;
    if (n_bytes != sizeof address)
        return CUDA_SUCCESS;
    memcpy(&address, param, sizeof address);
    return sim_block_lets_in(address, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Parameters are passed by value, now. */
static CUresult copy_params(struct sim_kernel_work *kernel, void *const *params,
                            const struct sim_device *device) {
    const size_t *sizes = kernel->function->param_bytes;
    if (!sizes || !sizes[0])
        return CUDA_SUCCESS;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    for (; sizes[kernel->n_params]; kernel->n_params++) {
        SIM_TRY(judge_param(params[kernel->n_params], sizes[kernel->n_params], device));
        kernel->n_bytes += round_up(sizes[kernel->n_params]);
    }
    kernel->bytes = malloc(kernel->n_bytes);
    kernel->args = malloc(kernel->n_params * sizeof *kernel->args);
    if (!kernel->bytes || !kernel->args) {
        free(kernel->bytes);
        free(kernel->args);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t offset = 0;
    for (size_t i = 0; i < kernel->n_params; i++) {
        kernel->args[i] = kernel->bytes + offset;
        memcpy(kernel->args[i], params[i], sizes[i]);
        offset += round_up(sizes[i]);
    }
    return CUDA_SUCCESS;
}

/* The one buffer that `extra` names; its size must be the kernel's. */
static CUresult find_packed(char **out, const struct sim_function *function, void *const *extra) {
    size_t n_params = 0, n_bytes = 0;
    *out = NULL;
    while (function->param_bytes && function->param_bytes[n_params])
        n_params++;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *out = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            n_bytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return *out && n_bytes == sim_function_offset(function, n_params) ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_packed(struct sim_kernel_work *kernel, void *const *extra,
                            const struct sim_device *device) {
    void *params[256];
    char *packed;
    SIM_TRY(find_packed(&packed, kernel->function, extra));
    const size_t *sizes = kernel->function->param_bytes;
    for (size_t i = 0; sizes && sizes[i] && i < 256; i++)
        params[i] = packed + sim_function_offset(kernel->function, i);
    return copy_params(kernel, params, device);
}

CUresult sim_launch_work(CUfunction handle, const struct sim_shape *shape, void *const *params,
                         void *const *extra, const struct sim_device *device,
                         struct sim_work *out) {
    struct sim_kernel_work kernel = {.launch.cluster = {1, 1, 1}};
    bool has_clusters = shape->cluster[0] || shape->cluster[1] || shape->cluster[2];
    SIM_TRY(sim_function_of_handle(handle, &kernel.function));
    kernel.kernel = kernel.function->kernel;
    SIM_TRY(judge_shape(kernel.function, shape));
    if (has_clusters)
        SIM_TRY(judge_cluster(kernel.function, shape));
    if (!kernel.kernel && sim_options()->kernels != SIM_KERNELS_SKIP)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (extra && params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(kernel.launch.grid, shape->grid, sizeof kernel.launch.grid);
    memcpy(kernel.launch.block, shape->block, sizeof kernel.launch.block);
    if (has_clusters)
        memcpy(kernel.launch.cluster, shape->cluster, sizeof kernel.launch.cluster);
    kernel.launch.shared_bytes = shape->shared_bytes;
    if (kernel.kernel) /* the parameter sizes of a skipped kernel are unknown */
        SIM_TRY(extra ? copy_packed(&kernel, extra, device) : copy_params(&kernel, params, device));
    *out = (struct sim_work){.kind = SIM_WORK_KERNEL, .as.kernel = kernel};
    return CUDA_SUCCESS;
}

CUresult sim_launch(CUfunction function, const struct sim_shape *shape, CUstream handle,
                    CUstream default_stream, void *const *params, void *const *extra) {
    struct sim_stream *stream;
    struct sim_work work;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    SIM_TRY(sim_launch_work(function, shape, params, extra, stream->context->device, &work));
    sim_context_note_launch(stream->context->root);
    return sim_stream_enqueue(stream, &work, NULL);
}

SIM_BOTH(cuLaunchKernel, _ptsz,
         TAKES(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
               unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
               unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra),
         sim_launch(f,
                    &(const struct sim_shape){.grid = {gridDimX, gridDimY, gridDimZ},
                                              .block = {blockDimX, blockDimY, blockDimZ},
                                              .shared_bytes = sharedMemBytes},
                    hStream, default_stream, kernelParams, extra))

SIM_BOTH(cuLaunchCooperativeKernel, _ptsz,
         TAKES(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
               unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
               unsigned int sharedMemBytes, CUstream hStream, void **kernelParams),
         sim_launch(f,
                    &(const struct sim_shape){.grid = {gridDimX, gridDimY, gridDimZ},
                                              .block = {blockDimX, blockDimY, blockDimZ},
                                              .shared_bytes = sharedMemBytes},
                    hStream, default_stream, kernelParams, NULL))

/* Of a launch's attributes only the cluster makes a difference here. */
static CUresult launch_config(const CUlaunchConfig *config, CUfunction function,
                              CUstream default_stream, void *const *params, void *const *extra) {
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_shape shape = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                              .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                              .shared_bytes = config->sharedMemBytes};
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue;
        shape.cluster[0] = value->clusterDim.x;
        shape.cluster[1] = value->clusterDim.y;
        shape.cluster[2] = value->clusterDim.z;
    }
    return sim_launch(function, &shape, config->hStream, default_stream, params, extra);
}

SIM_BOTH(cuLaunchKernelEx, _ptsz,
         TAKES(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
         launch_config(config, f, default_stream, kernelParams, extra))
