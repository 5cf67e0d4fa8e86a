#include "companion/stream/stream.h"

#include <stdlib.h>

#include "cushim/context.h"
#include "companion/capture/known_captures.h"
#include "companion/stream/event.h"
#include "companion/capture/graph_resources.h"
#include "companion/stream/stream_host.h"

/* ---- from an argument to a handle ---- */

static CUstream handle_of_special(const struct cushim_stream *s) {
    return s == CUSHIM_STREAM_PER_THREAD ? CU_STREAM_PER_THREAD : NULL;
}

enum cushim_status cushim_stream_use_any(struct cushim_scope *scope, struct cushim_stream *s,
                                         struct cushim_stream_use *use) {
    if (cushim_stream_is_special(s)) {
        *use = (struct cushim_stream_use){.handle = handle_of_special(s)};
        return CUSHIM_OK;
    }
    use->object = cushim_pin(&use->pin, CUSHIM_KIND_STREAM, s);
    CUSHIM_FAIL_IF(scope->what, unlikely(!use->object), CUSHIM_BADHANDLE, "stream=%p", (void *)s);
    use->handle = use->object->handle;
    if (likely(!cushim_context_is_dead(use->object->object.context)))
        return CUSHIM_OK;
    cushim_stream_let_go(use);
    return cushim_scope_fail(scope, CUSHIM_DEADCONTEXT, "stream=%p", (void *)s);
}

enum cushim_status cushim_stream_use_in(struct cushim_scope *scope, struct cushim_stream *s,
                                        struct cushim_stream_use *out) {
    CUSHIM_TRY(cushim_stream_use_any(scope, s, out));
    if (likely(!out->object || out->object->object.context == scope->context))
        return CUSHIM_OK;
    int device = out->object->object.context->device;
    cushim_stream_let_go(out);
    return cushim_scope_fail(scope, CUSHIM_BADDEVICE,
                             "stream=%p device=%d: of another context than device=%d", (void *)s,
                             device, scope->context->device);
}

enum cushim_status cushim_stream_enter(struct cushim_scope *scope, const char *what,
                                       struct cushim_stream *s, struct cushim_stream_use *use) {
    *use = (struct cushim_stream_use){.handle = handle_of_special(s)};
    if (cushim_stream_is_special(s))
        return cushim_call_begin_context(scope, what, NULL);
    CUSHIM_TRY(cushim_call_begin_object(scope, what, CUSHIM_KIND_STREAM, s, &use->object));
    use->handle = use->object->handle;
    return CUSHIM_OK;
}

enum cushim_status cushim_stream_refuse_captured(struct cushim_scope *scope, CUstream stream) {
    if (!stream || stream == CU_STREAM_LEGACY)
        return cushim_capture_refuse(scope);
    return cushim_capture_refuse_stream(scope, stream);
}

unsigned long long cushim_stream_capture_id(CUstream stream) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    if (!stream || stream == CU_STREAM_LEGACY || !CUSHIM_DRIVER(cuStreamGetCaptureInfo_v2))
        return 0;
    CUresult result =
        CUSHIM_DRIVER(cuStreamGetCaptureInfo_v2)(stream, &state, &id, NULL, NULL, NULL);
    return result == CUDA_SUCCESS && state != CU_STREAM_CAPTURE_STATUS_NONE ? id : 0;
}

enum cushim_status cushim_stream_wait(struct cushim_scope *scope, CUstream stream) {
    uint64_t begun = cushim_mem_fence_close(&scope->context->fence);
    CUSHIM_TRY(CUSHIM_RELAXED(CUSHIM_CALL(scope, cuStreamSynchronize, stream)));
    cushim_stream_host_done(scope, stream, begun);
    return CUSHIM_OK;
}

/* ---- making and ending ---- */

/* No errors: cushim_stream_destroy has reported them. */
static void finish(struct cushim_object *object) {
    struct cushim_stream_object *stream = (struct cushim_stream_object *)object;
    CUSHIM_SCOPE scope = {0};
    if (!stream->is_wrapped && cushim_call_begin_quietly(&scope, object->context))
        CUSHIM_DRIVER(cuStreamDestroy_v2)(stream->handle);
    free(stream);
}

/* The handle passes to the object, which is gone after a failure. */
static enum cushim_status open(struct cushim_scope *scope, CUstream handle, bool is_wrapped,
                               struct cushim_stream **s) {
    struct cushim_stream_object *stream = cushim_object_alloc(sizeof *stream);
    if (!stream) {
        if (!is_wrapped)
            CUSHIM_DRIVER(cuStreamDestroy_v2)(handle);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "bytes=%zu", sizeof *stream);
    }
    stream->handle = handle;
    stream->is_wrapped = is_wrapped;
    cushim_object_init(&stream->object, CUSHIM_KIND_STREAM, scope->context, finish);
    return cushim_object_open(&stream->object, s);
}

enum cushim_status cushim_stream_create(struct cushim_context *ctx, unsigned flags, int priority,
                                        struct cushim_stream **s) {
    CUstream handle;
    CUSHIM_OUT(s);
    if (flags & ~(unsigned)CUSHIM_STREAM_FLAG_NON_BLOCKING)
        return CUSHIM_FAIL(CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_NEED_ENTRY(__func__, cuStreamDestroy_v2);
    /* The driver brings the priority into its range. */
    CUSHIM_TRY(priority ? CUSHIM_CALL(&scope, cuStreamCreateWithPriority, &handle, flags, priority)
                        : CUSHIM_CALL(&scope, cuStreamCreate, &handle, flags));
    return open(&scope, handle, false, s);
}

static enum cushim_status enter_wrap(struct cushim_scope *scope, const char *what,
                                     struct cushim_context *ctx, CUstream handle) {
    struct cushim_context_object *found;
    CUcontext context = NULL; /* from the driver, if it can say */
    CUSHIM_TRY(cushim_driver_use(what));
    if (!cushim_stream_follows_current(handle) && CUSHIM_DRIVER(cuStreamGetCtx))
        CUSHIM_TRY(
            CUSHIM_ASK(what, cuStreamGetCtx, (handle, &context), "stream=%p", (void *)handle));
    if (ctx || !context) {
        CUSHIM_TRY(cushim_call_begin_context(scope, what, ctx));
        if (!context || scope->context->handle == context)
            return CUSHIM_OK;
        return cushim_scope_fail(scope, CUSHIM_BADDEVICE, "stream=%p: of another context than ctx",
                                 (void *)handle);
    }
    CUSHIM_TRY(cushim_context_of_handle(what, context, &found));
    return cushim_call_begin_taken(scope, what, found);
}

enum cushim_status cushim_stream_wrap(struct cushim_context *ctx, struct CUstream_st *cu,
                                      struct cushim_stream **s) {
    CUSHIM_SCOPE scope = {0};
    CUSHIM_OUT(s);
    CUSHIM_TRY(enter_wrap(&scope, __func__, ctx, cu));
    return open(&scope, cu, true, s);
}

/* An owned stream in a capture must stay.  Another thread may begin a capture a moment later. */
static enum cushim_status refuse_destroy(const char *what, struct cushim_stream *s) {
    CUSHIM_PIN pin = {0};
    CUSHIM_SCOPE scope = {0};
    const struct cushim_stream_object *stream = cushim_handle_pin(&pin, CUSHIM_KIND_STREAM, s);
    if (!stream || stream->is_wrapped || !cushim_call_begin_quietly(&scope, stream->object.context))
        return CUSHIM_OK;
    scope.what = what;
    enum cushim_status status = cushim_capture_refuse_stream(&scope, stream->handle);
    return status == CUSHIM_CAPTURE ? status : CUSHIM_OK;
}

enum cushim_status cushim_stream_destroy(struct cushim_stream *s) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_object *stream;
    if (!s)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    CUSHIM_TRY(refuse_destroy(__func__, s));
    CUSHIM_TRY(cushim_call_begin_destroy(&scope, __func__, CUSHIM_KIND_STREAM, s, &stream));
    /* even if the driver could not enter the context, because the handle is closed in any case */
    if (!cushim_context_is_dead(scope.context))
        cushim_stream_host_goes(&scope, stream->handle);
    return CUSHIM_OK;
}

/* ---- facts ---- */

enum cushim_status cushim_stream_priority_range(struct cushim_context *ctx, int *least,
                                                int *greatest) {
    if (!least || !greatest)
        return CUSHIM_FAIL(CUSHIM_INVALID, "least=%p greatest=%p", (void *)least, (void *)greatest);
    *least = *greatest = 0;
    CUSHIM_ENTER_CONTEXT(ctx);
    return CUSHIM_CALL(&scope, cuCtxGetStreamPriorityRange, least, greatest);
}

enum cushim_status cushim_stream_priority(struct cushim_stream *s, int *priority) {
    CUSHIM_OUT(priority);
    CUSHIM_ENTER_STREAM(use, s);
    return CUSHIM_CALL(&scope, cuStreamGetPriority, use.handle, priority);
}

enum cushim_status cushim_stream_flags(struct cushim_stream *s, unsigned *flags) {
    CUSHIM_OUT(flags);
    CUSHIM_ENTER_STREAM(use, s);
    /* the driver refuses, and ends the capture (seen on driver 580) */
    CUSHIM_TRY(cushim_capture_refuse_stream(&scope, use.handle));
    return CUSHIM_CALL(&scope, cuStreamGetFlags, use.handle, flags);
}

enum cushim_status cushim_stream_handle(struct cushim_stream *s, struct CUstream_st **cu) {
    CUSHIM_NEED(cu);
    *cu = handle_of_special(s);
    if (cushim_stream_is_special(s))
        return cushim_driver_use_process(__func__);
    CUSHIM_ENTER(STREAM, stream, s);
    *cu = stream->handle;
    return CUSHIM_OK;
}

/* ---- waiting ---- */

enum cushim_status cushim_stream_synchronize(struct cushim_stream *s) {
    CUSHIM_ENTER_STREAM(use, s);
    enum cushim_status status = cushim_stream_refuse_captured(&scope, use.handle);
    if (status == CUSHIM_OK)
        status = cushim_stream_wait(&scope, use.handle);
    cushim_call_end(&scope, status);
    cushim_graph_resources_collect(); /* because the last launch of a graph may be over */
    return status;
}

enum cushim_status cushim_context_synchronize(struct cushim_context *ctx) {
    CUSHIM_ENTER_CONTEXT(ctx);
    enum cushim_status status = cushim_capture_refuse(&scope);
    if (status == CUSHIM_OK)
        status = cushim_mem_stream_fence_wait_all(&scope.context->fence);
    cushim_call_end(&scope, status);
    cushim_graph_resources_collect(); /* because the last launch of a graph may be over */
    return status;
}

enum cushim_status cushim_stream_query(struct cushim_stream *s, int *done) {
    CUSHIM_OUT(done);
    CUSHIM_ENTER_STREAM(use, s);
    CUSHIM_TRY(cushim_stream_refuse_captured(&scope, use.handle));
    CUSHIM_NEED_ENTRY(__func__, cuStreamQuery);
    CUresult result = CUSHIM_RELAXED(CUSHIM_DRIVER(cuStreamQuery)(use.handle));
    *done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? CUSHIM_OK
                                          : cushim_scope_answer(&scope, "cuStreamQuery", result);
}

/* The scope is of the event's context; the stream may be of another one. */
enum cushim_status cushim_stream_wait_event(struct cushim_stream *s, struct cushim_event *e) {
    CUSHIM_STREAM_USE use = {0};
    CUSHIM_ENTER(EVENT, event, e);
    CUSHIM_TRY(cushim_stream_use_any(&scope, s, &use));
    if (!event->is_foreign && !load_acquire(&event->is_recorded)) /* nothing to wait for */
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_event_refuse_mix(&scope, event, use.handle));
    return CUSHIM_CALL(&scope, cuStreamWaitEvent, use.handle, event->handle, 0);
}
