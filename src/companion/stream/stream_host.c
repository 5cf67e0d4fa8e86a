#include "companion/stream/stream_host.h"

#include <string.h>

#include "cuda/translate.h"
#include "companion/capture/known_captures.h"
#include "memory/stream_heap.h"

/* ---- what the engine asks ---- */

static struct cushim_scope scope_of(struct cushim_mem_fence *fence, const char *what) {
    return (struct cushim_scope){.what = what, .context = cushim_context_of_fence(fence)};
}

static bool is_usable(struct cushim_mem_fence *fence) {
    return cushim_driver_is_ready() && !cushim_context_is_dead(cushim_context_of_fence(fence));
}

static bool is_of_legacy_stream(const CUstream *stream) {
    return !*stream || *stream == CU_STREAM_LEGACY;
}

static enum cushim_status refuse(struct cushim_mem_fence *fence, const char *what,
                                 const CUstream *stream) {
    struct cushim_scope scope = scope_of(fence, what);
    bool is_whole = !stream || is_of_legacy_stream(stream);
    if (what)
        return is_whole ? cushim_capture_refuse(&scope)
                        : cushim_capture_refuse_stream(&scope, *stream);
    bool is_captured =
        is_whole ? cushim_capture_count(scope.context) != 0 : cushim_capture_has(*stream);
    return is_captured ? CUSHIM_CAPTURE : CUSHIM_OK;
}

/* Around a record over the whole context, because it would invalidate a capture there: until the
 * leave no capture begins through us (cushim_capture_begin). */
static void leave(struct cushim_mem_fence *fence) {
    struct cushim_context_object *context = cushim_context_of_fence(fence);
    if (atomic_fetch_sub(&context->n_fencing, 1) == 1 && atomic_load(&context->n_captures))
        cushim_futex_wake(&context->n_fencing);
}

static enum cushim_status enter(struct cushim_mem_fence *fence, const char *what) {
    atomic_fetch_add(&cushim_context_of_fence(fence)->n_fencing, 1);
    enum cushim_status status = refuse(fence, what, NULL);
    if (status != CUSHIM_OK)
        leave(fence);
    return status;
}

static enum cushim_status answer(struct cushim_mem_fence *fence, const char *entry, CUresult result,
                                 bool is_quiet) {
    struct cushim_scope scope = scope_of(fence, NULL);
    if (result == CUDA_SUCCESS)
        return CUSHIM_OK;
    if (result == CUDA_ERROR_INVALID_CONTEXT && !strcmp(entry, "cuCtxPushCurrent"))
        cushim_context_bury(scope.context); /* destroyed by others */
    if (!is_quiet)
        return cushim_scope_answer(&scope, entry, result);
    cushim_context_note(scope.context, entry, result);
    return cushim_status_from_cu(result);
}

static enum cushim_status order(struct cushim_mem_fence *fence, CUstream stream, CUevent event) {
    struct cushim_scope scope = scope_of(fence, "cuStreamWaitEvent");
    return CUSHIM_CALL(&scope, cuStreamWaitEvent, stream, event, 0);
}

static void keep(struct cushim_mem_fence *fence) {
    cushim_object_keep(cushim_context_of_fence(fence));
}

static void let_go(struct cushim_mem_fence *fence) {
    cushim_object_release(cushim_context_of_fence(fence));
}

const struct cushim_mem_stream_host cushim_stream_host = {
    .is_usable = is_usable,
    .refuse = refuse,
    .enter = enter,
    .leave = leave,
    .answer = answer,
    .order = order,
    .is_quiet = cushim_mem_stream_fence_is_quiet,
    .keep = keep,
    .let_go = let_go,
};

/* ---- what the engine learns of streams ---- */

void cushim_stream_host_done(struct cushim_scope *scope, CUstream stream, uint64_t begun) {
    cushim_mem_streams_note(&scope->context->fence, stream == CU_STREAM_LEGACY ? NULL : stream,
                            begun);
}

/* If a wrapper of a default stream goes, the stream and its caches stay. */
void cushim_stream_host_goes(struct cushim_scope *scope, CUstream stream) {
    if (is_of_legacy_stream(&stream) || stream == CU_STREAM_PER_THREAD)
        cushim_changes_note();
    cushim_stream_host_done(scope, stream, 0);
}
