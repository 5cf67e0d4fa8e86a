#include "companion/stream/stream_fence.h"

#include "base/try.h"
#include "cuda/translate.h"
#include "companion/capture/known_captures.h"

static _Atomic(const struct cushim_stream_fence_user *) user; /* written once */

void cushim_stream_fence_release(struct cushim_stream_fence *fence) {
    if (fence->context && !cushim_context_is_dead(fence->context))
        cushim_mem_record_release(&fence->record);
    fence->context = NULL;
}

/* ---- recording ---- */

/* The record was made, or refused. */
static enum cushim_status settle(struct cushim_scope *scope, const char *entry, CUresult answer,
                                 struct cushim_stream_fence *fence) {
    CUSHIM_TRY(cushim_scope_answer(scope, entry, answer));
    fence->context = scope->context;
    fence->moment = cushim_stream_fence_moment(scope->context);
    return CUSHIM_OK;
}

enum cushim_status cushim_stream_fence_record(struct cushim_scope *scope, CUstream stream,
                                              struct cushim_stream_fence *out) {
    *out = (struct cushim_stream_fence){0};
    bool is_legacy = !stream || stream == CU_STREAM_LEGACY;
    CUSHIM_TRY(is_legacy ? cushim_capture_refuse(scope)
                         : cushim_capture_refuse_stream(scope, stream));
    CUresult answer = cushim_mem_record_make(&out->record, &scope->context->fence, &stream);
    return settle(scope, "cuEventRecord", answer, out);
}

enum cushim_status cushim_stream_fence_record_all(struct cushim_scope *scope,
                                                  struct cushim_stream_fence *out) {
    CUresult answer = CUDA_SUCCESS;
    *out = (struct cushim_stream_fence){0};
    CUSHIM_TRY(cushim_capture_fence_enter(scope));
    /* no capture begins meanwhile: the record would invalidate it */
    if (CUSHIM_DRIVER(cuCtxRecordEvent))
        answer = cushim_mem_record_make(&out->record, &scope->context->fence, NULL);
    cushim_capture_fence_leave(scope);
    return settle(scope, "cuCtxRecordEvent", answer, out);
}

/* ---- completion ---- */

/* An event is asked in relaxed mode: a capture of another thread may be open by now. */
static CUresult query(const struct cushim_stream_fence *fence) {
    CUstreamCaptureMode mode = cushim_capture_relax();
    CUresult answer = CUSHIM_DRIVER(cuEventQuery)(fence->record.event);
    cushim_capture_back(mode);
    return answer;
}

bool cushim_stream_fence_is_complete(struct cushim_stream_fence *fence) {
    bool is_over = cushim_stream_fence_is_past(fence->context, fence->moment) ||
                   cushim_context_is_dead(fence->context);
    if (!is_over && fence->record.event) {
        CUresult answer = query(fence);
        is_over = answer == CUDA_SUCCESS;
        if (!is_over && answer != CUDA_ERROR_NOT_READY) {
            cushim_context_note(fence->context, "cuEventQuery", answer);
            is_over = cushim_status_from_cu(answer) != CUSHIM_CAPTURE;
        }
    }
    if (is_over)
        fence->moment = 0;
    return is_over;
}

enum cushim_status cushim_stream_fence_wait_all(struct cushim_scope *scope) {
    uint64_t begun = cushim_stream_fence_end_moment(scope->context);
    CUSHIM_TRY(CUSHIM_CALL(scope, cuCtxSynchronize));
    cushim_mem_fence_complete(&scope->context->fence, begun);
    return CUSHIM_OK;
}

/* Without an event: for the whole context. */
static enum cushim_status wait_for_context(const struct cushim_scope *scope,
                                           struct cushim_context_object *context) {
    struct cushim_scope inner;
    CUSHIM_TRY(cushim_call_begin_known(&inner, scope->what, context));
    enum cushim_status status = cushim_capture_refuse(&inner);
    if (status == CUSHIM_OK)
        status = cushim_stream_fence_wait_all(&inner);
    return cushim_call_end(&inner, status);
}

enum cushim_status cushim_stream_fence_wait(struct cushim_scope *scope,
                                            struct cushim_stream_fence *fence) {
    if (cushim_stream_fence_is_complete(fence))
        return CUSHIM_OK;
    if (!fence->record.event)
        return wait_for_context(scope, fence->context);
    CUstreamCaptureMode mode = cushim_capture_relax();
    CUresult answer = cushim_mem_record_wait(&fence->record);
    cushim_capture_back(mode);
    if (answer != CUDA_SUCCESS && !cushim_context_is_dead(fence->context))
        return cushim_scope_answer(scope, "cuEventSynchronize", answer);
    fence->moment = 0;
    return CUSHIM_OK;
}

enum cushim_status cushim_stream_fence_order(struct cushim_scope *scope,
                                             struct cushim_stream_fence *fence, CUstream stream) {
    if (cushim_stream_fence_is_complete(fence))
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_capture_refuse_stream(scope, stream));
    return fence->record.event
               ? CUSHIM_CALL(scope, cuStreamWaitEvent, stream, fence->record.event, 0)
               : cushim_stream_fence_wait(scope, fence);
}

/* ---- streams ---- */

void cushim_stream_fence_set_user(const struct cushim_stream_fence_user *only) {
    atomic_store_explicit(&user, only, memory_order_release);
}

void cushim_stream_fence_stream_goes(struct cushim_scope *scope, CUstream stream) {
    const struct cushim_stream_fence_user *it = atomic_load_explicit(&user, memory_order_acquire);
    if (it)
        it->stream_goes(scope, stream);
}

void cushim_stream_fence_stream_done(struct cushim_scope *scope, CUstream stream, uint64_t begun) {
    const struct cushim_stream_fence_user *it = atomic_load_explicit(&user, memory_order_acquire);
    if (it)
        it->stream_done(scope, stream, begun);
}
