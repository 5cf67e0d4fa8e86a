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

/* ---- lines, no stream named ---- */

SIM_BOTH(cuMemsetD8_v2, _ptds, TAKES(CUdeviceptr dstDevice, unsigned char uc, size_t N),
         do_set(line(dstDevice, uc, 1, N), NULL, default_stream, true))

SIM_BOTH(cuMemsetD16_v2, _ptds, TAKES(CUdeviceptr dstDevice, unsigned short us, size_t N),
         do_set(line(dstDevice, us, 2, N), NULL, default_stream, true))

SIM_BOTH(cuMemsetD32_v2, _ptds, TAKES(CUdeviceptr dstDevice, unsigned int ui, size_t N),
         do_set(line(dstDevice, ui, 4, N), NULL, default_stream, true))

/* ---- lines, on a stream ---- */

SIM_BOTH(cuMemsetD8Async, _ptsz,
         TAKES(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
         do_set(line(dstDevice, uc, 1, N), hStream, default_stream, false))

SIM_BOTH(cuMemsetD16Async, _ptsz,
         TAKES(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
         do_set(line(dstDevice, us, 2, N), hStream, default_stream, false))

SIM_BOTH(cuMemsetD32Async, _ptsz,
         TAKES(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
         do_set(line(dstDevice, ui, 4, N), hStream, default_stream, false))

/* ---- rows, no stream named ---- */

SIM_BOTH(cuMemsetD2D8_v2, _ptds,
         TAKES(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
               size_t Height),
         do_set(rows(dstDevice, dstPitch, uc, 1, Width, Height), NULL, default_stream, true))

SIM_BOTH(cuMemsetD2D16_v2, _ptds,
         TAKES(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
               size_t Height),
         do_set(rows(dstDevice, dstPitch, us, 2, Width, Height), NULL, default_stream, true))

SIM_BOTH(cuMemsetD2D32_v2, _ptds,
         TAKES(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
               size_t Height),
         do_set(rows(dstDevice, dstPitch, ui, 4, Width, Height), NULL, default_stream, true))

/* ---- rows, on a stream ---- */

SIM_BOTH(cuMemsetD2D8Async, _ptsz,
         TAKES(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
               size_t Height, CUstream hStream),
         do_set(rows(dstDevice, dstPitch, uc, 1, Width, Height), hStream, default_stream, false))

SIM_BOTH(cuMemsetD2D16Async, _ptsz,
         TAKES(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
               size_t Height, CUstream hStream),
         do_set(rows(dstDevice, dstPitch, us, 2, Width, Height), hStream, default_stream, false))

SIM_BOTH(cuMemsetD2D32Async, _ptsz,
         TAKES(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
               CUstream hStream),
         do_set(rows(dstDevice, dstPitch, ui, 4, Width, Height), hStream, default_stream, false))
