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
    struct cushim_context_object *context; /* not kept: the user of the mark does */
    CUevent event;                         /* NULL: a whole context, before driver 12.5 */
    uint64_t moment;                       /* read after the record */
    atomic_bool is_over;                   /* seen complete */
    struct cushim_stream_fence *next;      /* among the spares */
};

static _Atomic(struct cushim_stream_fence_user *) users;

/* ---- the store ---- */

__attribute__((noinline, cold)) struct cushim_stream_fences *
cushim_stream_fences_make(struct cushim_context_object *context) {
    struct cushim_stream_fences *made = calloc(1, sizeof *made), *there = NULL;
    if (!made)
        return NULL;
    pthread_mutex_init(&made->lock, NULL);
    atomic_init(&made->open, 1);
    if (atomic_compare_exchange_strong(&context->marks, &there, made))
        return made;
    pthread_mutex_destroy(&made->lock);
    free(made);
    return there;
}

static struct cushim_stream_fence *take_spare(struct cushim_stream_fences *store) {
    pthread_mutex_lock(&store->lock);
    struct cushim_stream_fence *mark = store->spares;
    if (mark) {
        store->spares = mark->next;
        store->n_spares--;
    }
    pthread_mutex_unlock(&store->lock);
    return mark;
}

/* A mark that nobody has; with an event, unless that is not wanted. */
static enum cushim_status obtain(struct cushim_scope *scope, bool has_event,
                                 struct cushim_stream_fence **out) {
    struct cushim_stream_fences *store = cushim_stream_fences_of(scope->context);
    struct cushim_stream_fence *mark = store && has_event ? take_spare(store) : NULL;
    if (store && !mark) {
        mark = calloc(1, sizeof *mark);
        CUstreamCaptureMode mode = cushim_capture_relax();
        enum cushim_status status =
            mark && has_event
                ? CUSHIM_CALL(scope, cuEventCreate, &mark->event, CU_EVENT_DISABLE_TIMING)
                : CUSHIM_OK;
        cushim_capture_back(mode);
        if (status != CUSHIM_OK) {
            free(mark);
            return status;
        }
    }
    if (!mark)
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof *mark);
    mark->context = scope->context;
    atomic_store_explicit(&mark->is_over, false, memory_order_relaxed);
    *out = mark;
    return CUSHIM_OK;
}

void cushim_stream_fence_release(struct cushim_stream_fence *mark) {
    if (!mark)
        return;
    struct cushim_stream_fences *store =
        cushim_stream_fences_of(mark->context); /* there, since the mark was made */
    if (mark->event && !cushim_context_is_dead(mark->context)) {
        pthread_mutex_lock(&store->lock);
        bool is_kept = store->n_spares < MOST_SPARES;
        if (is_kept) {
            mark->next = store->spares;
            store->spares = mark;
            store->n_spares++;
        }
        pthread_mutex_unlock(&store->lock);
        if (is_kept)
            return;
        CUSHIM_DRIVER(cuEventDestroy_v2)(mark->event);
    }
    free(mark);
}

void cushim_stream_fence_end(struct cushim_context_object *context) {
    struct cushim_stream_fences *store =
        atomic_load_explicit(&context->marks, memory_order_acquire);
    struct cushim_scope scope;
    if (!store)
        return;
    bool is_alive = store->spares && cushim_call_begin_quietly(&scope, context);
    for (struct cushim_stream_fence *mark = store->spares, *next; mark; mark = next) {
        next = mark->next;
        if (is_alive)
            CUSHIM_DRIVER(cuEventDestroy_v2)(mark->event);
        free(mark);
    }
    if (is_alive)
        cushim_call_end(&scope, CUSHIM_OK);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

/* ---- recording ---- */

/* The record was made, or refused. */
static enum cushim_status settle(struct cushim_stream_fence *mark, enum cushim_status status,
                                 struct cushim_stream_fence **out) {
    if (status != CUSHIM_OK) {
        cushim_stream_fence_release(mark);
        return status;
    }
    mark->moment = cushim_stream_fence_moment(mark->context);
    *out = mark;
    return CUSHIM_OK;
}

enum cushim_status cushim_stream_fence_record(struct cushim_scope *scope, CUstream stream,
                                              struct cushim_stream_fence **out) {
    struct cushim_stream_fence *mark;
    *out = NULL;
    bool is_legacy = !stream || stream == CU_STREAM_LEGACY;
    CUSHIM_TRY(is_legacy ? cushim_capture_refuse(scope)
                         : cushim_capture_refuse_stream(scope, stream));
    CUSHIM_TRY(obtain(scope, true, &mark));
    return settle(mark, CUSHIM_CALL(scope, cuEventRecord, mark->event, stream), out);
}

/* No capture begins meanwhile: the record would invalidate it. */
static enum cushim_status record_all(struct cushim_scope *scope,
                                     const struct cushim_stream_fence *mark) {
    CUSHIM_TRY(cushim_capture_fence_enter(scope));
    enum cushim_status status =
        CUSHIM_CALL(scope, cuCtxRecordEvent, scope->context->handle, mark->event);
    cushim_capture_fence_leave(scope);
    return status;
}

enum cushim_status cushim_stream_fence_record_all(struct cushim_scope *scope,
                                                  struct cushim_stream_fence **out) {
    struct cushim_stream_fence *mark;
    bool has_event = CUSHIM_DRIVER(cuCtxRecordEvent) != NULL;
    *out = NULL;
    CUSHIM_TRY(cushim_capture_refuse(scope));
    CUSHIM_TRY(obtain(scope, has_event, &mark));
    return settle(mark, has_event ? record_all(scope, mark) : CUSHIM_OK, out);
}

/* ---- completion ---- */

/* An event is asked in relaxed mode: a capture of another thread may be open by now. */
static CUresult query(const struct cushim_stream_fence *mark) {
    CUstreamCaptureMode mode = cushim_capture_relax();
    CUresult result = CUSHIM_DRIVER(cuEventQuery)(mark->event);
    cushim_capture_back(mode);
    return result;
}

bool cushim_stream_fence_is_complete(struct cushim_stream_fence *mark) {
    if (atomic_load_explicit(&mark->is_over, memory_order_acquire))
        return true;
    bool is_over = cushim_context_is_dead(mark->context) ||
                   cushim_stream_fence_is_past(mark->context, mark->moment);
    if (!is_over && mark->event) {
        CUresult result = query(mark);
        is_over = result == CUDA_SUCCESS;
        if (!is_over && result != CUDA_ERROR_NOT_READY) {
            cushim_context_note(mark->context, "cuEventQuery", result);
            is_over = cushim_status_from_cu(result) != CUSHIM_CAPTURE;
        }
    }
    if (is_over)
        atomic_store_explicit(&mark->is_over, true, memory_order_release);
    return is_over;
}

/* Without an event: for the whole context, which must be current. */
static enum cushim_status synchronise(struct cushim_scope *scope) {
    CUSHIM_TRY(cushim_capture_refuse(scope));
    uint64_t begun = cushim_stream_fence_sync_begin(scope->context);
    CUSHIM_TRY(
        CUSHIM_DRIVER(cuCtxSynchronize)
            ? cushim_scope_answer(scope, "cuCtxSynchronize", CUSHIM_DRIVER(cuCtxSynchronize)())
            : cushim_fail_nosym(scope->what, "cuCtxSynchronize"));
    cushim_stream_fence_sync_end(scope->context, begun);
    return CUSHIM_OK;
}

static enum cushim_status synchronise_in(struct cushim_scope *scope,
                                         struct cushim_context_object *context) {
    struct cushim_scope inner;
    CUSHIM_TRY(cushim_call_begin_known(&inner, scope->what, context));
    return cushim_call_end(&inner, synchronise(&inner));
}

enum cushim_status cushim_stream_fence_wait(struct cushim_scope *scope,
                                            struct cushim_stream_fence *mark) {
    for (int i = 0; i < POLLS; i++) {
        if (cushim_stream_fence_is_complete(mark))
            return CUSHIM_OK;
        if (!mark->event)
            return synchronise_in(scope, mark->context);
    }
    CUstreamCaptureMode mode = cushim_capture_relax();
    CUresult result = CUSHIM_DRIVER(cuEventSynchronize)(mark->event);
    cushim_capture_back(mode);
    if (result == CUDA_SUCCESS || cushim_context_is_dead(mark->context)) {
        atomic_store_explicit(&mark->is_over, true, memory_order_release);
        return CUSHIM_OK;
    }
    return cushim_scope_answer(scope, "cuEventSynchronize", result);
}

enum cushim_status cushim_stream_fence_order(struct cushim_scope *scope,
                                             struct cushim_stream_fence *mark, CUstream stream) {
    if (cushim_stream_fence_is_complete(mark))
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_capture_refuse_stream(scope, stream));
    return mark->event ? CUSHIM_CALL(scope, cuStreamWaitEvent, stream, mark->event, 0)
                       : cushim_stream_fence_wait(scope, mark);
}

/* ---- moments ---- */

bool cushim_stream_fence_is_past(struct cushim_context_object *context, uint64_t moment) {
    struct cushim_stream_fences *store =
        atomic_load_explicit(&context->marks, memory_order_acquire);
    return store && moment <= atomic_load_explicit(&store->done, memory_order_acquire);
}

uint64_t cushim_stream_fence_sync_begin(struct cushim_context_object *context) {
    struct cushim_stream_fences *store = cushim_stream_fences_of(context);
    /* Who reads the old value submitted before this; the wait comes after it. */
    return store ? atomic_fetch_add(&store->open, 1) : 0;
}

void cushim_stream_fence_sync_end(struct cushim_context_object *context, uint64_t begun) {
    struct cushim_stream_fences *store =
        atomic_load_explicit(&context->marks, memory_order_acquire);
    uint_fast64_t done = store ? atomic_load(&store->done) : UINT64_MAX;
    while (done < begun && !atomic_compare_exchange_weak(&store->done, &done, begun)) {
    }
}

/* ---- users ---- */

void cushim_stream_fence_add_user(struct cushim_stream_fence_user *user) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    struct cushim_stream_fence_user *first = atomic_load_explicit(&users, memory_order_relaxed),
                                    *at;
    for (at = first; at && at != user; at = at->next) {
    }
    if (!at) {
        user->next = first;
        atomic_store_explicit(&users, user, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

void cushim_stream_fence_stream_goes(struct cushim_scope *scope, CUstream stream) {
    struct cushim_stream_fence_user *user = atomic_load_explicit(&users, memory_order_acquire);
    for (; user; user = user->next)
        user->stream_goes(scope, stream);
}

void cushim_stream_fence_stream_done(struct cushim_scope *scope, CUstream stream, uint64_t begun) {
    struct cushim_stream_fence_user *user = atomic_load_explicit(&users, memory_order_acquire);
    for (; user; user = user->next) {
        if (user->stream_done)
            user->stream_done(scope, stream, begun);
    }
}
