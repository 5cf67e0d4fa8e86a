/* Streams as the program uses them. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/graph/capture.h"
#include "tools/sim/driver/context/context.h"
#include "event.h"
#include "tools/sim/driver/core/handle.h"
#include "event_ipc.h"
#include "stream.h"
#include "stream_api.h"

/* ---- making and ending ---- */

CUresult sim_stream_make(CUstream *out, struct sim_context *context, unsigned flags, int priority) {
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > 0)
        priority = 0;
    if (priority < -5)
        priority = -5;
    *out = (CUstream)sim_stream_create(context, SIM_STREAM_CREATED, flags, priority);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create(CUstream *out, unsigned flags, int priority) {
    struct sim_context *context;
    SIM_TRY(sim_context_current(&context));
    return sim_stream_make(out, context, flags, priority);
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags) {
    SIM_ENTER(cuStreamCreate);
    return sim_leave(create(phStream, Flags, 0));
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
    SIM_ENTER(cuStreamCreateWithPriority);
    return sim_leave(create(phStream, flags, priority));
}

static CUresult destroy(CUstream handle) {
    if (!sim_handle_is(handle, SIM_HANDLE_STREAM) ||
        ((struct sim_stream *)handle)->kind != SIM_STREAM_CREATED)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_stream_destroy((struct sim_stream *)handle);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream) {
    SIM_ENTER(cuStreamDestroy);
    return sim_leave(destroy(hStream));
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
    SIM_ENTER(cuStreamDestroy_v2);
    return sim_leave(destroy(hStream));
}

/* ---- waiting ---- */

static CUresult synchronize(CUstream handle, CUstream default_stream) {
    struct sim_stream *stream;
    SIM_TRY(sim_stream_to_wait_for(handle, default_stream, &stream));
    return sim_stream_synchronize(stream);
}

SIM_BOTH(cuStreamSynchronize, _ptsz, TAKES(CUstream hStream), synchronize(hStream, default_stream))

static CUresult query(CUstream handle, CUstream default_stream) {
    struct sim_stream *stream;
    SIM_TRY(sim_stream_to_wait_for(handle, default_stream, &stream));
    return sim_stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_BOTH(cuStreamQuery, _ptsz, TAKES(CUstream hStream), query(hStream, default_stream))

static CUresult wait_event(CUstream handle, CUstream default_stream, CUevent event_handle,
                           unsigned flags) {
    struct sim_stream *stream;
    struct sim_event *event;
    if (flags)
        return flags == CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_NOT_SUPPORTED
                                               : CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    SIM_TRY(sim_event_of_handle(event_handle, &event));
    if (stream->capture || event->capture_id)
        return sim_capture_wait(stream, event);
    SIM_TRY(sim_capture_refuse_legacy(stream));
    struct sim_work work = {.kind = SIM_WORK_EMPTY};
    if (sim_event_waits_for_others(event, &work))
        return sim_stream_submit(stream, &work, NULL, NULL, NULL);
    if (!event->record || event->record->is_done)
        return CUDA_SUCCESS;
    return sim_stream_submit(stream, &work, event->record, NULL, NULL);
}

SIM_BOTH(cuStreamWaitEvent, _ptsz, TAKES(CUstream hStream, CUevent hEvent, unsigned int Flags),
         wait_event(hStream, default_stream, hEvent, Flags))

/* ---- functions of the host ---- */

static CUresult launch_host(CUstream handle, CUstream default_stream, CUhostFn fn, void *data) {
    struct sim_stream *stream;
    struct sim_work work = {.kind = SIM_WORK_HOST, .as.host = {fn, data}};
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    return sim_stream_enqueue(stream, &work, NULL);
}

SIM_BOTH(cuLaunchHostFunc, _ptsz, TAKES(CUstream hStream, CUhostFn fn, void *userData),
         launch_host(hStream, default_stream, fn, userData))

/* How the host waits for the function is not modelled. */
SIM_BOTH(cuLaunchHostFunc_v2, _ptsz,
         TAKES(CUstream hStream, CUhostFn fn, void *userData, unsigned syncMode),
         ((void)syncMode, launch_host(hStream, default_stream, fn, userData)))

static CUresult add_callback(CUstream handle, CUstream default_stream, CUstreamCallback fn,
                             void *data, unsigned flags) {
    struct sim_stream *stream;
    struct sim_work work = {.kind = SIM_WORK_CALLBACK, .as.callback = {fn, data}};
    if (!fn || flags)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    SIM_TRY(sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    return sim_stream_enqueue(stream, &work, NULL);
}

SIM_BOTH(cuStreamAddCallback, _ptsz,
         TAKES(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
         add_callback(hStream, default_stream, callback, userData, flags))
