/* Copies in batches: each goes into the stream by itself, in any order a device might take. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/memory/array.h"
#include "tools/sim/driver/core/calls.h"
#include "copy.h"
#include "copy_box.h"

/* The legacy stream is refused, as by the driver. */
static CUresult judge_stream(CUstream stream, CUstream default_stream) {
    if (stream == CU_STREAM_LEGACY || (!stream && default_stream == CU_STREAM_LEGACY))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* fail_at: gets the number of the first bad copy, or NULL. */
static CUresult lines(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                      size_t n, size_t *fail_at, CUstream stream, CUstream default_stream) {
    SIM_TRY(judge_stream(stream, default_stream));
    if (!dsts || !srcs || !sizes || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        struct sim_copy copy =
            sim_copy_line(dsts[i], SIM_END_UNIFIED, srcs[i], SIM_END_UNIFIED, sizes[i]);
        CUresult result = sim_copy_do(&copy, stream, default_stream, false);
        if (result != CUDA_SUCCESS) {
            if (fail_at)
                *fail_at = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/* One end of a box of a batch, as the words of cuMemcpy3D. */
struct words {
    CUmemorytype type;
    CUdeviceptr device;
    CUarray array;
    size_t x_bytes, y, z, pitch, height, element_bytes;
};

static CUresult read_operand(const CUmemcpy3DOperand *operand, size_t element_bytes,
                             struct words *words) {
    struct sim_array *array;
    *words = (struct words){.element_bytes = element_bytes};
    if (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
        words->type = CU_MEMORYTYPE_UNIFIED;
        words->device = operand->op.ptr.ptr;
        words->pitch = operand->op.ptr.rowLength * element_bytes;
        words->height = operand->op.ptr.layerHeight;
        return CUDA_SUCCESS;
    }
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_array_of_handle(operand->op.array.array, &array));
    words->type = CU_MEMORYTYPE_ARRAY;
    words->array = operand->op.array.array;
    words->x_bytes = operand->op.array.offset.x * element_bytes;
    words->y = operand->op.array.offset.y;
    words->z = operand->op.array.offset.z;
    return CUDA_SUCCESS;
}

/* Lengths are in elements of the array, or in bytes if there is none. */
static size_t element_bytes_of(const CUDA_MEMCPY3D_BATCH_OP *op) {
    const CUmemcpy3DOperand *ends[] = {&op->src, &op->dst};
    for (unsigned i = 0; i < 2; i++) {
        struct sim_array *array;
        if (ends[i]->type == CU_MEMCPY_OPERAND_TYPE_ARRAY &&
            sim_array_of_handle(ends[i]->op.array.array, &array) == CUDA_SUCCESS)
            return sim_array_element_bytes(array->descriptor.Format, array->descriptor.NumChannels);
    }
    return 1;
}

static CUresult box(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream, CUstream default_stream) {
    struct words dst, src;
    struct sim_copy copy;
    size_t element_bytes = element_bytes_of(op);
    if (op->extent.width == 0 || op->extent.height == 0 || op->extent.depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(read_operand(&op->dst, element_bytes, &dst));
    SIM_TRY(read_operand(&op->src, element_bytes, &src));
    const CUDA_MEMCPY3D_PEER shape = {.dstMemoryType = dst.type,
                                      .dstDevice = dst.device,
                                      .dstArray = dst.array,
                                      .dstXInBytes = dst.x_bytes,
                                      .dstY = dst.y,
                                      .dstZ = dst.z,
                                      .dstPitch = dst.pitch,
                                      .dstHeight = dst.height,
                                      .srcMemoryType = src.type,
                                      .srcDevice = src.device,
                                      .srcArray = src.array,
                                      .srcXInBytes = src.x_bytes,
                                      .srcY = src.y,
                                      .srcZ = src.z,
                                      .srcPitch = src.pitch,
                                      .srcHeight = src.height,
                                      .WidthInBytes = op->extent.width * element_bytes,
                                      .Height = op->extent.height,
                                      .Depth = op->extent.depth};
    SIM_TRY(sim_copy_box(&shape, &copy));
    return sim_copy_do(&copy, stream, default_stream, false);
}

static CUresult boxes(size_t n, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_at, CUstream stream,
                      CUstream default_stream) {
    SIM_TRY(judge_stream(stream, default_stream));
    if (!ops || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        CUresult result = box(&ops[i], stream, default_stream);
        if (result != CUDA_SUCCESS) {
            if (fail_at)
                *fail_at = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

SIM_BOTH(cuMemcpyBatchAsync, _ptsz,
         TAKES(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
               CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
               CUstream hStream),
         ((void)attrs, (void)attrsIdxs, (void)numAttrs,
          lines(dsts, srcs, sizes, count, failIdx, hStream, default_stream)))

SIM_BOTH(cuMemcpyBatchAsync_v2, _ptsz,
         TAKES(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
               CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream),
         ((void)attrs, (void)attrsIdxs, (void)numAttrs,
          lines(dsts, srcs, sizes, count, NULL, hStream, default_stream)))

SIM_BOTH(cuMemcpy3DBatchAsync, _ptsz,
         TAKES(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
               unsigned long long flags, CUstream hStream),
         ((void)flags, boxes(numOps, opList, failIdx, hStream, default_stream)))

SIM_BOTH(cuMemcpy3DBatchAsync_v2, _ptsz,
         TAKES(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
               CUstream hStream),
         ((void)flags, boxes(numOps, opList, NULL, hStream, default_stream)))
