/*
 * Hooks of copies of rows and boxes, with their per-thread variants.  The span of an end goes from
 * the first byte touched to the last; the driver, too, only checks whether that stays inside the
 * allocation.
 */
#include "cuda/table.h"
#include "preload/entry/copy_stage.h"

/* One end of a shape, as the three descriptors have it. */
struct shape_end {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x_bytes, y, z;
    size_t row_bytes, rows_per_slice;
};

static bool is_host(const struct shape_end *end) {
    return end->type == CU_MEMORYTYPE_HOST;
}

static struct cushim_end place(const struct shape_end *end, size_t width_bytes, size_t height,
                               size_t depth) {
    size_t row_bytes = end->row_bytes ? end->row_bytes : width_bytes;
    size_t slice_bytes = row_bytes * (end->rows_per_slice ? end->rows_per_slice : height);
    uint64_t base = is_host(end) ? (uint64_t)(uintptr_t)end->host : end->device;
    if (end->type == CU_MEMORYTYPE_ARRAY)
        return (struct cushim_end){0, 0};
    return (struct cushim_end){
        base + end->z * slice_bytes + end->y * row_bytes + end->x_bytes,
        cushim_copy_span(width_bytes, height, depth, row_bytes, slice_bytes)};
}

/*
 * May code other than the driver move these rows?  Only if given lengths hold what is copied, and
 * nothing wraps.
 */
static bool is_whole(const struct shape_end *end, const struct cushim_copy_rows *rows) {
    size_t n_bytes, rows_per_slice = end->rows_per_slice ? end->rows_per_slice : rows->height;
    size_t row_bytes = end->row_bytes ? end->row_bytes : rows->width_bytes;
    if (end->type == CU_MEMORYTYPE_ARRAY ||
        __builtin_mul_overflow(row_bytes, rows_per_slice, &n_bytes) ||
        __builtin_mul_overflow(n_bytes, rows->depth, &n_bytes))
        return false;
    return row_bytes >= rows->width_bytes && row_bytes - rows->width_bytes >= end->x_bytes &&
           (rows->depth == 1
                ? !end->z || end->rows_per_slice
                : rows_per_slice >= rows->height && rows_per_slice - rows->height >= end->y);
}

static size_t row_bytes(const struct shape_end *end, const struct cushim_copy_rows *rows) {
    return end->row_bytes ? end->row_bytes : rows->width_bytes;
}

static size_t slice_bytes(const struct shape_end *end, const struct cushim_copy_rows *rows) {
    return row_bytes(end, rows) * (end->rows_per_slice ? end->rows_per_slice : rows->height);
}

static void describe(const struct shape_end *to, const struct shape_end *from, size_t width_bytes,
                     size_t height, size_t depth, struct cushim_copy *copy) {
    copy->to = place(to, width_bytes, height, depth);
    copy->from = place(from, width_bytes, height, depth);
    copy->n_bytes = width_bytes * height * depth;
    copy->has_rows = height != 0;
    copy->rows =
        (struct cushim_copy_rows){.width_bytes = width_bytes, .height = height, .depth = depth};
    copy->rows.to_row_bytes = row_bytes(to, &copy->rows);
    copy->rows.to_slice_bytes = slice_bytes(to, &copy->rows);
    copy->rows.from_row_bytes = row_bytes(from, &copy->rows);
    copy->rows.from_slice_bytes = slice_bytes(from, &copy->rows);
    copy->is_unfit = !is_whole(to, &copy->rows) || !is_whole(from, &copy->rows);
    if (to->type == CU_MEMORYTYPE_UNIFIED || from->type == CU_MEMORYTYPE_UNIFIED)
        copy->direction = CUSHIM_BY_ADDRESS;
    else if (is_host(from))
        copy->direction = is_host(to) ? CUSHIM_HOST_TO_HOST : CUSHIM_HOST_TO_DEVICE;
    else
        copy->direction = is_host(to) ? CUSHIM_DEVICE_TO_HOST : CUSHIM_DEVICE_TO_DEVICE;
}

/* The describers: false if there is no shape to read, which the driver judges. */
static bool describe_2d(const CUDA_MEMCPY2D *shape, CUstream stream, bool is_async,
                        struct cushim_copy *copy) {
    if (!shape)
        return false;
    struct shape_end to = {shape->dstMemoryType, shape->dstHost,
                           shape->dstDevice,     shape->dstXInBytes,
                           shape->dstY,          0,
                           shape->dstPitch,      0};
    struct shape_end from = {shape->srcMemoryType, shape->srcHost,
                             shape->srcDevice,     shape->srcXInBytes,
                             shape->srcY,          0,
                             shape->srcPitch,      0};
    copy->stream = stream;
    copy->is_async = is_async;
    describe(&to, &from, shape->WidthInBytes, shape->Height, 1, copy);
    return true;
}

/* The two kinds of box differ in the fields between these. */
#define TO_OF(shape)                                                                               \
    {                                                                                              \
        (shape)->dstMemoryType, (shape)->dstHost, (shape)->dstDevice, (shape)->dstXInBytes,        \
            (shape)->dstY, (shape)->dstZ, (shape)->dstPitch, (shape)->dstHeight                    \
    }
#define FROM_OF(shape)                                                                             \
    {                                                                                              \
        (shape)->srcMemoryType, (shape)->srcHost, (shape)->srcDevice, (shape)->srcXInBytes,        \
            (shape)->srcY, (shape)->srcZ, (shape)->srcPitch, (shape)->srcHeight                    \
    }

bool cushim_copy_describe_3d(const CUDA_MEMCPY3D *shape, CUstream stream, bool is_async,
                             struct cushim_copy *copy) {
    if (!shape)
        return false;
    struct shape_end to = TO_OF(shape), from = FROM_OF(shape);
    copy->stream = stream;
    copy->is_async = is_async;
    describe(&to, &from, shape->WidthInBytes, shape->Height, shape->Depth, copy);
    return true;
}

static bool describe_3d_peer(const CUDA_MEMCPY3D_PEER *shape, CUstream stream, bool is_async,
                             struct cushim_copy *copy) {
    if (!shape)
        return false;
    struct shape_end to = TO_OF(shape), from = FROM_OF(shape);
    copy->stream = stream;
    copy->is_async = is_async;
    describe(&to, &from, shape->WidthInBytes, shape->Height, shape->Depth, copy);
    return true;
}

CUSHIM_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy2D_v2)
    if (!describe_2d(shape, NULL, false, &copy))
        return cuda->cuMemcpy2D_v2(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy, cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpy2D_v2(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy2D_v2_ptds)
    if (!describe_2d(shape, CU_STREAM_PER_THREAD, false, &copy))
        return cuda->cuMemcpy2D_v2_ptds(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS
                                                          : cuda->cuMemcpy2D_v2_ptds(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy2DUnaligned_v2)
    if (!describe_2d(shape, NULL, false, &copy))
        return cuda->cuMemcpy2DUnaligned_v2(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS
                                                          : cuda->cuMemcpy2DUnaligned_v2(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy2DUnaligned_v2_ptds)
    if (!describe_2d(shape, CU_STREAM_PER_THREAD, false, &copy))
        return cuda->cuMemcpy2DUnaligned_v2_ptds(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy,
        cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpy2DUnaligned_v2_ptds(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *shape, CUstream stream) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy2DAsync_v2)
    if (!describe_2d(shape, stream, true, &copy))
        return cuda->cuMemcpy2DAsync_v2(shape, stream);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy,
        cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpy2DAsync_v2(shape, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *shape, CUstream stream) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy2DAsync_v2_ptsz)
    if (!describe_2d(shape, cushim_per_thread(stream), true, &copy))
        return cuda->cuMemcpy2DAsync_v2_ptsz(shape, stream);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy)
                               ? CUDA_SUCCESS
                               : cuda->cuMemcpy2DAsync_v2_ptsz(shape, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3D_v2)
    if (!cushim_copy_describe_3d(shape, NULL, false, &copy))
        return cuda->cuMemcpy3D_v2(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy, cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpy3D_v2(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3D_v2_ptds)
    if (!cushim_copy_describe_3d(shape, CU_STREAM_PER_THREAD, false, &copy))
        return cuda->cuMemcpy3D_v2_ptds(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS
                                                          : cuda->cuMemcpy3D_v2_ptds(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *shape, CUstream stream) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3DAsync_v2)
    if (!cushim_copy_describe_3d(shape, stream, true, &copy))
        return cuda->cuMemcpy3DAsync_v2(shape, stream);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy,
        cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpy3DAsync_v2(shape, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *shape, CUstream stream) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3DAsync_v2_ptsz)
    if (!cushim_copy_describe_3d(shape, cushim_per_thread(stream), true, &copy))
        return cuda->cuMemcpy3DAsync_v2_ptsz(shape, stream);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy)
                               ? CUDA_SUCCESS
                               : cuda->cuMemcpy3DAsync_v2_ptsz(shape, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3DPeer)
    if (!describe_3d_peer(shape, NULL, false, &copy))
        return cuda->cuMemcpy3DPeer(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpy3DPeer(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *shape) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3DPeer_ptds)
    if (!describe_3d_peer(shape, CU_STREAM_PER_THREAD, false, &copy))
        return cuda->cuMemcpy3DPeer_ptds(shape);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpy3DPeer_ptds(shape));
}

CUSHIM_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *shape, CUstream stream) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3DPeerAsync)
    if (!describe_3d_peer(shape, stream, true, &copy))
        return cuda->cuMemcpy3DPeerAsync(shape, stream);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpy3DPeerAsync(shape, stream));
}

CUSHIM_EXPORT CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *shape, CUstream stream) {
    struct cushim_copy copy = {0};
    CUSHIM_ENTER(cuMemcpy3DPeerAsync_ptsz)
    if (!describe_3d_peer(shape, cushim_per_thread(stream), true, &copy))
        return cuda->cuMemcpy3DPeerAsync_ptsz(shape, stream);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpy3DPeerAsync_ptsz(shape, stream));
}
