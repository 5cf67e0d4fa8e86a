#include "set.h"

#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/stream/stream.h"

CUresult sim_set_judge(const struct sim_set_work *set, const struct sim_device *device) {
    size_t row_bytes, n_bytes;
    struct sim_block *block;
    uintptr_t address = (uintptr_t)set->dst;
    if (address % set->element_bytes != 0 ||
        (set->height > 1 && set->pitch % set->element_bytes != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(set->width, set->element_bytes, &row_bytes) ||
        __builtin_mul_overflow(set->height - 1, set->pitch, &n_bytes) ||
        __builtin_add_overflow(n_bytes, row_bytes, &n_bytes) ||
        (set->height > 1 && set->pitch < row_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_judge((CUdeviceptr)address, n_bytes, device, &block));
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/*
 * Put a set into a stream.  The functions that name no stream do not wait either, unless the host
 * could look at once: for pinned and managed memory.
 */
static CUresult do_set(struct sim_set_work set, CUstream handle, CUstream default_stream,
                       bool is_sync) {
    struct sim_stream *stream;
    struct sim_step *step;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    if (set.width == 0 || set.height == 0)
        return CUDA_SUCCESS;
    SIM_TRY(sim_set_judge(&set, stream->context->device));
    bool waits = is_sync && sim_block_is_host(sim_block_find_any((CUdeviceptr)(uintptr_t)set.dst));
    struct sim_work work = {.kind = SIM_WORK_SET, .as.set = set};
    SIM_TRY(sim_stream_enqueue(stream, &work, &step));
    CUresult result = waits ? sim_step_wait(step) : CUDA_SUCCESS;
    sim_step_unref(step);
    return result;
}

static struct sim_set_work line(CUdeviceptr dst, unsigned value, unsigned element_bytes, size_t n) {
    return (struct sim_set_work){.dst = (char *)(uintptr_t)dst,
                                 .value = value,
                                 .element_bytes = element_bytes,
                                 .width = n,
                                 .height = 1};
}

static struct sim_set_work rows(CUdeviceptr dst, size_t pitch, unsigned value,
                                unsigned element_bytes, size_t width, size_t height) {
    struct sim_set_work set = line(dst, value, element_bytes, width);
    set.pitch = pitch;
    set.height = height;
    return set;
}

/* The eight functions for values of one type: of a line and of rows, without and with a stream. */
#define SETS(bits, type)                                                                           \
    SIM_BOTH(cuMemsetD##bits##_v2, _ptds, TAKES(CUdeviceptr dst, type value, size_t n),            \
             do_set(line(dst, value, sizeof value, n), NULL, default_stream, true))                \
    SIM_BOTH(cuMemsetD##bits##Async, _ptsz,                                                        \
             TAKES(CUdeviceptr dst, type value, size_t n, CUstream stream),                        \
             do_set(line(dst, value, sizeof value, n), stream, default_stream, false))             \
    SIM_BOTH(                                                                                      \
        cuMemsetD2D##bits##_v2, _ptds,                                                             \
        TAKES(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height),             \
        do_set(rows(dst, pitch, value, sizeof value, width, height), NULL, default_stream, true))  \
    SIM_BOTH(cuMemsetD2D##bits##Async, _ptsz,                                                      \
             TAKES(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height,         \
                   CUstream stream),                                                               \
             do_set(rows(dst, pitch, value, sizeof value, width, height), stream, default_stream,  \
                    false))

SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned)
