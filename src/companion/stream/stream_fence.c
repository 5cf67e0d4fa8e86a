#include "companion/stream/stream_fence.h"

#include <stdlib.h>

#include "base/try.h"
#include "cuda/translate.h"
#include "companion/capture/known_captures.h"

enum {
    MOST_SPARES = 256,
    POLLS = 200 /* about as long as a short kernel takes */
};

struct cushim_stream_fence {
    struct cushim_context_object *context; /* not kept: the user of the fence does */
    CUevent event;                         /* NULL: a whole context, before driver 12.5 */
    atomic_uint_fast64_t moment;           /* read after the record; 0: it was seen complete */
    struct cushim_stream_fence *next;      /* among the spares */
};

static _Atomic(const struct cushim_stream_fence_user *) user; /* written once */

/* ---- spare fences ---- */

void cushim_stream_fence_begin(struct cushim_context_object *context) {
    pthread_mutex_init(&context->fences.lock, NULL);
    atomic_init(&context->fences.open, 1);
}

static struct cushim_stream_fence *take_spare(struct cushim_context_fences *all) {
    pthread_mutex_lock(&all->lock);
    struct cushim_stream_fence *fence = all->spares;
    if (fence) {
        all->spares = fence->next;
        all->n_spares--;
    }
    pthread_mutex_unlock(&all->lock);
    return fence;
}

/* One that nobody has; with an event, unless that is not wanted. */
static enum cushim_status obtain(struct cushim_scope *scope, bool has_event,
                                 struct cushim_stream_fence **out) {
    struct cushim_stream_fence *fence = has_event ? take_spare(&scope->context->fences) : NULL;
    if (!fence) {
        fence = calloc(1, sizeof *fence);
        CUstreamCaptureMode mode = cushim_capture_relax();
        enum cushim_status status =
            fence && has_event
                ? CUSHIM_CALL(scope, cuEventCreate, &fence->event, CU_EVENT_DISABLE_TIMING)
                : CUSHIM_OK;
        cushim_capture_back(mode);
        if (status != CUSHIM_OK) {
            free(fence);
            return status;
        }
    }
    if (!fence)
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof *fence);
    fence->context = scope->context;
    *out = fence;
    return CUSHIM_OK;
}

void cushim_stream_fence_release(struct cushim_stream_fence *fence) {
    if (!fence)
        return;
    struct cushim_context_fences *all = &fence->context->fences;
    if (fence->event && !cushim_context_is_dead(fence->context)) {
        pthread_mutex_lock(&all->lock);
        bool is_kept = all->n_spares < MOST_SPARES;
        if (is_kept) {
            fence->next = all->spares;
            all->spares = fence;
            all->n_spares++;
        }
        pthread_mutex_unlock(&all->lock);
        if (is_kept)
            return;
        CUSHIM_DRIVER(cuEventDestroy_v2)(fence->event);
    }
    free(fence);
}

void cushim_stream_fence_end(struct cushim_context_object *context) {
    struct cushim_scope scope;
    struct cushim_stream_fence *next, *fence = context->fences.spares;
    bool is_alive = fence && cushim_call_begin_quietly(&scope, context);
    for (; fence; fence = next) {
        next = fence->next;
        if (is_alive)
            CUSHIM_DRIVER(cuEventDestroy_v2)(fence->event);
        free(fence);
    }
    if (is_alive)
        cushim_call_end(&scope, CUSHIM_OK);
    pthread_mutex_destroy(&context->fences.lock);
}

/* ---- recording ---- */

/* The record was made, or refused. */
static enum cushim_status settle(struct cushim_stream_fence *fence, enum cushim_status status,
                                 struct cushim_stream_fence **out) {
    if (status != CUSHIM_OK) {
        cushim_stream_fence_release(fence);
        return status;
    }
    atomic_store(&fence->moment, cushim_stream_fence_moment(fence->context));
    *out = fence;
    return CUSHIM_OK;
}

enum cushim_status cushim_stream_fence_record(struct cushim_scope *scope, CUstream stream,
                                              struct cushim_stream_fence **out) {
    struct cushim_stream_fence *fence;
    *out = NULL;
    bool is_legacy = !stream || stream == CU_STREAM_LEGACY;
    CUSHIM_TRY(is_legacy ? cushim_capture_refuse(scope)
                         : cushim_capture_refuse_stream(scope, stream));
    CUSHIM_TRY(obtain(scope, true, &fence));
    return settle(fence, CUSHIM_CALL(scope, cuEventRecord, fence->event, stream), out);
}

/* No capture begins meanwhile: the record would invalidate it. */
static enum cushim_status record_all(struct cushim_scope *scope,
                                     const struct cushim_stream_fence *fence) {
    CUSHIM_TRY(cushim_capture_fence_enter(scope));
    enum cushim_status status =
        CUSHIM_CALL(scope, cuCtxRecordEvent, scope->context->handle, fence->event);
    cushim_capture_fence_leave(scope);
    return status;
}

enum cushim_status cushim_stream_fence_record_all(struct cushim_scope *scope,
                                                  struct cushim_stream_fence **out) {
    struct cushim_stream_fence *fence;
    bool has_event = CUSHIM_DRIVER(cuCtxRecordEvent) != NULL;
    *out = NULL;
    CUSHIM_TRY(cushim_capture_refuse(scope));
    CUSHIM_TRY(obtain(scope, has_event, &fence));
    return settle(fence, has_event ? record_all(scope, fence) : CUSHIM_OK, out);
}

/* ---- completion ---- */

/* An event is asked in relaxed mode: a capture of another thread may be open by now. */
static CUresult query(const struct cushim_stream_fence *fence) {
    CUstreamCaptureMode mode = cushim_capture_relax();
    CUresult result = CUSHIM_DRIVER(cuEventQuery)(fence->event);
    cushim_capture_back(mode);
    return result;
}

bool cushim_stream_fence_is_complete(struct cushim_stream_fence *fence) {
    uint64_t moment = atomic_load_explicit(&fence->moment, memory_order_acquire);
    bool is_over = cushim_stream_fence_is_past(fence->context, moment) ||
                   cushim_context_is_dead(fence->context);
    if (!is_over && fence->event) {
        CUresult result = query(fence);
        is_over = result == CUDA_SUCCESS;
        if (!is_over && result != CUDA_ERROR_NOT_READY) {
            cushim_context_note(fence->context, "cuEventQuery", result);
            is_over = cushim_status_from_cu(result) != CUSHIM_CAPTURE;
        }
    }
    if (is_over)
        atomic_store_explicit(&fence->moment, 0, memory_order_release);
    return is_over;
}

enum cushim_status cushim_stream_fence_wait_all(struct cushim_scope *scope) {
    uint64_t begun = cushim_stream_fence_end_moment(scope->context);
    CUSHIM_TRY(CUSHIM_CALL(scope, cuCtxSynchronize));
    cushim_raise_to(&scope->context->fences.done, begun);
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
    for (int i = 0; i < POLLS; i++) {
        if (cushim_stream_fence_is_complete(fence))
            return CUSHIM_OK;
        if (!fence->event)
            return wait_for_context(scope, fence->context);
    }
    CUstreamCaptureMode mode = cushim_capture_relax();
    CUresult result = CUSHIM_DRIVER(cuEventSynchronize)(fence->event);
    cushim_capture_back(mode);
    if (result == CUDA_SUCCESS || cushim_context_is_dead(fence->context)) {
        atomic_store_explicit(&fence->moment, 0, memory_order_release);
        return CUSHIM_OK;
    }
    return cushim_scope_answer(scope, "cuEventSynchronize", result);
}

enum cushim_status cushim_stream_fence_order(struct cushim_scope *scope,
                                             struct cushim_stream_fence *fence, CUstream stream) {
    if (cushim_stream_fence_is_complete(fence))
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_capture_refuse_stream(scope, stream));
    return fence->event ? CUSHIM_CALL(scope, cuStreamWaitEvent, stream, fence->event, 0)
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
