#include "companion/capture/known_captures.h"

#include <dlfcn.h>
#include <string.h>

#include "base/futex.h"

typedef int preload_fn(struct CUctx_st *context);

static preload_fn *ask_preload; /* NULL: no preload in this process; set once */
static pthread_once_t once = PTHREAD_ONCE_INIT;
atomic_int cushim_capture_preload;

static void look_for_preload(void) {
    void *address = dlsym(RTLD_DEFAULT, "cushim_preload_capturing");
    memcpy(&ask_preload, &address, sizeof address);
    store_release(&cushim_capture_preload, address ? 1 : -1);
}

void cushim_capture_begin(struct cushim_context_object *context) {
    atomic_fetch_add(&context->n_captures, 1);
    cushim_changes_note();
    /* Either the record sees our count, or we see its count and wait. */
    int n_fencing;
    for (int i = 0; (n_fencing = atomic_load(&context->n_fencing)) != 0; i++) {
        if (i < CUSHIM_FUTEX_LOOKS)
            cushim_futex_pause();
        else
            cushim_futex_wait(&context->n_fencing, (uint32_t)n_fencing, CUSHIM_FUTEX_LONG_NS);
    }
}

void cushim_capture_end(struct cushim_context_object *context) {
    atomic_fetch_sub(&context->n_captures, 1);
}

int cushim_capture_count_all(struct cushim_context_object *context) {
    pthread_once(&once, look_for_preload);
    int n_ours = atomic_load(&context->n_captures);
    /* The preload sees our captures too, so the larger number is right. */
    int n_seen = ask_preload ? ask_preload(context->handle) : 0;
    return (n_seen > n_ours ? n_seen : n_ours) + atomic_load(&context->n_announced);
}

enum cushim_status cushim_capture_refuse(struct cushim_scope *scope) {
    int n = scope->context ? cushim_capture_count(scope->context) : 0;
    return n ? cushim_scope_fail(scope, CUSHIM_CAPTURE, "captures=%d", n) : CUSHIM_OK;
}

enum cushim_status cushim_capture_refuse_handle(const char *what, enum cushim_kind kind,
                                                const void *handle) {
    CUSHIM_PIN pin = {0};
    const struct cushim_object *object = cushim_handle_pin(&pin, kind, handle);
    if (!object || cushim_context_is_dead(object->context))
        return CUSHIM_OK;
    struct cushim_scope scope = {.what = what, .context = object->context};
    return cushim_capture_refuse(&scope);
}

enum cushim_status cushim_capture_of_stream(struct cushim_scope *scope, CUstream stream,
                                            CUstreamCaptureStatus *out) {
    *out = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!stream || stream == CU_STREAM_LEGACY || !CUSHIM_DRIVER(cuStreamIsCapturing))
        return CUSHIM_OK; /* the legacy stream takes part in no capture, and the question would be
                             an error */
    CUresult result = CUSHIM_DRIVER(cuStreamIsCapturing)(stream, out);
    if (!cushim_error_is_sticky(result))
        return cushim_scope_answer(scope, "cuStreamIsCapturing", result);
    *out = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUSHIM_OK;
}

enum cushim_status cushim_capture_refuse_stream(struct cushim_scope *scope, CUstream stream) {
    CUstreamCaptureStatus state;
    enum cushim_status status = cushim_capture_of_stream(scope, stream, &state);
    if (status == CUSHIM_OK && state != CU_STREAM_CAPTURE_STATUS_NONE)
        status = cushim_scope_fail(scope, CUSHIM_CAPTURE, "stream=%p", (void *)stream);
    return status;
}

/* The driver refused the exchange, so there is nothing to undo. */
static const CUstreamCaptureMode as_before = (CUstreamCaptureMode)-1;

CUstreamCaptureMode cushim_capture_relax(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!CUSHIM_DRIVER(cuThreadExchangeStreamCaptureMode) ||
        CUSHIM_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
        return as_before;
    return mode;
}

void cushim_capture_back(CUstreamCaptureMode mode) {
    if (mode != as_before)
        CUSHIM_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
}
