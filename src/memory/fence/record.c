#include "memory/fence/record.h"

#include "base/lock.h"
#include "cuda/current_context.h"
#include "memory/fence/fence.h"

static CUresult event_create(const struct cushim_mem_fence *fence, CUcontext context,
                             CUevent *event) {
    CUresult answer;
    CUSHIM_ENTERED entered = cushim_current_context_enter(fence->cuda, context, &answer);
    if (answer == CUDA_SUCCESS)
        answer =
            CUSHIM_IN_RELAXED(fence->cuda, fence->cuda->cuEventCreate(event, fence->event_flags));
    return answer;
}

static bool is_gone(const struct cushim_mem_record *record) {
    return atomic_load(&record->fence->life) != record->life;
}

static CUevent take_spare(struct cushim_mem_fence *fence, unsigned life) {
    CUevent event = NULL;
    CUSHIM_LOCKED(&fence->lock);
    if (atomic_load(&fence->life) == life && fence->n_spares)
        event = fence->spares[--fence->n_spares];
    return event;
}

CUresult cushim_mem_record_make(struct cushim_mem_record *record, struct cushim_mem_fence *fence,
                                const CUstream *stream) {
    CUresult answer = CUDA_SUCCESS;
    unsigned life = atomic_load(&fence->life);
    CUevent event = record->life == life ? record->event : NULL; /* if not, it went with its
                                                                  * context */
    *record = (struct cushim_mem_record){.fence = fence, .event = event, .life = life};
    CUcontext context = atomic_load(&fence->context);
    if (!context || is_gone(record)) { /* the context went a moment ago */
        record->event = NULL;
        return CUDA_SUCCESS;
    }
    if (!record->event)
        record->event = take_spare(fence, life);
    if (!record->event)
        answer = event_create(fence, context, &record->event);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = stream ? fence->cuda->cuEventRecord(record->event, *stream)
                    : fence->cuda->cuCtxRecordEvent(context, record->event);
    if (answer != CUDA_SUCCESS)
        cushim_mem_record_release(record);
    return answer;
}

void cushim_mem_record_release(struct cushim_mem_record *record) {
    struct cushim_mem_fence *fence = record->fence;
    CUevent event = record->event;
    if (!event)
        return;
    record->event = NULL;
    pthread_mutex_lock(&fence->lock);
    bool was_lost = is_gone(record); /* its context went, and the event with it */
    bool is_kept = !was_lost && fence->n_spares < CUSHIM_MEM_FENCE_SPARES;
    if (is_kept)
        fence->spares[fence->n_spares++] = event;
    pthread_mutex_unlock(&fence->lock);
    if (!is_kept && !was_lost)
        fence->cuda->cuEventDestroy_v2(event);
}

/* The driver's answer about the event, unless its context went meanwhile. */
static CUresult ask(const struct cushim_mem_record *record, CUresult (*call)(CUevent)) {
    if (!record->event || is_gone(record))
        return CUDA_SUCCESS;
    CUresult answer = call(record->event);
    return answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_READY || !is_gone(record)
               ? answer
               : CUDA_SUCCESS;
}

CUresult cushim_mem_record_query(const struct cushim_mem_record *record) {
    return ask(record, record->fence->cuda->cuEventQuery);
}

CUresult cushim_mem_record_synchronise(const struct cushim_mem_record *record) {
    return ask(record, record->fence->cuda->cuEventSynchronize);
}

CUresult cushim_mem_record_wait(const struct cushim_mem_record *record) {
    enum { POLLS = 200 };
    CUresult answer = CUDA_ERROR_NOT_READY;
    for (int i = 0; i < POLLS && answer == CUDA_ERROR_NOT_READY; i++)
        answer = cushim_mem_record_query(record);
    return answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_READY
               ? cushim_mem_record_synchronise(record)
               : answer;
}

/* ---- the barrier ---- */

/* The memory that is freed for the wait, because the free of any kind of memory waits for the
 * context. */
struct dummy {
    CUdeviceptr device;
    void *pinned; /* if the device is full */
};

static CUresult obtain_dummy(struct cushim_cuda *cuda, struct dummy *dummy) {
    *dummy = (struct dummy){0};
    CUresult answer = cuda->cuMemAlloc_v2(&dummy->device, 1);
    if (answer == CUDA_ERROR_OUT_OF_MEMORY && cuda->cuMemHostAlloc && cuda->cuMemFreeHost)
        answer = cuda->cuMemHostAlloc(&dummy->pinned, 1, 0);
    return answer;
}

static CUresult release_dummy(struct cushim_cuda *cuda, const struct dummy *dummy) {
    return dummy->pinned ? cuda->cuMemFreeHost(dummy->pinned) : cuda->cuMemFree_v2(dummy->device);
}

/* As without cushim: this free fails and invalidates the capture. */
static CUresult release_in_own_capture(struct cushim_cuda *cuda, const struct dummy *dummy) {
    CUresult answer = release_dummy(cuda, dummy);
    if (answer != CUDA_SUCCESS)
        (void)CUSHIM_IN_RELAXED(cuda, release_dummy(cuda, dummy));
    return answer;
}

CUresult cushim_mem_barrier_pass(struct cushim_mem_fence *fence, bool is_relaxed) {
    struct cushim_cuda *cuda = fence->cuda;
    struct dummy dummy;
    CUresult answer;
    CUcontext context = atomic_load(&fence->context);
    if (!context) /* the context went a moment ago */
        return CUDA_SUCCESS;
    CUSHIM_ENTERED entered = cushim_current_context_enter(cuda, context, &answer);
    if (answer != CUDA_SUCCESS)
        return answer;
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    answer = obtain_dummy(cuda, &dummy);
    if (answer == CUDA_SUCCESS && is_relaxed)
        answer = release_dummy(cuda, &dummy);
    cushim_mode_back(cuda, mode);
    return answer == CUDA_SUCCESS && !is_relaxed ? release_in_own_capture(cuda, &dummy) : answer;
}
