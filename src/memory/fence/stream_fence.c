#include "memory/fence/stream_fence.h"

#include "base/try.h"

enum cushim_status cushim_mem_stream_fence_enter(struct cushim_mem_fence *fence,
                                                 struct cushim_cuda **entered) {
    CUresult answer;
    if (!fence->host->is_usable(fence))
        return CUSHIM_DEADCONTEXT;
    *entered = cushim_current_context_enter(fence->cuda, atomic_load(&fence->context), &answer);
    return fence->host->answer(fence, "cuCtxPushCurrent", answer, false);
}

void cushim_mem_stream_fence_end(struct cushim_mem_fence *fence) {
    while (fence->n_spares)
        fence->cuda->cuEventDestroy_v2(fence->spares[--fence->n_spares]);
}

void cushim_mem_stream_fence_release(struct cushim_mem_stream_fence *stream_fence) {
    if (cushim_mem_stream_fence_is_some(stream_fence))
        cushim_mem_record_release(&stream_fence->record);
    stream_fence->record.fence = NULL;
}

/* ---- recording ---- */

/* Record the whole context.  No capture begins meanwhile, because the record would invalidate it.
 */
static enum cushim_status record_all(struct cushim_mem_fence *fence, const char *what,
                                     struct cushim_mem_record *record, CUresult *answer) {
    CUSHIM_TRY(fence->host->enter(fence, what));
    if (fence->cuda->cuCtxRecordEvent)
        *answer = cushim_mem_record_make(record, fence, NULL);
    fence->host->leave(fence);
    return CUSHIM_OK;
}

enum cushim_status cushim_mem_stream_fence_record(struct cushim_mem_fence *fence, const char *what,
                                                  const CUstream *stream,
                                                  struct cushim_mem_stream_fence *out) {
    struct cushim_mem_record record = {0};
    CUresult answer = CUDA_SUCCESS;
    *out = (struct cushim_mem_stream_fence){0};
    CUSHIM_TRY(stream ? fence->host->refuse(fence, what, stream)
                      : record_all(fence, what, &record, &answer));
    if (stream)
        answer = cushim_mem_record_make(&record, fence, stream);
    CUSHIM_TRY(
        fence->host->answer(fence, stream ? "cuEventRecord" : "cuCtxRecordEvent", answer, false));
    record.fence = fence;
    *out = (struct cushim_mem_stream_fence){record, cushim_mem_fence_tag(fence)};
    return CUSHIM_OK;
}

/* ---- completion ---- */

/* Query or wait in relaxed mode, because a capture of another thread may be open by now. */
static CUresult ask(const struct cushim_mem_record *record,
                    CUresult (*call)(const struct cushim_mem_record *)) {
    return CUSHIM_IN_RELAXED(record->fence->cuda, call(record));
}

bool cushim_mem_stream_fence_is_complete(struct cushim_mem_stream_fence *stream_fence) {
    struct cushim_mem_fence *fence = stream_fence->record.fence;
    bool is_over =
        stream_fence->epoch <= cushim_mem_fence_done(fence) || cushim_mem_fence_is_gone(fence);
    if (!is_over && stream_fence->record.event) {
        CUresult answer = ask(&stream_fence->record, cushim_mem_record_query);
        is_over = answer == CUDA_SUCCESS;
        if (!is_over && answer != CUDA_ERROR_NOT_READY)
            is_over = fence->host->answer(fence, "cuEventQuery", answer, true) != CUSHIM_CAPTURE;
    }
    if (is_over)
        stream_fence->epoch = 0;
    return is_over;
}

bool cushim_mem_stream_fence_is_quiet(struct cushim_mem_fence *fence) {
    struct cushim_mem_stream_fence stream_fence;
    bool is_quiet = cushim_mem_stream_fence_record(fence, NULL, NULL, &stream_fence) == CUSHIM_OK &&
                    cushim_mem_stream_fence_is_complete(&stream_fence);
    cushim_mem_stream_fence_release(&stream_fence);
    return is_quiet;
}

enum cushim_status cushim_mem_stream_fence_wait_all(struct cushim_mem_fence *fence) {
    uint64_t epoch = cushim_mem_fence_close(fence);
    CUSHIM_TRY(
        fence->host->answer(fence, "cuCtxSynchronize", fence->cuda->cuCtxSynchronize(), false));
    cushim_mem_fence_complete(fence, epoch);
    return CUSHIM_OK;
}

/* Wait for the whole context, for a stream fence without an event. */
static enum cushim_status wait_for_context(struct cushim_mem_fence *fence, const char *what) {
    CUSHIM_ENTERED entered = NULL;
    CUSHIM_TRY(cushim_mem_stream_fence_enter(fence, &entered));
    CUSHIM_TRY(fence->host->refuse(fence, what, NULL));
    return cushim_mem_stream_fence_wait_all(fence);
}

enum cushim_status cushim_mem_stream_fence_wait(struct cushim_mem_stream_fence *stream_fence,
                                                const char *what) {
    struct cushim_mem_fence *fence = stream_fence->record.fence;
    if (cushim_mem_stream_fence_is_complete(stream_fence))
        return CUSHIM_OK;
    if (!stream_fence->record.event)
        return wait_for_context(fence, what);
    CUresult answer = ask(&stream_fence->record, cushim_mem_record_wait);
    if (answer != CUDA_SUCCESS && !cushim_mem_fence_is_gone(fence))
        return fence->host->answer(fence, "cuEventSynchronize", answer, false);
    stream_fence->epoch = 0;
    return CUSHIM_OK;
}

enum cushim_status cushim_mem_stream_fence_order(struct cushim_mem_stream_fence *stream_fence,
                                                 struct cushim_mem_fence *fence, const char *what,
                                                 CUstream stream) {
    if (cushim_mem_stream_fence_is_complete(stream_fence))
        return CUSHIM_OK;
    CUSHIM_TRY(fence->host->refuse(fence, what, &stream));
    return stream_fence->record.event
               ? fence->host->order(fence, stream, stream_fence->record.event)
               : cushim_mem_stream_fence_wait(stream_fence, what);
}
