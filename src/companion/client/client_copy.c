/*
 * Copies of clients.  The caller may use the host memory of a copy again when the call returns,
 * except with cushim_client_d2h_start.  So each call waits for its own copy if the driver does not.
 */
#include "companion/client/client.h"

#include "companion/capture/known_captures.h"
#include "companion/stream/stream_host.h"
#include "companion/memory/memory.h"
#include "companion/graph/graph.h"
#include "companion/stream/stream.h"

struct copy {
    struct cushim_client_object *client;
    struct cushim_memory_call call;
    uint64_t dst, src;
    size_t bytes;
    const struct cushim_event_object *event; /* beside the compute stream: it comes first */
    struct cushim_event **done;              /* out: the end of a copy that is not waited for */
};

typedef enum cushim_status copy_fn(struct copy *copy);

/* An event that was never recorded: there is nothing to wait for. */
static enum cushim_status start_empty(struct copy *copy, const char *what) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_event_object *event;
    CUSHIM_TRY(cushim_call_begin_known(&scope, what, copy->client->object.context));
    CUSHIM_TRY(cushim_client_make_event(&scope, copy->client, &event));
    return cushim_object_open(&event->object, copy->done);
}

/* Look both ends up, go into the context and do it there. */
static enum cushim_status run(struct copy *copy, const char *what, struct cushim_client *c,
                              enum cushim_memory_place dst, enum cushim_memory_place src,
                              copy_fn *fn) {
    CUSHIM_PIN pin = {0};
    CUSHIM_TRY(cushim_client_pin(&pin, what, c, &copy->client));
    CUSHIM_TRY(cushim_memory_check_bytes(what, "bytes", copy->bytes));
    if (!copy->bytes)
        return copy->done ? start_empty(copy, what) : CUSHIM_OK;
    copy->call.n_ranges = 2;
    copy->call.ranges[0] = cushim_memory_span("dst", copy->dst, copy->bytes, dst);
    copy->call.ranges[1] = cushim_memory_span("src", copy->src, copy->bytes, src);
    struct cushim_stream *stream = copy->event ? copy->client->copy : copy->client->compute;
    enum cushim_status status = cushim_memory_enter(&copy->call, what, stream);
    return cushim_memory_leave(&copy->call, status == CUSHIM_OK ? fn(copy) : status);
}

/* Record an event behind the work of the stream so far; NULL after a failure. */
static enum cushim_status record(struct copy *copy, struct cushim_event_object **event) {
    struct cushim_scope *scope = &copy->call.scope;
    CUSHIM_TRY(cushim_client_make_event(scope, copy->client, event));
    enum cushim_status status = cushim_event_record_in(scope, *event, copy->call.stream);
    if (status != CUSHIM_OK) {
        cushim_object_release(*event);
        *event = NULL;
    }
    return status;
}

/* Wait for the last copy by an event, and if there is none for the whole stream. */
static enum cushim_status wait(struct copy *copy) {
    struct cushim_scope *scope = &copy->call.scope;
    struct cushim_event_object *event = NULL;
    uint64_t begun = cushim_mem_fence_close(&scope->context->fence);
    enum cushim_status status = record(copy, &event);
    if (status == CUSHIM_OK) {
        status = cushim_event_wait_in(scope, event);
        cushim_object_release(event);
    }
    if (status != CUSHIM_OK)
        return cushim_memory_wait(&copy->call);
    cushim_stream_host_done(scope, copy->call.stream, begun);
    return CUSHIM_OK;
}

/* ---- to the device ---- */

/* Whether the driver reads the source after the call; it reads pageable memory during the call. */
static bool is_read_later(const struct copy *copy) {
    unsigned type = 0;
    if (copy->call.ranges[1].is_known)
        return true;
    return !CUSHIM_DRIVER(cuPointerGetAttribute) ||
           CUSHIM_DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                copy->src) != CUDA_ERROR_INVALID_VALUE;
}

static enum cushim_status queue_h2d(struct copy *copy, const void *src) {
    return CUSHIM_CALL(&copy->call.scope, cuMemcpyHtoDAsync_v2, copy->dst, src, copy->bytes,
                       copy->call.stream);
}

static enum cushim_status h2d(struct copy *copy) {
    const void *src = (const void *)(uintptr_t)copy->src;
    struct cushim_scope *scope = &copy->call.scope;
    CUstream stream = copy->call.stream;
    CUstreamCaptureStatus state;
    void *kept;
    CUSHIM_TRY(cushim_capture_of_stream(scope, stream, &state));
    if (state == CU_STREAM_CAPTURE_STATUS_NONE) {
        CUSHIM_TRY(queue_h2d(copy, src));
        return is_read_later(copy) ? wait(copy) : CUSHIM_OK;
    }
    /* the node reads its own copy of the bytes at each launch */
    CUSHIM_TRY(cushim_graph_resources_bytes(scope, stream, src, copy->bytes, &kept));
    cushim_graph_recording_note_bytes(cushim_stream_capture_id(stream), copy->bytes);
    return queue_h2d(copy, kept);
}

enum cushim_status cushim_client_h2d(struct cushim_client *c, cushim_devptr dst, const void *src,
                                     size_t bytes) {
    struct copy copy = {.dst = dst, .src = (uintptr_t)src, .bytes = bytes};
    return run(&copy, __func__, c, CUSHIM_MEMORY_AT_DEVICE, CUSHIM_MEMORY_AT_HOST, h2d);
}

/* ---- to the host ---- */

static enum cushim_status queue_d2h(struct copy *copy) {
    return CUSHIM_CALL(&copy->call.scope, cuMemcpyDtoHAsync_v2, (void *)(uintptr_t)copy->dst,
                       copy->src, copy->bytes, copy->call.stream);
}

static enum cushim_status d2h(struct copy *copy) {
    CUSHIM_TRY(cushim_stream_refuse_captured(&copy->call.scope, copy->call.stream));
    CUSHIM_TRY(queue_d2h(copy));
    return wait(copy);
}

enum cushim_status cushim_client_d2h(struct cushim_client *c, void *dst, cushim_devptr src,
                                     size_t bytes) {
    struct copy copy = {.dst = (uintptr_t)dst, .src = src, .bytes = bytes};
    return run(&copy, __func__, c, CUSHIM_MEMORY_AT_HOST, CUSHIM_MEMORY_AT_DEVICE, d2h);
}

/* ---- within the device ---- */

static enum cushim_status d2d(struct copy *copy) {
    struct cushim_scope *scope = &copy->call.scope;
    uint64_t apart = copy->dst < copy->src ? copy->src - copy->dst : copy->dst - copy->src;
    CUSHIM_FAIL_IF(scope->what, apart < copy->bytes, CUSHIM_INVALID,
                   "dst=0x%llx src=0x%llx bytes=%zu overlap", (unsigned long long)copy->dst,
                   (unsigned long long)copy->src, copy->bytes);
    return CUSHIM_CALL(scope, cuMemcpyDtoDAsync_v2, copy->dst, copy->src, copy->bytes,
                       copy->call.stream);
}

enum cushim_status cushim_client_d2d(struct cushim_client *c, cushim_devptr dst, cushim_devptr src,
                                     size_t bytes) {
    struct copy copy = {.dst = dst, .src = src, .bytes = bytes};
    return run(&copy, __func__, c, CUSHIM_MEMORY_AT_DEVICE, CUSHIM_MEMORY_AT_DEVICE, d2d);
}

/* ---- beside the compute stream ---- */

/* Take the caller's event: its handle is closed even if the call fails. */
static enum cushim_status consume(struct cushim_pin *pin, const char *what,
                                  const struct cushim_event *e, struct copy *copy) {
    CUSHIM_TRY(cushim_check_given(what, "e", e));
    CUSHIM_TRY(cushim_driver_use(what));
    copy->event = cushim_handle_pin(pin, CUSHIM_KIND_EVENT, e);
    return copy->event && cushim_handle_close(pin)
               ? CUSHIM_OK
               : cushim_fail(what, CUSHIM_BADHANDLE, "event=%p", (const void *)e);
}

/* Behind the event, on the copy stream. */
static enum cushim_status queue_behind(struct copy *copy) {
    struct cushim_scope *scope = &copy->call.scope;
    CUstream stream = copy->call.stream;
    CUSHIM_TRY(cushim_stream_refuse_captured(scope, stream));
    CUSHIM_TRY(cushim_event_refuse_mix(scope, copy->event, stream));
    CUSHIM_TRY(CUSHIM_CALL(scope, cuStreamWaitEvent, stream, copy->event->handle, 0));
    return queue_d2h(copy);
}

static enum cushim_status pipelined(struct copy *copy) {
    CUSHIM_TRY(queue_behind(copy));
    return wait(copy);
}

enum cushim_status cushim_client_d2h_pipelined(struct cushim_client *c, void *dst,
                                               cushim_devptr src, size_t bytes,
                                               struct cushim_event *e) {
    struct copy copy = {.dst = (uintptr_t)dst, .src = src, .bytes = bytes};
    CUSHIM_PIN pin = {0};
    CUSHIM_TRY(consume(&pin, __func__, e, &copy));
    return run(&copy, __func__, c, CUSHIM_MEMORY_AT_HOST, CUSHIM_MEMORY_AT_DEVICE, pipelined);
}

static enum cushim_status start(struct copy *copy) {
    struct cushim_event_object *behind;
    CUSHIM_TRY(queue_behind(copy));
    enum cushim_status status = record(copy, &behind);
    if (status == CUSHIM_OK)
        status = cushim_object_open(&behind->object, copy->done);
    if (status != CUSHIM_OK) /* the copy must not outlive the call that failed */
        CUSHIM_DRIVER(cuStreamSynchronize)(copy->call.stream);
    return status;
}

enum cushim_status cushim_client_d2h_start(struct cushim_client *c, void *dst, cushim_devptr src,
                                           size_t bytes, struct cushim_event *e,
                                           struct cushim_event **done) {
    struct copy copy = {.dst = (uintptr_t)dst, .src = src, .bytes = bytes, .done = done};
    CUSHIM_PIN pin = {0};
    CUSHIM_CLEAR(done);
    CUSHIM_TRY(consume(&pin, __func__, e, &copy));
    CUSHIM_NEED(done);
    return run(&copy, __func__, c, CUSHIM_MEMORY_AT_HOST, CUSHIM_MEMORY_AT_DEVICE, start);
}
