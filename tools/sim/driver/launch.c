#include "launch.h"

#include "calls.h"
#include "context.h"
#include "function.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS_PER_BLOCK = 1024, MAX_SHARED_BYTES = 232448, ALIGN_BYTES = 16 };

static CUresult judge_shape(const unsigned grid[3], const unsigned block[3],
                            unsigned shared_bytes) {
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 || grid[1] > 65535 || grid[2] > 65535 ||
        grid[0] > 2147483647u || (uint64_t)block[0] * block[1] * block[2] > MAX_THREADS_PER_BLOCK ||
        shared_bytes > MAX_SHARED_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static size_t round_up(size_t n_bytes) {
    return (n_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Parameters are taken by value, now. */
static CUresult copy_params(struct sim_kernel_work *kernel, void *const *params) {
    const size_t *sizes = kernel->function->param_bytes;
    if (!sizes || !sizes[0])
        return CUDA_SUCCESS;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    for (; sizes[kernel->n_params]; kernel->n_params++)
        kernel->n_bytes += round_up(sizes[kernel->n_params]);
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

static CUresult copy_packed(struct sim_kernel_work *kernel, void *const *extra) {
    void *params[256];
    char *packed;
    SIM_TRY(find_packed(&packed, kernel->function, extra));
    const size_t *sizes = kernel->function->param_bytes;
    for (size_t i = 0; sizes && sizes[i] && i < 256; i++)
        params[i] = packed + sim_function_offset(kernel->function, i);
    return copy_params(kernel, params);
}

CUresult sim_launch_work(CUfunction handle, const unsigned grid[3], const unsigned block[3],
                         unsigned shared_bytes, void *const *params, void *const *extra,
                         struct sim_work *out) {
    struct sim_kernel_work kernel = {.function = NULL};
    SIM_TRY(sim_function_of_handle(handle, &kernel.function));
    SIM_TRY(judge_shape(grid, block, shared_bytes));
    if (!kernel.function->kernel)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (extra && params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(kernel.launch.grid, grid, sizeof kernel.launch.grid);
    memcpy(kernel.launch.block, block, sizeof kernel.launch.block);
    kernel.launch.shared_bytes = shared_bytes;
    SIM_TRY(extra ? copy_packed(&kernel, extra) : copy_params(&kernel, params));
    *out = (struct sim_work){.kind = SIM_WORK_KERNEL, .as.kernel = kernel};
    return CUDA_SUCCESS;
}

struct shape {
    unsigned grid[3], block[3], shared_bytes;
};

static CUresult launch(CUfunction function, const struct shape *shape, CUstream handle,
                       CUstream usual, void *const *params, void *const *extra) {
    struct sim_stream *stream;
    struct sim_work work;
    SIM_TRY(sim_stream_of_handle(handle, usual, &stream));
    SIM_TRY(sim_launch_work(function, shape->grid, shape->block, shape->shared_bytes, params, extra,
                            &work));
    return sim_stream_enqueue(stream, &work, NULL);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra) {
    SIM_ENTER(cuLaunchKernel);
    const struct shape shape = {
        {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return sim_leave(launch(f, &shape, hStream, CU_STREAM_LEGACY, kernelParams, extra));
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                             void **kernelParams, void **extra) {
    SIM_ENTER(cuLaunchKernel_ptsz);
    const struct shape shape = {
        {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return sim_leave(launch(f, &shape, hStream, CU_STREAM_PER_THREAD, kernelParams, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams) {
    SIM_ENTER(cuLaunchCooperativeKernel);
    const struct shape shape = {
        {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return sim_leave(launch(f, &shape, hStream, CU_STREAM_LEGACY, kernelParams, NULL));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                        unsigned int gridDimZ, unsigned int blockDimX,
                                        unsigned int blockDimY, unsigned int blockDimZ,
                                        unsigned int sharedMemBytes, CUstream hStream,
                                        void **kernelParams) {
    SIM_ENTER(cuLaunchCooperativeKernel_ptsz);
    const struct shape shape = {
        {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
    return sim_leave(launch(f, &shape, hStream, CU_STREAM_PER_THREAD, kernelParams, NULL));
}

/* Attributes of a launch make no difference here. */
static CUresult launch_config(const CUlaunchConfig *config, CUfunction function, CUstream usual,
                              void *const *params, void *const *extra) {
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    const struct shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                {config->blockDimX, config->blockDimY, config->blockDimZ},
                                config->sharedMemBytes};
    return launch(function, &shape, config->hStream, usual, params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra) {
    SIM_ENTER(cuLaunchKernelEx);
    return sim_leave(launch_config(config, f, CU_STREAM_LEGACY, kernelParams, extra));
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                               void **extra) {
    SIM_ENTER(cuLaunchKernelEx_ptsz);
    return sim_leave(launch_config(config, f, CU_STREAM_PER_THREAD, kernelParams, extra));
}
