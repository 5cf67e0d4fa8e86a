/* Sets of bytes, rows and boxes; 0 bytes are a success. */
#include "tools/sim/runtime/core/thread.h"

#include <stdbool.h>

static const cudaStream_t no_stream = NULL;

static cudaError_t set(const struct simrt_driver *cu, void *address, int value, size_t n_bytes,
                       bool queued, cudaStream_t stream) {
    unsigned char byte = (unsigned char)value;
    CUdeviceptr start = (CUdeviceptr)address;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && n_bytes > 0)
        error = simrt_from_cu(queued ? cu->cuMemsetD8Async(start, byte, n_bytes, stream)
                                     : cu->cuMemsetD8_v2(start, byte, n_bytes));
    return simrt_leave(error);
}

static cudaError_t set_rows(const struct simrt_driver *cu, void *address, size_t pitch, int value,
                            size_t width, size_t height, bool queued, cudaStream_t stream) {
    unsigned char byte = (unsigned char)value;
    CUdeviceptr start = (CUdeviceptr)address;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && width > 0 && height > 0)
        error =
            simrt_from_cu(queued ? cu->cuMemsetD2D8Async(start, pitch, byte, width, height, stream)
                                 : cu->cuMemsetD2D8_v2(start, pitch, byte, width, height));
    return simrt_leave(error);
}

/* Slice after slice: a slice of the box is rows, and the next one is ysize rows further on. */
static cudaError_t set_box(const struct simrt_driver *cu, struct cudaPitchedPtr box, int value,
                           struct cudaExtent extent, bool queued, cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++) {
        char *slice = (char *)box.ptr + z * box.ysize * box.pitch;
        error = set_rows(cu, slice, box.pitch, value, extent.width, extent.height, queued, stream);
    }
    return error;
}

SIMRT_BOTH(cudaMemset, _ptds, TAKES(void *devPtr, int value, size_t count),
           set(cu, devPtr, value, count, false, no_stream))

SIMRT_BOTH(cudaMemsetAsync, _ptsz,
           TAKES(void *devPtr, int value, size_t count, cudaStream_t stream),
           set(cu, devPtr, value, count, true, stream))

SIMRT_BOTH(cudaMemset2D, _ptds,
           TAKES(void *devPtr, size_t pitch, int value, size_t width, size_t height),
           set_rows(cu, devPtr, pitch, value, width, height, false, no_stream))

SIMRT_BOTH(cudaMemset2DAsync, _ptsz,
           TAKES(void *devPtr, size_t pitch, int value, size_t width, size_t height,
                 cudaStream_t stream),
           set_rows(cu, devPtr, pitch, value, width, height, true, stream))

SIMRT_BOTH(cudaMemset3D, _ptds,
           TAKES(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent),
           set_box(cu, pitchedDevPtr, value, extent, false, no_stream))

SIMRT_BOTH(cudaMemset3DAsync, _ptsz,
           TAKES(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
                 cudaStream_t stream),
           set_box(cu, pitchedDevPtr, value, extent, true, stream))
