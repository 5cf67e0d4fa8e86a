/*
 * Hooks of batches of copies, in the forms of CUDA 12.8 and 13.0, with their twins.  One copy that
 * leaves its block refuses the batch before any of it was queued, as native does.  None is staged:
 * a batch answers with the copy that failed, and may be staged in part no more than in whole.
 */
#include "cuda/table.h"
#include "preload/entry/copy_stage.h"
#include "preload/state/host_effect.h"

/* ---- runs of bytes ---- */

struct batch {
    const CUdeviceptr *to, *from;
    const size_t *sizes;
    size_t n_copies;
    CUstream stream;
};

static struct cushim_copy copy_of(const struct batch *batch, size_t i) {
    size_t n = batch->sizes[i];
    return (struct cushim_copy){CUSHIM_BY_ADDRESS,           .to = {batch->to[i], n},
                                .from = {batch->from[i], n}, .n_bytes = n,
                                .stream = batch->stream,     .is_async = true};
}

/* A NULL list is the driver's to judge. */
static bool begin(const struct batch *batch) {
    if (!batch->to || !batch->from || !batch->sizes)
        return true;
    for (size_t i = 0; i < batch->n_copies; i++) {
        struct cushim_copy copy = copy_of(batch, i);
        if (!cushim_copy_begin(&copy))
            return false;
    }
    return true;
}

static CUresult end(struct cushim_cuda *cuda, const struct batch *batch, CUresult answer) {
    for (size_t i = 0; answer == CUDA_SUCCESS && i < batch->n_copies; i++) {
        struct cushim_copy copy = copy_of(batch, i);
        cushim_copy_stage_left_batch(&copy);
        cushim_copy_end(cuda, &copy, answer);
    }
    return answer;
}

static CUresult copy_batch_v1(struct cushim_cuda *cuda, __typeof__(&cuMemcpyBatchAsync) real,
                              CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                              CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                              size_t *fail_index, CUstream stream, CUstream order) {
    struct batch batch = {to, from, sizes, n, order};
    if (!begin(&batch))
        return CUDA_ERROR_INVALID_VALUE;
    return end(cuda, &batch,
               real(to, from, sizes, n, attributes, indices, n_attributes, fail_index, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
                                          size_t n, CUmemcpyAttributes *attributes, size_t *indices,
                                          size_t n_attributes, size_t *fail_index,
                                          CUstream stream) {
    CUSHIM_ENTER(cuMemcpyBatchAsync)
    return copy_batch_v1(cuda, cuda->cuMemcpyBatchAsync, to, from, sizes, n, attributes, indices,
                         n_attributes, fail_index, stream, stream);
}

CUSHIM_EXPORT CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
                                               size_t n, CUmemcpyAttributes *attributes,
                                               size_t *indices, size_t n_attributes,
                                               size_t *fail_index, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyBatchAsync_ptsz)
    return copy_batch_v1(cuda, cuda->cuMemcpyBatchAsync_ptsz, to, from, sizes, n, attributes,
                         indices, n_attributes, fail_index, stream, cushim_per_thread(stream));
}

static CUresult copy_batch(struct cushim_cuda *cuda, __typeof__(&cuMemcpyBatchAsync_v2) real,
                           CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                           CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                           CUstream stream, CUstream order) {
    struct batch batch = {to, from, sizes, n, order};
    if (!begin(&batch))
        return CUDA_ERROR_INVALID_VALUE;
    return end(cuda, &batch, real(to, from, sizes, n, attributes, indices, n_attributes, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
                                             size_t n, CUmemcpyAttributes *attributes,
                                             size_t *indices, size_t n_attributes,
                                             CUstream stream) {
    CUSHIM_ENTER(cuMemcpyBatchAsync_v2)
    return copy_batch(cuda, cuda->cuMemcpyBatchAsync_v2, to, from, sizes, n, attributes, indices,
                      n_attributes, stream, stream);
}

CUSHIM_EXPORT CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
                                                  size_t n, CUmemcpyAttributes *attributes,
                                                  size_t *indices, size_t n_attributes,
                                                  CUstream stream) {
    CUSHIM_ENTER(cuMemcpyBatchAsync_v2_ptsz)
    return copy_batch(cuda, cuda->cuMemcpyBatchAsync_v2_ptsz, to, from, sizes, n, attributes,
                      indices, n_attributes, stream, cushim_per_thread(stream));
}

/* ---- boxes ---- */

/* An array's element size is the driver's to know: a box that meets one is judged by the driver
 * alone. */
static bool is_linear(const CUDA_MEMCPY3D_BATCH_OP *op) {
    return op->src.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
           op->dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER;
}

static struct cushim_end place(const CUmemcpy3DOperand *operand, const CUextent3D *extent) {
    size_t row_bytes = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : extent->width;
    size_t slice_bytes =
        row_bytes * (operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->height);
    return (struct cushim_end){
        operand->op.ptr.ptr,
        cushim_copy_span(extent->width, extent->height, extent->depth, row_bytes, slice_bytes)};
}

static struct cushim_copy box_of(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream) {
    return (struct cushim_copy){CUSHIM_BY_ADDRESS,
                                .to = place(&op->dst, &op->extent),
                                .from = place(&op->src, &op->extent),
                                .n_bytes = op->extent.width * op->extent.height * op->extent.depth,
                                .stream = stream,
                                .is_async = true};
}

static bool begin_boxes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n_ops, CUstream stream) {
    for (size_t i = 0; ops && i < n_ops; i++) {
        struct cushim_copy copy = {0};
        if (is_linear(&ops[i]))
            copy = box_of(&ops[i], stream);
        if (!cushim_copy_begin(&copy))
            return false;
    }
    return true;
}

static CUresult end_boxes(struct cushim_cuda *cuda, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n_ops,
                          CUstream stream, CUresult answer) {
    for (size_t i = 0; answer == CUDA_SUCCESS && i < n_ops; i++) {
        if (!is_linear(&ops[i])) {
            cushim_host_effect_note(cuda, stream); /* the other end may be the host's */
            continue;
        }
        struct cushim_copy copy = box_of(&ops[i], stream);
        cushim_copy_stage_left_batch(&copy);
        cushim_copy_end(cuda, &copy, answer);
    }
    return answer;
}

CUSHIM_EXPORT CUresult cuMemcpy3DBatchAsync(size_t n_ops, CUDA_MEMCPY3D_BATCH_OP *ops,
                                            size_t *fail_index, unsigned long long flags,
                                            CUstream stream) {
    CUSHIM_ENTER(cuMemcpy3DBatchAsync)
    if (!begin_boxes(ops, n_ops, stream))
        return CUDA_ERROR_INVALID_VALUE;
    return end_boxes(cuda, ops, n_ops, stream,
                     cuda->cuMemcpy3DBatchAsync(n_ops, ops, fail_index, flags, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy3DBatchAsync_ptsz(size_t n_ops, CUDA_MEMCPY3D_BATCH_OP *ops,
                                                 size_t *fail_index, unsigned long long flags,
                                                 CUstream stream) {
    CUstream order = cushim_per_thread(stream);
    CUSHIM_ENTER(cuMemcpy3DBatchAsync_ptsz)
    if (!begin_boxes(ops, n_ops, order))
        return CUDA_ERROR_INVALID_VALUE;
    return end_boxes(cuda, ops, n_ops, order,
                     cuda->cuMemcpy3DBatchAsync_ptsz(n_ops, ops, fail_index, flags, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t n_ops, CUDA_MEMCPY3D_BATCH_OP *ops,
                                               unsigned long long flags, CUstream stream) {
    CUSHIM_ENTER(cuMemcpy3DBatchAsync_v2)
    if (!begin_boxes(ops, n_ops, stream))
        return CUDA_ERROR_INVALID_VALUE;
    return end_boxes(cuda, ops, n_ops, stream,
                     cuda->cuMemcpy3DBatchAsync_v2(n_ops, ops, flags, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t n_ops, CUDA_MEMCPY3D_BATCH_OP *ops,
                                                    unsigned long long flags, CUstream stream) {
    CUstream order = cushim_per_thread(stream);
    CUSHIM_ENTER(cuMemcpy3DBatchAsync_v2_ptsz)
    if (!begin_boxes(ops, n_ops, order))
        return CUDA_ERROR_INVALID_VALUE;
    return end_boxes(cuda, ops, n_ops, order,
                     cuda->cuMemcpy3DBatchAsync_v2_ptsz(n_ops, ops, flags, stream));
}
