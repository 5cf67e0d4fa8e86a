/*
 * Launches as before CUDA 4: the function keeps its block's shape, its shared memory and its
 * parameters, each set by a call of its own, and a launch uses the last ones.
 */
#include "launch.h"

#include "function.h"
#include "tools/sim/driver/core/calls.h"

#include <stdlib.h>
#include <string.h>

enum { PARAM_BYTES = 4096 };

struct sim_parts {
    unsigned block[3], shared_bytes;
    size_t n_bytes;
    char bytes[PARAM_BYTES];
};

static CUresult parts_of(CUfunction handle, struct sim_parts **out) {
    struct sim_function *function;
    SIM_TRY(sim_function_of_handle(handle, &function));
    if (!function->parts)
        function->parts = calloc(1, sizeof *function->parts);
    *out = function->parts;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult set_block(CUfunction handle, int x, int y, int z) {
    struct sim_parts *parts;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(parts_of(handle, &parts));
    parts->block[0] = (unsigned)x;
    parts->block[1] = (unsigned)y;
    parts->block[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
    SIM_ENTER(cuFuncSetBlockShape);
    return sim_leave(set_block(hfunc, x, y, z));
}

static CUresult set_shared(CUfunction handle, unsigned n_bytes) {
    struct sim_parts *parts;
    SIM_TRY(parts_of(handle, &parts));
    parts->shared_bytes = n_bytes;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
    SIM_ENTER(cuFuncSetSharedSize);
    return sim_leave(set_shared(hfunc, bytes));
}

static CUresult set_size(CUfunction handle, size_t n_bytes) {
    struct sim_parts *parts;
    if (n_bytes > PARAM_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(parts_of(handle, &parts));
    parts->n_bytes = n_bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
    SIM_ENTER(cuParamSetSize);
    return sim_leave(set_size(hfunc, numbytes));
}

static CUresult set_param(CUfunction handle, int offset, const void *value, size_t n_bytes) {
    struct sim_parts *parts;
    if (offset < 0 || !value || n_bytes > PARAM_BYTES || (size_t)offset > PARAM_BYTES - n_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(parts_of(handle, &parts));
    memcpy(parts->bytes + offset, value, n_bytes);
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
    SIM_ENTER(cuParamSeti);
    return sim_leave(set_param(hfunc, offset, &value, sizeof value));
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value) {
    SIM_ENTER(cuParamSetf);
    return sim_leave(set_param(hfunc, offset, &value, sizeof value));
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes) {
    SIM_ENTER(cuParamSetv);
    return sim_leave(set_param(hfunc, offset, ptr, numbytes));
}

static CUresult launch(CUfunction handle, int width, int height, CUstream stream) {
    struct sim_parts *parts;
    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(parts_of(handle, &parts));
    struct sim_shape shape = {.grid = {(unsigned)width, (unsigned)height, 1},
                              .shared_bytes = parts->shared_bytes};
    memcpy(shape.block, parts->block, sizeof shape.block);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, parts->bytes, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &parts->n_bytes, CU_LAUNCH_PARAM_END};
    return sim_launch(handle, &shape, stream, CU_STREAM_LEGACY, NULL, extra);
}

CUresult cuLaunch(CUfunction f) {
    SIM_ENTER(cuLaunch);
    return sim_leave(launch(f, 1, 1, NULL));
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
    SIM_ENTER(cuLaunchGrid);
    return sim_leave(launch(f, grid_width, grid_height, NULL));
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    SIM_ENTER(cuLaunchGridAsync);
    return sim_leave(launch(f, grid_width, grid_height, hStream));
}
