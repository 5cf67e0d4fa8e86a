/*
 * Copies of clients.  What a copy reads from, or writes to, in host memory is the caller's again
 * when the call returns, but for cushim_client_d2h_start: so each waits for its own copy where the
 * driver would not have.
 */
#include "companion/client/client.h"

#include "base/try.h"
#include "companion/capture/known_captures.h"
#include "companion/capture/graph_resources.h"
#include "companion/stream/stream_host.h"
#include "companion/memory/memory.h"
#include "companion/graph/graph_recording.h"
#include "companion/stream/stream.h"

struct copy {
    struct cushim_pin pin; /* of the client */
    struct cushim_client_object *client;
    struct cushim_memory_call call;
    uint64_t dst, src;
    size_t bytes;
};

/* Pin the client; *is_empty: there is nothing to do, and nothing is entered. */
static enum cushim_status begin(struct copy *copy, const char *what, struct cushim_client *c,
                                bool *is_empty) {
    CUSHIM_TRY(cushim_client_pin(&copy->pin, what, c, &copy->client));
    *is_empty = copy->bytes == 0;
    enum cushim_status status = cushim_memory_check_bytes(what, "bytes", copy->bytes);
    if (status != CUSHIM_OK)
        cushim_handle_unpin(&copy->pin);
    return status;
}

/* Look both ends up and go into the context. */
static enum cushim_status enter(struct copy *copy, const char *what, struct cushim_stream *stream,
                                enum cushim_memory_place dst, enum cushim_memory_place src) {
    copy->call = (struct cushim_memory_call){
        .n_ranges = 2,
        .ranges = {{.name = "dst", .address = copy->dst, .bytes = copy->bytes, .place = dst},
                   {.name = "src", .address = copy->src, .bytes = copy->bytes, .place = src}}};
    enum cushim_status status = cushim_memory_enter(&copy->call, what, stream);
    if (status != CUSHIM_OK)
        cushim_handle_unpin(&copy->pin);
    return status;
}

static enum cushim_status leave(struct copy *copy, enum cushim_status status) {
    status = cushim_memory_leave(&copy->call, status);
    cushim_handle_unpin(&copy->pin);
    return status;
}

/* Record an event behind what the stream has so far; after a failure it is gone. */
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

/* Wait for the copy that was queued last: by an event, for no more than it; else for the stream. */
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

/* Whether the driver reads the source after the call: it copies what is pageable before. */
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

/* The node reads bytes of its own at each launch. */
static enum cushim_status capture_h2d(struct copy *copy, const void *src) {
    void *kept;
    CUstream stream = copy->call.stream;
    CUSHIM_TRY(cushim_graph_resources_bytes(&copy->call.scope, stream, src, copy->bytes, &kept));
    cushim_graph_recording_note_bytes(cushim_stream_capture_id(stream), copy->bytes);
    return queue_h2d(copy, kept);
}

enum cushim_status cushim_client_h2d(struct cushim_client *c, cushim_devptr dst, const void *src,
                                     size_t bytes) {
    struct copy copy = {.dst = dst, .src = (uintptr_t)src, .bytes = bytes};
    CUstreamCaptureStatus state;
    bool is_empty = false;
    CUSHIM_TRY(begin(&copy, __func__, c, &is_empty));
    if (is_empty) {
        cushim_handle_unpin(&copy.pin);
        return CUSHIM_OK;
    }
    CUSHIM_TRY(enter(&copy, __func__, copy.client->compute, CUSHIM_MEMORY_AT_DEVICE,
                     CUSHIM_MEMORY_AT_HOST));
    enum cushim_status status =
        cushim_capture_of_stream(&copy.call.scope, copy.call.stream, &state);
    if (status == CUSHIM_OK && state != CU_STREAM_CAPTURE_STATUS_NONE)
        return leave(&copy, capture_h2d(&copy, src));
    if (status == CUSHIM_OK)
        status = queue_h2d(&copy, src);
    if (status == CUSHIM_OK && is_read_later(&copy))
        status = wait(&copy);
    return leave(&copy, status);
}

/* ---- to the host ---- */

static enum cushim_status queue_d2h(struct copy *copy) {
    return CUSHIM_CALL(&copy->call.scope, cuMemcpyDtoHAsync_v2, (void *)(uintptr_t)copy->dst,
                       copy->src, copy->bytes, copy->call.stream);
}

enum cushim_status cushim_client_d2h(struct cushim_client *c, void *dst, cushim_devptr src,
                                     size_t bytes) {
    struct copy copy = {.dst = (uintptr_t)dst, .src = src, .bytes = bytes};
    bool is_empty = false;
    CUSHIM_TRY(begin(&copy, __func__, c, &is_empty));
    if (is_empty) {
        cushim_handle_unpin(&copy.pin);
        return CUSHIM_OK;
    }
    CUSHIM_TRY(enter(&copy, __func__, copy.client->compute, CUSHIM_MEMORY_AT_HOST,
                     CUSHIM_MEMORY_AT_DEVICE));
    enum cushim_status status = cushim_stream_refuse_captured(&copy.call.scope, copy.call.stream);
    if (status == CUSHIM_OK)
        status = queue_d2h(&copy);
    if (status == CUSHIM_OK)
        status = wait(&copy);
    return leave(&copy, status);
}

/* ---- within the device ---- */

static bool do_overlap(uint64_t a, uint64_t b, size_t bytes) {
    return a < b ? b - a < bytes : a - b < bytes;
}

enum cushim_status cushim_client_d2d(struct cushim_client *c, cushim_devptr dst, cushim_devptr src,
                                     size_t bytes) {
    struct copy copy = {.dst = dst, .src = src, .bytes = bytes};
    bool is_empty = false;
    CUSHIM_TRY(begin(&copy, __func__, c, &is_empty));
    if (is_empty) {
        cushim_handle_unpin(&copy.pin);
        return CUSHIM_OK;
    }
    CUSHIM_TRY(enter(&copy, __func__, copy.client->compute, CUSHIM_MEMORY_AT_DEVICE,
                     CUSHIM_MEMORY_AT_DEVICE));
    enum cushim_status status;
    if (do_overlap(dst, src, bytes))
        status = cushim_scope_fail(&copy.call.scope, CUSHIM_INVALID,
                                   "dst=0x%llx src=0x%llx bytes=%zu overlap",
                                   (unsigned long long)dst, (unsigned long long)src, bytes);
    else
        status =
            CUSHIM_CALL(&copy.call.scope, cuMemcpyDtoDAsync_v2, dst, src, bytes, copy.call.stream);
    return leave(&copy, status);
}

/* ---- beside the compute stream ---- */

/* Take the caller's event: its handle is gone, whatever becomes of the call. */
static enum cushim_status consume(struct cushim_pin *pin, const char *what,
                                  const struct cushim_event *e,
                                  struct cushim_event_object **event) {
    *pin = (struct cushim_pin){.object = NULL};
    CUSHIM_TRY(cushim_check_given(what, "e", e));
    CUSHIM_TRY(cushim_driver_use(what));
    *event = cushim_handle_pin(pin, CUSHIM_KIND_EVENT, e);
    if (*event && cushim_handle_close(pin))
        return CUSHIM_OK;
    cushim_handle_unpin(pin);
    return cushim_fail(what, CUSHIM_BADHANDLE, "event=%p", (const void *)e);
}

/* Behind the event, on the copy stream. */
static enum cushim_status queue_behind(struct copy *copy, const struct cushim_event_object *event) {
    struct cushim_scope *scope = &copy->call.scope;
    CUstream stream = copy->call.stream;
    CUSHIM_TRY(cushim_stream_refuse_captured(scope, stream));
    CUSHIM_TRY(cushim_event_refuse_mix(scope, event, stream));
    CUSHIM_TRY(CUSHIM_CALL(scope, cuStreamWaitEvent, stream, event->handle, 0));
    return queue_d2h(copy);
}

static enum cushim_status pipelined(struct copy *copy, const char *what, struct cushim_client *c,
                                    const struct cushim_event_object *event) {
    bool is_empty = false;
    CUSHIM_TRY(begin(copy, what, c, &is_empty));
    if (is_empty) {
        cushim_handle_unpin(&copy->pin);
        return CUSHIM_OK;
    }
    CUSHIM_TRY(
        enter(copy, what, copy->client->copy, CUSHIM_MEMORY_AT_HOST, CUSHIM_MEMORY_AT_DEVICE));
    enum cushim_status status = queue_behind(copy, event);
    if (status == CUSHIM_OK)
        status = wait(copy);
    return leave(copy, status);
}

enum cushim_status cushim_client_d2h_pipelined(struct cushim_client *c, void *dst,
                                               cushim_devptr src, size_t bytes,
                                               struct cushim_event *e) {
    struct copy copy = {.dst = (uintptr_t)dst, .src = src, .bytes = bytes};
    struct cushim_event_object *event = NULL;
    struct cushim_pin pin;
    CUSHIM_TRY(consume(&pin, __func__, e, &event));
    enum cushim_status status = pipelined(&copy, __func__, c, event);
    cushim_handle_unpin(&pin);
    return status;
}

/* An event that was never recorded: there is nothing to wait for. */
static enum cushim_status start_empty(struct copy *copy, const char *what,
                                      struct cushim_event **done) {
    struct cushim_event_object *event = NULL;
    enum cushim_status status =
        cushim_call_begin_known(&copy->call.scope, what, copy->client->object.context);
    if (status == CUSHIM_OK) {
        status = cushim_client_make_event(&copy->call.scope, copy->client, &event);
        if (status == CUSHIM_OK)
            status = cushim_handle_open(&event->object, done);
        if (status != CUSHIM_OK)
            cushim_object_release(event);
        cushim_call_end(&copy->call.scope, status);
    }
    cushim_handle_unpin(&copy->pin);
    return status;
}

static enum cushim_status start(struct copy *copy, const char *what, struct cushim_client *c,
                                const struct cushim_event_object *event,
                                struct cushim_event **done) {
    struct cushim_event_object *behind;
    bool is_empty = false;
    CUSHIM_TRY(begin(copy, what, c, &is_empty));
    if (is_empty)
        return start_empty(copy, what, done);
    CUSHIM_TRY(
        enter(copy, what, copy->client->copy, CUSHIM_MEMORY_AT_HOST, CUSHIM_MEMORY_AT_DEVICE));
    enum cushim_status status = queue_behind(copy, event);
    if (status != CUSHIM_OK)
        return leave(copy, status);
    status = record(copy, &behind);
    if (status == CUSHIM_OK)
        status = cushim_handle_open(&behind->object, done);
    if (status != CUSHIM_OK) { /* the copy must not outlive the call that failed */
        cushim_object_release(behind);
        CUSHIM_DRIVER(cuStreamSynchronize)(copy->call.stream);
    }
    return leave(copy, status);
}

enum cushim_status cushim_client_d2h_start(struct cushim_client *c, void *dst, cushim_devptr src,
                                           size_t bytes, struct cushim_event *e,
                                           struct cushim_event **done) {
    struct copy copy = {.dst = (uintptr_t)dst, .src = src, .bytes = bytes};
    struct cushim_event_object *event = NULL;
    struct cushim_pin pin;
    if (done)
        *done = NULL;
    CUSHIM_TRY(consume(&pin, __func__, e, &event));
    enum cushim_status status =
        done ? start(&copy, __func__, c, event, done) : CUSHIM_FAIL(CUSHIM_INVALID, "done=NULL");
    cushim_handle_unpin(&pin);
    return status;
}
