/*
 * Copies of rows and boxes.  The checks treat rows as a box of one slice.  The driver's entry is
 * the narrowest one: rows, a box, or a box between contexts.
 */

#include <string.h>

#include "companion/memory/memory.h"
#include "companion/stream/stream.h"

struct box {
    struct cushim_copy3d copy; /* pitch and height of both ends filled in */
    bool is_rows;
};

/* ---- what it spans ---- */

static bool add_over(size_t a, size_t b, size_t *sum) {
    return __builtin_add_overflow(a, b, sum) || *sum > (size_t)INT64_MAX;
}

static bool multiply_over(size_t a, size_t b, size_t *product) {
    return __builtin_mul_overflow(a, b, product) || *product > (size_t)INT64_MAX;
}

/* Fill in pitch and height, and compute how many bytes from its address the end spans. */
static enum cushim_status judge_end(const char *what, const char *name, const struct box *box,
                                    struct cushim_copy_end *end, size_t *bytes) {
    size_t wide, high, deep, last_row;
    if (end->place < CUSHIM_PLACE_ANY || end->place > CUSHIM_PLACE_DEVICE || end->reserved ||
        (box->is_rows && (end->z || end->height || end->ctx)))
        return cushim_fail(what, CUSHIM_INVALID, "%s: place=%d z=%zu height=%zu ctx=%p", name,
                           end->place, end->z, end->height, (void *)end->ctx);
    if (add_over(end->x_bytes, box->copy.width_bytes, &wide) ||
        add_over(end->y, box->copy.rows, &high) || add_over(end->z, box->copy.slices, &deep))
        return cushim_fail(what, CUSHIM_INVALID, "%s: x_bytes=%zu y=%zu z=%zu", name, end->x_bytes,
                           end->y, end->z);
    if (!end->pitch_bytes)
        end->pitch_bytes = wide;
    if (!end->height)
        end->height = high;
    if (wide > end->pitch_bytes || high > end->height)
        return cushim_fail(what, CUSHIM_INVALID, "%s: width=%zu of pitch=%zu, rows=%zu of %zu",
                           name, wide, end->pitch_bytes, high, end->height);
    if (multiply_over(deep - 1, end->height, &last_row) ||
        add_over(last_row, high - 1, &last_row) ||
        multiply_over(last_row, end->pitch_bytes, bytes) || add_over(*bytes, wide, bytes))
        return cushim_fail(what, CUSHIM_INVALID, "%s: pitch_bytes=%zu height=%zu", name,
                           end->pitch_bytes, end->height);
    return CUSHIM_OK;
}

/* A place to us and to the driver. */
static const struct {
    enum cushim_memory_place ours;
    CUmemorytype drivers;
} places[] = {
    [CUSHIM_PLACE_ANY] = {CUSHIM_MEMORY_ANYWHERE, CU_MEMORYTYPE_UNIFIED},
    [CUSHIM_PLACE_HOST] = {CUSHIM_MEMORY_AT_HOST, CU_MEMORYTYPE_HOST},
    [CUSHIM_PLACE_DEVICE] = {CUSHIM_MEMORY_AT_DEVICE, CU_MEMORYTYPE_DEVICE},
};

static enum cushim_status judge(const char *what, struct box *box,
                                struct cushim_memory_call *call) {
    struct cushim_copy_end *dst = &box->copy.dst, *src = &box->copy.src;
    size_t dst_bytes = 0, src_bytes = 0;
    CUSHIM_TRY(judge_end(what, "dst", box, dst, &dst_bytes));
    CUSHIM_TRY(judge_end(what, "src", box, src, &src_bytes));
    *call = (struct cushim_memory_call){
        .is_peer = !box->is_rows,
        .ctx = dst->ctx ? dst->ctx : src->ctx,
        .n_ranges = 2,
        .ranges = {cushim_memory_span("dst", dst->address, dst_bytes, places[dst->place].ours),
                   cushim_memory_span("src", src->address, src_bytes, places[src->place].ours)}};
    return CUSHIM_OK;
}

/* ---- the driver's descriptions ---- */

/* An end of `copy`, src or dst: of rows, and of a box. */
#define END_OF_ROWS(end)                                                                           \
    .end##XInBytes = copy->end.x_bytes, .end##Y = copy->end.y,                                     \
    .end##MemoryType = places[copy->end.place].drivers,                                            \
    .end##Host = (void *)(uintptr_t)copy->end.address, .end##Device = copy->end.address,           \
    .end##Pitch = copy->end.pitch_bytes
#define END_OF_BOX(end) END_OF_ROWS(end), .end##Z = copy->end.z, .end##Height = copy->end.height

static enum cushim_status queue_rows(struct cushim_memory_call *call, const struct box *box) {
    const struct cushim_copy3d *copy = &box->copy;
    const CUDA_MEMCPY2D rows = {END_OF_ROWS(src), END_OF_ROWS(dst),
                                .WidthInBytes = copy->width_bytes, .Height = copy->rows};
    return CUSHIM_CALL(&call->scope, cuMemcpy2DAsync_v2, &rows, call->stream);
}

static CUDA_MEMCPY3D_PEER describe(const struct cushim_copy3d *copy) {
    return (CUDA_MEMCPY3D_PEER){END_OF_BOX(src), END_OF_BOX(dst), .WidthInBytes = copy->width_bytes,
                                .Height = copy->rows, .Depth = copy->slices};
}

static enum cushim_status queue_box(struct cushim_memory_call *call, const struct box *box) {
    const CUDA_MEMCPY3D_PEER peer = describe(&box->copy);
    CUDA_MEMCPY3D one;
    /* the same fields, except two that are reserved in the one and contexts in the other */
    _Static_assert(sizeof one == sizeof peer && offsetof(CUDA_MEMCPY3D, reserved1) ==
                                                    offsetof(CUDA_MEMCPY3D_PEER, dstContext),
                   "one description is a copy of the other");
    memcpy(&one, &peer, sizeof one);
    return CUSHIM_CALL(&call->scope, cuMemcpy3DAsync_v2, &one, call->stream);
}

/* In one context, or from one to another. */
static enum cushim_status queue_between(struct cushim_memory_call *call, const struct box *box) {
    CUSHIM_TRY(cushim_memory_ends(call, box->copy.dst.ctx, box->copy.src.ctx));
    CUSHIM_TRY(cushim_memory_judge_stream(call));
    if (cushim_context_is_same(call->ends[0], call->ends[1]))
        return queue_box(call, box);
    CUDA_MEMCPY3D_PEER peer = describe(&box->copy);
    peer.dstContext = call->ends[0]->handle;
    peer.srcContext = call->ends[1]->handle;
    return CUSHIM_CALL(&call->scope, cuMemcpy3DPeerAsync, &peer, call->stream);
}

/* ---- the calls ---- */

static enum cushim_status copy_box(const char *what, struct box *box, struct cushim_stream *s) {
    CUSHIM_MEMORY_CALL call = {0};
    const struct cushim_copy3d *copy = &box->copy;
    CUSHIM_FAIL_IF(what, copy->flags & ~CUSHIM_COPY_FLAG_BLOCKING || copy->reserved, CUSHIM_INVALID,
                   "flags=%u reserved=%u", copy->flags, copy->reserved);
    CUSHIM_TRY(cushim_memory_check_bytes(what, "width_bytes", copy->width_bytes));
    CUSHIM_TRY(cushim_memory_check_bytes(what, "rows", copy->rows));
    CUSHIM_TRY(cushim_memory_check_bytes(what, "slices", copy->slices));
    if (!copy->width_bytes || !copy->rows || !copy->slices)
        return CUSHIM_OK;
    bool is_blocking = copy->flags & CUSHIM_COPY_FLAG_BLOCKING;
    CUSHIM_TRY(judge(what, box, &call));
    CUSHIM_TRY(cushim_memory_enter(&call, what, s));
    CUSHIM_TRY(is_blocking ? cushim_stream_refuse_captured(&call.scope, call.stream)
                           : cushim_memory_may_queue(&call));
    CUSHIM_TRY(box->is_rows ? queue_rows(&call, box) : queue_between(&call, box));
    return is_blocking ? cushim_memory_wait(&call) : CUSHIM_OK;
}

enum cushim_status cushim_memory_copy_2d(const struct cushim_copy2d *copy,
                                         struct cushim_stream *s) {
    struct cushim_copy2d ours = {.struct_size = sizeof ours};
    CUSHIM_NEED(copy);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_struct_size_take(__func__, &ours, sizeof ours, copy));
    struct box box = {.is_rows = true,
                      .copy = {.flags = ours.flags,
                               .reserved = ours.reserved,
                               .width_bytes = ours.width_bytes,
                               .rows = ours.rows,
                               .slices = 1,
                               .dst = ours.dst,
                               .src = ours.src}};
    return copy_box(__func__, &box, s);
}

enum cushim_status cushim_memory_copy_3d(const struct cushim_copy3d *copy,
                                         struct cushim_stream *s) {
    struct box box = {.copy = {.struct_size = sizeof box.copy}};
    CUSHIM_NEED(copy);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_struct_size_take(__func__, &box.copy, sizeof box.copy, copy));
    return copy_box(__func__, &box, s);
}
