/*
 * Hooks of batches of copies, in the forms of CUDA 12.8 and 13.0, with their per-thread variants.
 * If one copy leaves its block, the batch is refused before any of it is queued, as the driver
 * does.
 */
#include "preload/entry/copy_stage.h"
#include "preload/hooks/hook.h"
#include "preload/state/host_effect.h"

static bool begin(const struct cushim_copy_batch *batch) {
    for (size_t i = 0; i < batch->n_copies; i++) {
        struct cushim_copy copy = batch->at(batch, i);
        if (!cushim_copy_begin(&copy))
            return false;
    }
    return true;
}

static bool is_order(CUmemcpySrcAccessOrder order) {
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
           order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
           order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* ---- runs of bytes ---- */

struct lines {
    const CUdeviceptr *to, *from;
    const size_t *sizes;
};

static struct cushim_copy line_at(const struct cushim_copy_batch *batch, size_t i) {
    const struct lines *lines = batch->list;
    size_t n = lines->sizes[i];
    return (struct cushim_copy){CUSHIM_BY_ADDRESS,           .to = {lines->to[i], n},
                                .from = {lines->from[i], n}, .n_bytes = n,
                                .stream = batch->stream,     .is_async = true};
}

static bool has_plain_attributes(const CUmemcpyAttributes *attributes, const size_t *indices,
                                 size_t n_attributes) {
    return n_attributes == 1 && attributes && indices && indices[0] == 0 &&
           is_order(attributes->srcAccessOrder) && !attributes->flags &&
           attributes->srcLocHint.type == CU_MEM_LOCATION_TYPE_INVALID &&
           attributes->dstLocHint.type == CU_MEM_LOCATION_TYPE_INVALID;
}

/* What the hook of a batch does, which `end` settles; `call` is the driver's. */
#define COPY(batch, end, call)                                                                     \
    if (!begin(batch))                                                                             \
        return CUDA_ERROR_INVALID_VALUE;                                                           \
    return end(cuda, batch, cushim_copy_stage_batch(cuda, batch) ? CUDA_SUCCESS : call)

/* The driver judges a NULL list. */
#define COPY_LINES(call)                                                                           \
    const struct lines lines = {to, from, sizes};                                                  \
    struct cushim_copy_batch batch = {                                                             \
        .at = line_at,                                                                             \
        .list = &lines,                                                                            \
        .n_copies = to && from && sizes ? n : 0,                                                   \
        .stream = ORDER,                                                                           \
        .is_plain = has_plain_attributes(attributes, indices, n_attributes)};                      \
    COPY(&batch, cushim_copy_end_batch, call)

HOOKS_PTSZ(cuMemcpyBatchAsync,
           TAKES(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                 CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                 size_t *fail_index, CUstream stream),
           COPY_LINES(REAL(to, from, sizes, n, attributes, indices, n_attributes, fail_index,
                           stream)))
HOOKS_PTSZ(cuMemcpyBatchAsync_v2,
           TAKES(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                 CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                 CUstream stream),
           COPY_LINES(REAL(to, from, sizes, n, attributes, indices, n_attributes, stream)))

/* ---- boxes ---- */

/* Only the driver knows the size of an array's elements, so it judges boxes with one. */
static bool is_linear(const CUDA_MEMCPY3D_BATCH_OP *op) {
    return op->src.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
           op->dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER;
}

static struct cushim_copy box_at(const struct cushim_copy_batch *batch, size_t i) {
    const CUDA_MEMCPY3D_BATCH_OP *op = (const CUDA_MEMCPY3D_BATCH_OP *)batch->list + i;
    struct cushim_copy copy = {.stream = batch->stream, .is_async = true, .is_unfit = true};
    if (is_linear(op))
        cushim_copy_describe_3d(&(CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                                 .srcDevice = op->src.op.ptr.ptr,
                                                 .srcPitch = op->src.op.ptr.rowLength,
                                                 .srcHeight = op->src.op.ptr.layerHeight,
                                                 .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                                 .dstDevice = op->dst.op.ptr.ptr,
                                                 .dstPitch = op->dst.op.ptr.rowLength,
                                                 .dstHeight = op->dst.op.ptr.layerHeight,
                                                 .WidthInBytes = op->extent.width,
                                                 .Height = op->extent.height,
                                                 .Depth = op->extent.depth},
                                batch->stream, true, &copy);
    return copy;
}

static bool is_plain(const CUDA_MEMCPY3D_BATCH_OP *op) {
    return is_linear(op) && is_order(op->srcAccessOrder) && !op->flags &&
           op->src.op.ptr.locHint.type == CU_MEM_LOCATION_TYPE_INVALID &&
           op->dst.op.ptr.locHint.type == CU_MEM_LOCATION_TYPE_INVALID;
}

static struct cushim_copy_batch batch_of_boxes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n_ops,
                                               unsigned long long flags, CUstream order) {
    struct cushim_copy_batch batch = {.at = box_at,
                                      .list = ops,
                                      .n_copies = ops ? n_ops : 0,
                                      .stream = order,
                                      .is_plain = !flags};
    for (size_t i = 0; i < batch.n_copies; i++)
        batch.is_plain = batch.is_plain && is_plain(&ops[i]);
    return batch;
}

/* The other end of an array may be the host's. */
static CUresult end_boxes(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                          CUresult answer) {
    const CUDA_MEMCPY3D_BATCH_OP *ops = batch->list;
    for (size_t i = 0; answer == CUDA_SUCCESS && i < batch->n_copies; i++) {
        if (!is_linear(&ops[i]))
            cushim_host_effect_note(cuda, batch->stream);
    }
    return cushim_copy_end_batch(cuda, batch, answer);
}

#define COPY_BOXES(call)                                                                           \
    struct cushim_copy_batch batch = batch_of_boxes(ops, n_ops, flags, ORDER);                     \
    COPY(&batch, end_boxes, call)

HOOKS_PTSZ(cuMemcpy3DBatchAsync,
           TAKES(size_t n_ops, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
                 unsigned long long flags, CUstream stream),
           COPY_BOXES(REAL(n_ops, ops, fail_index, flags, stream)))
HOOKS_PTSZ(cuMemcpy3DBatchAsync_v2,
           TAKES(size_t n_ops, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
                 CUstream stream),
           COPY_BOXES(REAL(n_ops, ops, flags, stream)))
