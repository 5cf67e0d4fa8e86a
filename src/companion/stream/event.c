#include "companion/stream/event.h"

#include <stdlib.h>
#include <string.h>

#include "companion/capture/known_captures.h"
#include "companion/capture/graph_resources.h"
#include "companion/stream/stream.h"

enum {
    KNOWN = CUSHIM_EVENT_FLAG_BLOCKING_SYNC | CUSHIM_EVENT_FLAG_NO_TIMING |
            CUSHIM_EVENT_FLAG_INTERPROCESS,
    IPC_BYTES = 64
};

_Static_assert(sizeof(CUipcEventHandle) == IPC_BYTES, "what the header promises");

/* ---- making and ending ---- */

static void finish(struct cushim_object *object) {
    struct cushim_event_object *event = (struct cushim_event_object *)object;
    CUSHIM_SCOPE scope = {0};
    if (!event->is_wrapped && cushim_call_begin_quietly(&scope, object->context))
        CUSHIM_DRIVER(cuEventDestroy_v2)(event->handle);
    free(event);
}

/* The handle passes to the object; after a failure it is gone, unless it is wrapped. */
static enum cushim_status adopt(struct cushim_scope *scope, CUevent handle, bool is_wrapped,
                                struct cushim_event_object **out) {
    struct cushim_event_object *event = calloc(1, sizeof *event);
    *out = event;
    if (!event) {
        if (!is_wrapped)
            CUSHIM_DRIVER(cuEventDestroy_v2)(handle);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "bytes=%zu", sizeof *event);
    }
    event->handle = handle;
    event->is_wrapped = is_wrapped;
    atomic_init(&event->is_foreign, is_wrapped);
    cushim_object_init(&event->object, CUSHIM_KIND_EVENT, scope->context, finish);
    return CUSHIM_OK;
}

enum cushim_status cushim_event_make(struct cushim_scope *scope, unsigned flags,
                                     struct cushim_event_object **out) {
    CUevent handle;
    *out = NULL;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuEventCreate, &handle, flags));
    return adopt(scope, handle, false, out);
}

enum cushim_status cushim_event_create(struct cushim_context *ctx, unsigned flags,
                                       struct cushim_event **e) {
    struct cushim_event_object *event;
    CUSHIM_OUT(e);
    if (flags & ~(unsigned)KNOWN ||
        (flags & CUSHIM_EVENT_FLAG_INTERPROCESS && !(flags & CUSHIM_EVENT_FLAG_NO_TIMING)))
        return CUSHIM_FAIL(CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_TRY(cushim_event_make(&scope, flags, &event));
    return cushim_object_open(&event->object, e);
}

enum cushim_status cushim_event_wrap(struct cushim_context *ctx, struct CUevent_st *cu,
                                     struct cushim_event **e) {
    struct cushim_event_object *event;
    CUSHIM_OUT(e);
    CUSHIM_NEED(cu);
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_TRY(adopt(&scope, cu, true, &event));
    return cushim_object_open(&event->object, e);
}

enum cushim_status cushim_event_destroy(struct cushim_event *e) {
    return cushim_call_destroy(__func__, CUSHIM_KIND_EVENT, e);
}

CUSHIM_FACT(EVENT, event, handle, struct CUevent_st *, cu, event->handle)

/* ---- recording ---- */

enum cushim_status cushim_event_record_in(struct cushim_scope *scope,
                                          struct cushim_event_object *event, CUstream stream) {
    if (!stream || stream == CU_STREAM_LEGACY)
        CUSHIM_TRY(cushim_capture_refuse(scope));
    unsigned long long id = cushim_stream_capture_id(stream);
    CUSHIM_TRY(CUSHIM_CALL(scope, cuEventRecord, event->handle, stream));
    store_relaxed(&event->capture_id, id);
    store_release(&event->is_recorded, true);
    return CUSHIM_OK;
}

enum cushim_status cushim_event_record(struct cushim_event *e, struct cushim_stream *s) {
    CUSHIM_STREAM_USE use = {0};
    CUSHIM_ENTER(EVENT, event, e);
    CUSHIM_TRY(cushim_stream_use_in(&scope, s, &use));
    return cushim_event_record_in(&scope, event, use.handle);
}

/*
 * A stream that waits for a captured event joins its capture; the legacy stream cannot do so.  A
 * stream in a capture may wait only for events of that capture.
 */
enum cushim_status cushim_event_refuse_mix(struct cushim_scope *scope,
                                           const struct cushim_event_object *event,
                                           CUstream stream) {
    bool is_legacy = !stream || stream == CU_STREAM_LEGACY;
    unsigned long long id = load_relaxed(&event->capture_id);
    if (is_legacy && id == 0)
        return cushim_capture_refuse(scope);
    unsigned long long stream_id = cushim_stream_capture_id(stream);
    if (event->is_foreign || id == stream_id || (stream_id == 0 && !is_legacy))
        return CUSHIM_OK;
    return cushim_scope_fail(scope, CUSHIM_CAPTURE, "stream=%p capture=%llu event's capture=%llu",
                             (void *)stream, stream_id, id);
}

/* ---- the host asks ---- */

static enum cushim_status refuse_captured(struct cushim_scope *scope,
                                          const struct cushim_event_object *event) {
    unsigned long long id = load_relaxed(&event->capture_id);
    return id ? cushim_scope_fail(scope, CUSHIM_CAPTURE, "event=%p capture=%llu: recorded in it",
                                  event->object.handle ? (void *)event->object.handle : NULL, id)
              : CUSHIM_OK;
}

enum cushim_status cushim_event_wait_in(struct cushim_scope *scope,
                                        struct cushim_event_object *event) {
    CUSHIM_TRY(refuse_captured(scope, event));
    return CUSHIM_RELAXED(CUSHIM_CALL(scope, cuEventSynchronize, event->handle));
}

enum cushim_status cushim_event_synchronize(struct cushim_event *e) {
    CUSHIM_ENTER(EVENT, event, e);
    enum cushim_status status = cushim_call_end(&scope, cushim_event_wait_in(&scope, event));
    cushim_graph_resources_collect(); /* because the last launch of a graph may be over */
    return status;
}

enum cushim_status cushim_event_query(struct cushim_event *e, int *done) {
    CUSHIM_OUT(done);
    CUSHIM_ENTER(EVENT, event, e);
    CUSHIM_TRY(refuse_captured(&scope, event));
    CUresult result = CUSHIM_RELAXED(CUSHIM_DRIVER(cuEventQuery)(event->handle));
    *done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? CUSHIM_OK
                                          : cushim_scope_answer(&scope, "cuEventQuery", result);
}

enum cushim_status cushim_event_elapsed_in(struct cushim_scope *scope,
                                           struct cushim_event_object *start,
                                           struct cushim_event_object *end, float *ms) {
    float measured = 0;
    CUSHIM_TRY(refuse_captured(scope, start));
    CUSHIM_TRY(refuse_captured(scope, end));
    CUSHIM_TRY(CUSHIM_RELAXED(
        CUSHIM_CALL(scope, cuEventElapsedTime, &measured, start->handle, end->handle)));
    *ms = measured;
    return CUSHIM_OK;
}

enum cushim_status cushim_event_elapsed(struct cushim_event *start, struct cushim_event *end,
                                        float *ms) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_event_object *first, *second;
    CUSHIM_PIN pin = {0};
    CUSHIM_OUT(ms);
    CUSHIM_NEED(end);
    CUSHIM_TRY(cushim_call_begin_object(&scope, __func__, CUSHIM_KIND_EVENT, start, &first));
    second = cushim_handle_pin(&pin, CUSHIM_KIND_EVENT, end);
    CUSHIM_FAIL_IF(scope.what, !second, CUSHIM_BADHANDLE, "end=%p", (void *)end);
    CUSHIM_FAIL_IF(scope.what, second->object.context != scope.context, CUSHIM_BADDEVICE,
                   "end=%p: of another context", (void *)end);
    return cushim_event_elapsed_in(&scope, first, second, ms);
}

/* ---- between processes ---- */

enum cushim_status cushim_event_ipc_get(struct cushim_event *e, void *handle64) {
    CUipcEventHandle handle;
    CUSHIM_NEED(handle64);
    memset(handle64, 0, IPC_BYTES);
    CUSHIM_ENTER(EVENT, event, e);
    CUSHIM_TRY(CUSHIM_CALL(&scope, cuIpcGetEventHandle, &handle, event->handle));
    memcpy(handle64, &handle, IPC_BYTES);
    event->is_foreign = true;
    return CUSHIM_OK;
}

enum cushim_status cushim_event_ipc_open(struct cushim_context *ctx, const void *handle64,
                                         struct cushim_event **e) {
    struct cushim_event_object *event;
    CUipcEventHandle handle;
    CUevent opened;
    CUSHIM_OUT(e);
    CUSHIM_NEED(handle64);
    memcpy(&handle, handle64, IPC_BYTES);
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_TRY(CUSHIM_CALL(&scope, cuIpcOpenEventHandle, &opened, handle));
    CUSHIM_TRY(adopt(&scope, opened, false, &event));
    event->is_foreign = true;
    return cushim_object_open(&event->object, e);
}
