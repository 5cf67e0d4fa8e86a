/* A program's queries of a stream, and attributes that make no difference here. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/graph/capture.h"
#include "tools/sim/driver/context/context.h"
#include "stream.h"

#include <string.h>

/* The stream of a query, whose answer goes to `out`. */
static CUresult find(CUstream handle, CUstream default_stream, const void *out,
                     struct sim_stream **stream) {
    SIM_TRY(sim_stream_of_handle(handle, default_stream, stream));
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The same of queries that a capturing stream refuses: of flags, number and device, but not of
 * priority and context; seen on an H100 and an H200, driver 580. */
static CUresult find_uncaptured(CUstream handle, CUstream default_stream, const void *out,
                                struct sim_stream **stream) {
    SIM_TRY(find(handle, default_stream, out, stream));
    return sim_capture_refuse(*stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static CUresult get_flags(CUstream handle, CUstream default_stream, unsigned *out) {
    struct sim_stream *stream;
    SIM_TRY(find_uncaptured(handle, default_stream, out, &stream));
    *out = stream->flags;
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamGetFlags, _ptsz, TAKES(CUstream hStream, unsigned int *flags),
         get_flags(hStream, default_stream, flags))

static CUresult get_priority(CUstream handle, CUstream default_stream, int *out) {
    struct sim_stream *stream;
    SIM_TRY(find(handle, default_stream, out, &stream));
    *out = stream->priority;
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamGetPriority, _ptsz, TAKES(CUstream hStream, int *priority),
         get_priority(hStream, default_stream, priority))

static CUresult get_id(CUstream handle, CUstream default_stream, unsigned long long *out) {
    struct sim_stream *stream;
    SIM_TRY(find_uncaptured(handle, default_stream, out, &stream));
    *out = stream->id;
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamGetId, _ptsz, TAKES(CUstream hStream, unsigned long long *streamId),
         get_id(hStream, default_stream, streamId))

static CUresult get_device(CUstream handle, CUstream default_stream, CUdevice *out) {
    struct sim_stream *stream;
    SIM_TRY(find_uncaptured(handle, default_stream, out, &stream));
    *out = stream->context->device->ordinal;
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamGetDevice, _ptsz, TAKES(CUstream hStream, CUdevice *device),
         get_device(hStream, default_stream, device))

static CUresult get_context(CUstream handle, CUstream default_stream, CUcontext *out) {
    struct sim_stream *stream;
    SIM_TRY(find(handle, default_stream, out, &stream));
    *out = (CUcontext)stream->context;
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamGetCtx, _ptsz, TAKES(CUstream hStream, CUcontext *pctx),
         get_context(hStream, default_stream, pctx))

/* A stream without a green context has none: *context is NULL then. */
static CUresult get_contexts(CUstream handle, CUstream default_stream, CUcontext *context,
                             CUgreenCtx *green) {
    SIM_TRY(get_context(handle, default_stream, context));
    const struct sim_context *found = (const struct sim_context *)*context;
    bool is_green = found->root != found;
    if (green)
        *green = is_green ? (CUgreenCtx)*context : NULL;
    if (is_green)
        *context = NULL;
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamGetCtx_v2, _ptsz, TAKES(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx),
         get_contexts(hStream, default_stream, pCtx, pGreenCtx))

/* ---- attributes: accepted, and 0 when asked ---- */

static CUresult check(CUstream handle, CUstream default_stream, const void *value) {
    struct sim_stream *stream;
    return find(handle, default_stream, value, &stream);
}

static CUresult clear(CUstream handle, CUstream default_stream, CUstreamAttrValue *value) {
    SIM_TRY(check(handle, default_stream, value));
    memset(value, 0, sizeof *value);
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamGetAttribute, _ptsz,
         TAKES(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out),
         ((void)attr, clear(hStream, default_stream, value_out)))

SIM_BOTH(cuStreamSetAttribute, _ptsz,
         TAKES(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value),
         ((void)attr, check(hStream, default_stream, value)))

static CUresult check_two(CUstream dst, CUstream src, CUstream default_stream) {
    SIM_TRY(check(dst, default_stream, ""));
    return check(src, default_stream, "");
}

SIM_BOTH(cuStreamCopyAttributes, _ptsz, TAKES(CUstream dst, CUstream src),
         check_two(dst, src, default_stream))
