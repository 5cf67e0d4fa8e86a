/* Copies between lines and the bytes of a one-dimensional array, counted from an offset. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/memory/array.h"
#include "tools/sim/driver/core/calls.h"
#include "copy.h"

/* A place in an array as an address; n_bytes from there must be inside it. */
static CUresult place(CUarray handle, size_t offset, size_t n_bytes, CUdeviceptr *out) {
    struct sim_array *array;
    SIM_TRY(sim_array_of_handle(handle, &array));
    if (offset > array->n_bytes || n_bytes > array->n_bytes - offset)
        return CUDA_ERROR_INVALID_VALUE;
    *out = array->address + offset;
    return CUDA_SUCCESS;
}

static CUresult to_array(CUarray array, size_t offset, CUdeviceptr src, enum sim_end_kind src_kind,
                         size_t n_bytes, CUstream stream, CUstream default_stream, bool is_sync) {
    CUdeviceptr dst;
    SIM_TRY(place(array, offset, n_bytes, &dst));
    struct sim_copy copy = sim_copy_line(dst, SIM_END_DEVICE, src, src_kind, n_bytes);
    return sim_copy_do(&copy, stream, default_stream, is_sync);
}

static CUresult from_array(CUdeviceptr dst, enum sim_end_kind dst_kind, CUarray array,
                           size_t offset, size_t n_bytes, CUstream stream, CUstream default_stream,
                           bool is_sync) {
    CUdeviceptr src;
    SIM_TRY(place(array, offset, n_bytes, &src));
    struct sim_copy copy = sim_copy_line(dst, dst_kind, src, SIM_END_DEVICE, n_bytes);
    return sim_copy_do(&copy, stream, default_stream, is_sync);
}

static CUresult between(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,
                        size_t n_bytes, CUstream default_stream) {
    CUdeviceptr from;
    SIM_TRY(place(src, src_offset, n_bytes, &from));
    return to_array(dst, dst_offset, from, SIM_END_DEVICE, n_bytes, NULL, default_stream, true);
}

SIM_BOTH(cuMemcpyDtoA_v2, _ptds,
         TAKES(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),
         to_array(dstArray, dstOffset, srcDevice, SIM_END_DEVICE, ByteCount, NULL, default_stream,
                  true))

SIM_BOTH(cuMemcpyAtoD_v2, _ptds,
         TAKES(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount),
         from_array(dstDevice, SIM_END_DEVICE, srcArray, srcOffset, ByteCount, NULL, default_stream,
                    true))

SIM_BOTH(cuMemcpyHtoA_v2, _ptds,
         TAKES(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
         to_array(dstArray, dstOffset, (CUdeviceptr)(uintptr_t)srcHost, SIM_END_HOST, ByteCount,
                  NULL, default_stream, true))

SIM_BOTH(cuMemcpyAtoH_v2, _ptds,
         TAKES(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),
         from_array((CUdeviceptr)(uintptr_t)dstHost, SIM_END_HOST, srcArray, srcOffset, ByteCount,
                    NULL, default_stream, true))

SIM_BOTH(cuMemcpyAtoA_v2, _ptds,
         TAKES(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
               size_t ByteCount),
         between(dstArray, dstOffset, srcArray, srcOffset, ByteCount, default_stream))

SIM_BOTH(cuMemcpyHtoAAsync_v2, _ptsz,
         TAKES(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount,
               CUstream hStream),
         to_array(dstArray, dstOffset, (CUdeviceptr)(uintptr_t)srcHost, SIM_END_HOST, ByteCount,
                  hStream, default_stream, false))

SIM_BOTH(cuMemcpyAtoHAsync_v2, _ptsz,
         TAKES(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
               CUstream hStream),
         from_array((CUdeviceptr)(uintptr_t)dstHost, SIM_END_HOST, srcArray, srcOffset, ByteCount,
                    hStream, default_stream, false))
