/*
 * Hooks of copies of rows and boxes, with their per-thread variants.  The span of an end goes from
 * the first byte touched to the last; the driver, too, only checks whether that stays inside the
 * allocation.
 */
#include "preload/entry/copy_stage.h"
#include "preload/hooks/hook.h"

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

static size_t row_bytes(const struct shape_end *end, const struct cushim_copy_rows *rows) {
    return end->row_bytes ? end->row_bytes : rows->width_bytes;
}

static size_t slice_bytes(const struct shape_end *end, const struct cushim_copy_rows *rows) {
    return row_bytes(end, rows) * (end->rows_per_slice ? end->rows_per_slice : rows->height);
}

static struct cushim_end place(const struct shape_end *end, const struct cushim_copy_rows *rows) {
    size_t row = row_bytes(end, rows), slice = slice_bytes(end, rows);
    uint64_t base = is_host(end) ? (uint64_t)(uintptr_t)end->host : end->device;
    if (end->type == CU_MEMORYTYPE_ARRAY)
        return (struct cushim_end){0, 0};
    return (struct cushim_end){
        base + end->z * slice + end->y * row + end->x_bytes,
        cushim_copy_span(rows->width_bytes, rows->height, rows->depth, row, slice)};
}

/*
 * May code other than the driver move these rows?  Only if given lengths hold what is copied, and
 * nothing wraps.
 */
static bool is_whole(const struct shape_end *end, const struct cushim_copy_rows *rows) {
    size_t n_bytes, rows_per_slice = end->rows_per_slice ? end->rows_per_slice : rows->height;
    size_t row = row_bytes(end, rows);
    if (end->type == CU_MEMORYTYPE_ARRAY || __builtin_mul_overflow(row, rows_per_slice, &n_bytes) ||
        __builtin_mul_overflow(n_bytes, rows->depth, &n_bytes))
        return false;
    return row >= rows->width_bytes && row - rows->width_bytes >= end->x_bytes &&
           (rows->depth == 1
                ? !end->z || end->rows_per_slice
                : rows_per_slice >= rows->height && rows_per_slice - rows->height >= end->y);
}

/* The copy's rows have their number and their width; write the rest. */
static void describe(const struct shape_end *to, const struct shape_end *from, CUstream stream,
                     bool is_async, struct cushim_copy *copy) {
    struct cushim_copy_rows *rows = &copy->rows;
    copy->stream = stream;
    copy->is_async = is_async;
    copy->to = place(to, rows);
    copy->from = place(from, rows);
    copy->n_bytes = rows->width_bytes * rows->height * rows->depth;
    copy->has_rows = rows->height != 0;
    rows->to_row_bytes = row_bytes(to, rows);
    rows->to_slice_bytes = slice_bytes(to, rows);
    rows->from_row_bytes = row_bytes(from, rows);
    rows->from_slice_bytes = slice_bytes(from, rows);
    copy->is_unfit = !is_whole(to, rows) || !is_whole(from, rows);
    if (to->type == CU_MEMORYTYPE_UNIFIED || from->type == CU_MEMORYTYPE_UNIFIED)
        copy->direction = CUSHIM_BY_ADDRESS;
    else if (is_host(from))
        copy->direction = is_host(to) ? CUSHIM_HOST_TO_HOST : CUSHIM_HOST_TO_DEVICE;
    else
        copy->direction = is_host(to) ? CUSHIM_DEVICE_TO_HOST : CUSHIM_DEVICE_TO_DEVICE;
}

/* One end of a shape, from the fields that all three descriptors have. */
#define END(end, z, rows_per_slice)                                                                \
    {                                                                                              \
        shape->end##MemoryType, shape->end##Host, shape->end##Device, shape->end##XInBytes,        \
            shape->end##Y, z, shape->end##Pitch, rows_per_slice                                    \
    }

/* A describer: false if there is no shape to read, which the driver judges. */
#define DESCRIBE(to_z, to_height, from_z, from_height, n_slices)                                   \
    if (!shape)                                                                                    \
        return false;                                                                              \
    const struct shape_end to = END(dst, to_z, to_height), from = END(src, from_z, from_height);   \
    copy->rows = (struct cushim_copy_rows){                                                        \
        .width_bytes = shape->WidthInBytes, .height = shape->Height, .depth = n_slices};           \
    describe(&to, &from, stream, is_async, copy);                                                  \
    return true

static bool describe_2d(const CUDA_MEMCPY2D *shape, CUstream stream, bool is_async,
                        struct cushim_copy *copy) {
    DESCRIBE(0, 0, 0, 0, 1);
}

bool cushim_copy_describe_3d(const CUDA_MEMCPY3D *shape, CUstream stream, bool is_async,
                             struct cushim_copy *copy) {
    DESCRIBE(shape->dstZ, shape->dstHeight, shape->srcZ, shape->srcHeight, shape->Depth);
}

static bool describe_3d_peer(const CUDA_MEMCPY3D_PEER *shape, CUstream stream, bool is_async,
                             struct cushim_copy *copy) {
    DESCRIBE(shape->dstZ, shape->dstHeight, shape->srcZ, shape->srcHeight, shape->Depth);
}

/* What a hook does; `call` is the driver's.  Only the driver can copy between contexts. */
#define COPY(describe, is_async, is_staged, call)                                                  \
    struct cushim_copy copy = {0};                                                                 \
    if (!describe(shape, ORDER, is_async, &copy))                                                  \
        return call;                                                                               \
    CUSHIM_COPY(&copy, is_staged &&cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : call)

HOOKS_PTDS(cuMemcpy2D_v2, TAKES(const CUDA_MEMCPY2D *shape),
           COPY(describe_2d, false, true, REAL(shape)))
HOOKS_PTDS(cuMemcpy2DUnaligned_v2, TAKES(const CUDA_MEMCPY2D *shape),
           COPY(describe_2d, false, true, REAL(shape)))
HOOKS_PTSZ(cuMemcpy2DAsync_v2, TAKES(const CUDA_MEMCPY2D *shape, CUstream stream),
           COPY(describe_2d, true, true, REAL(shape, stream)))
HOOKS_PTDS(cuMemcpy3D_v2, TAKES(const CUDA_MEMCPY3D *shape),
           COPY(cushim_copy_describe_3d, false, true, REAL(shape)))
HOOKS_PTSZ(cuMemcpy3DAsync_v2, TAKES(const CUDA_MEMCPY3D *shape, CUstream stream),
           COPY(cushim_copy_describe_3d, true, true, REAL(shape, stream)))
HOOKS_PTDS(cuMemcpy3DPeer, TAKES(const CUDA_MEMCPY3D_PEER *shape),
           COPY(describe_3d_peer, false, false, REAL(shape)))
HOOKS_PTSZ(cuMemcpy3DPeerAsync, TAKES(const CUDA_MEMCPY3D_PEER *shape, CUstream stream),
           COPY(describe_3d_peer, true, false, REAL(shape, stream)))
