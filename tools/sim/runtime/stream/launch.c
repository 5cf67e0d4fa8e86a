/*
 * Kernel launches, in each form that a compiler makes of <<<...>>>: by stub, by handle, by
 * configuration.
 */
#include "launch.h"

#include "tools/sim/runtime/core/registry.h"
#include "tools/sim/runtime/core/thread.h"

/* Enter the runtime for a launch of the named function. */
static cudaError_t enter(const void *named, dim3 grid, dim3 block, CUfunction *function) {
    cudaError_t error = simrt_enter();
    if (error != cudaSuccess)
        return error;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
        return cudaErrorInvalidConfiguration;
    return simrt_registry_resolve(named, function);
}

static cudaError_t launch(const struct simrt_driver *cu, const void *named, dim3 grid, dim3 block,
                          void **args, size_t shared_bytes, cudaStream_t stream) {
    CUfunction function = NULL;
    cudaError_t error = enter(named, grid, block, &function);
    if (error == cudaSuccess)
        error =
            simrt_from_cu(cu->cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y,
                                             block.z, (unsigned)shared_bytes, stream, args, NULL));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaLaunchKernel, _ptsz,
           TAKES(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                 cudaStream_t stream),
           launch(cu, func, gridDim, blockDim, args, sharedMem, stream))

/* A handle is the driver's. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_registry_resolve(stub, (CUfunction *)kernel);
    return simrt_leave(error);
}

SIMRT_BOTH(__cudaLaunchKernel, _ptsz,
           TAKES(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                 cudaStream_t stream),
           launch(cu, kernel, grid, block, args, shared_bytes, stream))

static cudaError_t launch_cooperative(const struct simrt_driver *cu, const void *named, dim3 grid,
                                      dim3 block, void **args, size_t shared_bytes,
                                      cudaStream_t stream) {
    CUfunction function = NULL;
    cudaError_t error = enter(named, grid, block, &function);
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z,
                                                            block.x, block.y, block.z,
                                                            (unsigned)shared_bytes, stream, args));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaLaunchCooperativeKernel, _ptsz,
           TAKES(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                 cudaStream_t stream),
           launch_cooperative(cu, func, gridDim, blockDim, args, sharedMem, stream))

CUlaunchConfig simrt_launch_config(const cudaLaunchConfig_t *config) {
    return (CUlaunchConfig){
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
}

static cudaError_t launch_configured(const struct simrt_driver *cu,
                                     const cudaLaunchConfig_t *config, const void *stub,
                                     void **args) {
    CUfunction function = NULL;
    cudaError_t error =
        config ? enter(stub, config->gridDim, config->blockDim, &function) : simrt_enter();
    if (error == cudaSuccess && !config)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return simrt_leave(error);
    CUlaunchConfig asked = simrt_launch_config(config);
    return simrt_leave(simrt_from_cu(cu->cuLaunchKernelEx(&asked, function, args, NULL)));
}

SIMRT_BOTH(cudaLaunchKernelExC, _ptsz,
           TAKES(const cudaLaunchConfig_t *config, const void *func, void **args),
           launch_configured(cu, config, func, args))

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st *stream) {
    struct simrt_thread *thread = &simrt_thread;
    if (thread->n_configurations == SIMRT_CONFIGURATIONS)
        return 1;
    thread->configurations[thread->n_configurations++] = (struct simrt_configuration){
        .grid = grid, .block = block, .shared_bytes = shared_bytes, .stream = stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
                                       void *stream) {
    struct simrt_thread *thread = &simrt_thread;
    if (thread->n_configurations == 0)
        return simrt_leave(cudaErrorMissingConfiguration);
    struct simrt_configuration top = thread->configurations[--thread->n_configurations];
    *grid = top.grid;
    *block = top.block;
    *shared_bytes = top.shared_bytes;
    *(cudaStream_t *)stream = top.stream;
    return cudaSuccess;
}
