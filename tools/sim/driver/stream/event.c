#include "event.h"

#include "base/cancel.h"

#include "event_ipc.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/graph/capture.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/core/print.h"
#include "stream.h"

#include <stdlib.h>
#include <time.h>

CUresult sim_event_of_handle(CUevent handle, struct sim_event **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct sim_event *)handle;
    return CUDA_SUCCESS;
}

void sim_event_clear(struct sim_event *event) {
    sim_step_unref(event->record);
    event->record = NULL;
    event->capture_id = 0;
    sim_nodes_finish(&event->tips);
}

static CUresult create(CUevent *out, unsigned flags) {
    struct sim_context *context;
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    SIM_TRY(sim_context_current(&context));
    if (!out || flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = calloc(1, sizeof *event);
    if (!event || !sim_handle_add(event, SIM_HANDLE_EVENT)) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->flags = flags;
    if (flags & CU_EVENT_INTERPROCESS && sim_event_share(event) != CUDA_SUCCESS) {
        sim_handle_remove(event);
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUevent)event;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags) {
    SIM_ENTER(cuEventCreate);
    return sim_leave(create(phEvent, Flags));
}

static CUresult destroy(CUevent handle) {
    struct sim_event *event;
    SIM_TRY(sim_event_of_handle(handle, &event));
    sim_handle_remove(event);
    sim_event_clear(event);
    sim_event_unshare(event);
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent) {
    SIM_ENTER(cuEventDestroy);
    return sim_leave(destroy(hEvent));
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
    SIM_ENTER(cuEventDestroy_v2);
    return sim_leave(destroy(hEvent));
}

/* ---- records ---- */

static struct sim_work record_work(struct sim_event *event) {
    return event->slot ? sim_event_record_work(event) : (struct sim_work){.kind = SIM_WORK_EMPTY};
}

static CUresult record(CUevent handle, CUstream stream_handle, CUstream default_stream,
                       unsigned flags) {
    struct sim_event *event;
    struct sim_stream *stream;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_event_of_handle(handle, &event));
    SIM_TRY(sim_stream_of_handle(stream_handle, default_stream, &stream));
    if (stream->capture)
        return flags ? CUDA_ERROR_NOT_SUPPORTED : sim_capture_record(stream, event);
    struct sim_step *step;
    struct sim_work work = record_work(event);
    SIM_TRY(sim_stream_enqueue(stream, &work, &step));
    sim_event_clear(event);
    event->record = step;
    return CUDA_SUCCESS;
}

SIM_BOTH(cuEventRecord, _ptsz, TAKES(CUevent hEvent, CUstream hStream),
         record(hEvent, hStream, default_stream, 0))

SIM_BOTH(cuEventRecordWithFlags, _ptsz, TAKES(CUevent hEvent, CUstream hStream, unsigned int flags),
         record(hEvent, hStream, default_stream, flags))

/* All work of a context so far, whatever stream it went to. */
static CUresult record_context(struct sim_context *context, CUevent handle) {
    struct sim_event *event;
    SIM_TRY(sim_event_of_handle(handle, &event));
    SIM_TRY(sim_context_fault(context));
    SIM_TRY(sim_capture_refuse_context(context));
    struct sim_marks marks = {NULL, 0, 0};
    struct sim_step *step;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_work work = record_work(event);
    if (!sim_context_marks(context, &marks))
        sim_work_finish(&work);
    else
        result = sim_stream_submit(context->root->fence_stream, &work, NULL, &marks, &step);
    sim_marks_finish(&marks);
    if (result == CUDA_SUCCESS) {
        sim_event_clear(event);
        event->record = step;
    }
    return result;
}

/* All later work of a context, also of streams that are made later. */
static CUresult wait_context(struct sim_context *context, CUevent handle) {
    struct sim_event *event;
    SIM_TRY(sim_event_of_handle(handle, &event));
    SIM_TRY(sim_context_fault(context));
    SIM_TRY(sim_capture_refuse_context(context));
    if (event->capture_id)
        return CUDA_ERROR_CAPTURED_EVENT;
    struct sim_work work = {.kind = SIM_WORK_EMPTY};
    bool is_others = sim_event_waits_for_others(event, &work);
    if (!is_others && (!event->record || event->record->is_done))
        return CUDA_SUCCESS;
    struct sim_step *step;
    struct sim_context *root = context->root;
    SIM_TRY(sim_stream_submit(root->fence_stream, &work, is_others ? NULL : event->record, NULL,
                              &step));
    sim_step_unref(root->fence);
    root->fence = step;
    return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    SIM_ENTER(cuCtxRecordEvent);
    struct sim_context *context;
    CUresult result = sim_context_of_handle(hCtx, &context);
    return sim_leave(result ? result : record_context(context, hEvent));
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    SIM_ENTER(cuCtxWaitEvent);
    struct sim_context *context;
    CUresult result = sim_context_of_handle(hCtx, &context);
    return sim_leave(result ? result : wait_context(context, hEvent));
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
    SIM_ENTER(cuGreenCtxRecordEvent);
    struct sim_context *context;
    CUresult result = sim_context_of_handle((CUcontext)hCtx, &context);
    return sim_leave(result ? result : record_context(context, hEvent));
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
    SIM_ENTER(cuGreenCtxWaitEvent);
    struct sim_context *context;
    CUresult result = sim_context_of_handle((CUcontext)hCtx, &context);
    return sim_leave(result ? result : wait_context(context, hEvent));
}

/* ---- the host asks ---- */

/* The event, if the host may query it. */
static CUresult find(CUevent handle, struct sim_event **event) {
    SIM_TRY(sim_event_of_handle(handle, event));
    return (*event)->capture_id ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

static CUresult query(CUevent handle) {
    struct sim_event *event;
    SIM_TRY(find(handle, &event));
    bool is_done =
        (!event->record || event->record->is_done) && !sim_event_waits_for_others(event, NULL);
    return is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventQuery(CUevent hEvent) {
    SIM_ENTER(cuEventQuery);
    return sim_leave(query(hEvent));
}

/* Nothing tells this process when another one's work is done, so poll for it; takes the work. */
static CUresult wait_for_others(struct sim_work *work) {
    bool is_done;
    int cancel = cushim_cancel_hold();
    while (!(is_done = sim_event_turn(work)) && !sim_is_over()) {
        struct timespec pause = {0, 100000};
        pthread_mutex_unlock(&sim_lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&sim_lock);
    }
    cushim_cancel_let(cancel);
    sim_work_finish(work);
    return is_done ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
}

static CUresult synchronize(CUevent handle) {
    struct sim_event *event;
    SIM_TRY(find(handle, &event));
    struct sim_work work;
    bool is_others = sim_event_waits_for_others(event, &work);
    CUresult result = sim_step_wait(event->record);
    CUresult of_others = is_others ? wait_for_others(&work) : CUDA_SUCCESS;
    sim_print_flush();
    SIM_TRY(result);
    SIM_TRY(of_others);
    return sim_context_fault(sim_context_top());
}

CUresult cuEventSynchronize(CUevent hEvent) {
    SIM_ENTER(cuEventSynchronize);
    return sim_leave(synchronize(hEvent));
}

static CUresult find_timed(CUevent handle, struct sim_event **event) {
    SIM_TRY(find(handle, event));
    if (!(*event)->record || (*event)->flags & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    return (*event)->record->is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult elapsed(float *out_ms, CUevent start, CUevent end) {
    struct sim_event *first, *second;
    if (!out_ms)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(find_timed(start, &first));
    SIM_TRY(find_timed(end, &second));
    *out_ms = (float)((double)(int64_t)(second->record->done_ns - first->record->done_ns) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    SIM_ENTER(cuEventElapsedTime);
    return sim_leave(elapsed(pMilliseconds, hStart, hEnd));
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    SIM_ENTER(cuEventElapsedTime_v2);
    return sim_leave(elapsed(pMilliseconds, hStart, hEnd));
}
