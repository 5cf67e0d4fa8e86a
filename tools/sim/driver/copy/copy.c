#include "copy.h"

#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/graph/capture.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/stream/stream.h"

#include <stdlib.h>
#include <string.h>

struct sim_copy sim_copy_line(CUdeviceptr dst, enum sim_end_kind dst_kind, CUdeviceptr src,
                              enum sim_end_kind src_kind, size_t n_bytes) {
    return (struct sim_copy){.box = {.dst = (char *)(uintptr_t)dst,
                                     .src = (const char *)(uintptr_t)src,
                                     .width_bytes = n_bytes,
                                     .height = 1,
                                     .depth = 1},
                             .dst_kind = dst_kind,
                             .src_kind = src_kind};
}

CUresult sim_copy_between(struct sim_copy *copy, CUcontext dst_handle, CUcontext src_handle) {
    struct sim_context *dst, *src;
    SIM_TRY(sim_context_of_handle(dst_handle, &dst));
    SIM_TRY(sim_context_of_handle(src_handle, &src));
    copy->dst_device = dst->device;
    copy->src_device = src->device;
    return CUDA_SUCCESS;
}

/* The span of one end of a box; false: it exceeds the address space. */
static bool span(const struct sim_copy_work *box, size_t pitch, size_t slice, size_t *n_bytes) {
    size_t rows, layers;
    return !__builtin_mul_overflow(pitch, box->height - 1, &rows) &&
           !__builtin_mul_overflow(slice, box->depth - 1, &layers) &&
           !__builtin_add_overflow(rows, layers, n_bytes) &&
           !__builtin_add_overflow(*n_bytes, box->width_bytes, n_bytes);
}

static CUresult judge_end(const void *address, enum sim_end_kind kind,
                          const struct sim_copy_work *box, size_t pitch, size_t slice,
                          const struct sim_device *device, struct sim_block **block) {
    size_t n_bytes;
    if (!span(box, pitch, slice, &n_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_judge((CUdeviceptr)(uintptr_t)address, n_bytes, device, block));
    if (kind == SIM_END_DEVICE && !*block)
        return CUDA_ERROR_INVALID_VALUE;
    if (kind == SIM_END_HOST && *block && !sim_block_is_host(*block))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Frees of a context do not wait for copies of pinned memory, whichever context pinned it. */
static struct sim_context *touched(const struct sim_block *block) {
    return block && block->kind != SIM_BLOCK_HOST ? block->context : NULL;
}

struct ends {
    struct sim_block *dst, *src; /* NULL: pageable */
};

static CUresult judge(struct sim_copy *copy, const struct sim_device *device, struct ends *ends) {
    const struct sim_device *of_dst = copy->dst_device ? copy->dst_device : device;
    const struct sim_device *of_src = copy->src_device ? copy->src_device : device;
    struct sim_copy_work *box = &copy->box;
    SIM_TRY(judge_end(box->dst, copy->dst_kind, box, box->dst_pitch, box->dst_slice, of_dst,
                      &ends->dst));
    SIM_TRY(judge_end(box->src, copy->src_kind, box, box->src_pitch, box->src_slice, of_src,
                      &ends->src));
    box->touches[0] = touched(ends->dst);
    box->touches[1] = touched(ends->src);
    return CUDA_SUCCESS;
}

CUresult sim_copy_judge(struct sim_copy *copy, const struct sim_device *device) {
    struct ends ends;
    return judge(copy, device, &ends);
}

/* Keep a pageable source as it is now, with its rows joined. */
static bool stage(struct sim_copy_work *box) {
    size_t row = box->width_bytes, slice = row * box->height;
    char *staged = malloc(slice * box->depth);
    if (!staged)
        return false;
    for (size_t z = 0; z < box->depth; z++) {
        for (size_t y = 0; y < box->height; y++)
            memcpy(staged + z * slice + y * row, box->src + z * box->src_slice + y * box->src_pitch,
                   row);
    }
    box->src = box->staged = staged;
    box->src_pitch = row;
    box->src_slice = slice;
    return true;
}

static bool is_of_device(const struct sim_block *block) {
    return block && !sim_block_is_host(block);
}

/* Does the call return only when the copy is done? */
static bool does_wait(const struct ends *ends, bool is_sync) {
    if (!ends->dst)
        return true; /* pageable: the host has no other way to know when it may be read */
    return is_sync && !(is_of_device(ends->dst) && is_of_device(ends->src));
}

static CUresult enqueue(struct sim_copy *copy, const struct ends *ends, struct sim_stream *stream,
                        bool is_sync) {
    bool is_captured = stream->capture != NULL;
    if (!ends->src && !is_captured && !is_sync && !stage(&copy->box))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_work work = {.kind = SIM_WORK_COPY, .as.copy = copy->box};
    struct sim_step *step;
    struct sim_context *context = stream->context;
    SIM_TRY(sim_stream_enqueue(stream, &work, &step));
    if (!step)
        return CUDA_SUCCESS;
    bool waits = does_wait(ends, is_sync) || (is_sync && !ends->src);
    CUresult result = waits ? sim_step_wait(step) : CUDA_SUCCESS;
    sim_step_unref(step);
    SIM_TRY(result);
    return waits ? sim_context_fault(context) : CUDA_SUCCESS;
}

CUresult sim_copy_do(const struct sim_copy *asked, CUstream handle, CUstream default_stream,
                     bool is_sync) {
    struct sim_copy copy = *asked;
    struct sim_stream *stream;
    struct ends ends;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    if (copy.box.width_bytes == 0 || copy.box.height == 0 || copy.box.depth == 0)
        return CUDA_SUCCESS;
    SIM_TRY(judge(&copy, stream->context->device, &ends));
    if (is_sync)
        SIM_TRY(sim_capture_refuse_wait(stream));
    return enqueue(&copy, &ends, stream, is_sync);
}
