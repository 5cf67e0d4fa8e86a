#include "memory/fence.h"

#include <string.h>

#include "base/clock.h"
#include "cuda/translate.h"
#include "memory/current.h"

/* One recorded event of one fence, while it is waited for. */
struct record {
    struct cushim_mem_fence *fence;
    CUevent event;
    unsigned life; /* of the fence, when the event was taken */
};

void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context) {
    unsigned flags = 0;
    if (!fence->cuda) /* a first life: a lock is never made twice */
        pthread_mutex_init(&fence->lock, NULL);
    fence->cuda = cuda;
    fence->context = context;
    fence->event_flags = CU_EVENT_DISABLE_TIMING;
    if (cuda->cuCtxGetFlags && cuda->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
        (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
        fence->event_flags |= CU_EVENT_BLOCKING_SYNC;
}

void cushim_mem_fence_abandon(struct cushim_mem_fence *fence) {
    pthread_mutex_lock(&fence->lock);
    fence->n_spares = 0;
    fence->life++;
    pthread_mutex_unlock(&fence->lock);
    for (unsigned i = 0; i < CUSHIM_MEM_FENCE_LINKS; i++)
        atomic_store_explicit(&fence->links[i], NULL, memory_order_relaxed);
    atomic_store_explicit(&fence->is_flooded, false, memory_order_relaxed);
}

void cushim_mem_fence_link(struct cushim_mem_fence *fence, struct cushim_mem_fence *other) {
    if (other == fence)
        return;
    for (unsigned i = 0; i < CUSHIM_MEM_FENCE_LINKS; i++) {
        struct cushim_mem_fence *seen =
            atomic_load_explicit(&fence->links[i], memory_order_acquire);
        if (seen == other)
            return;
        if (!seen && atomic_compare_exchange_strong(&fence->links[i], &seen, other))
            return;
        if (seen == other) /* another thread linked it a moment ago */
            return;
    }
    atomic_store_explicit(&fence->is_flooded, true, memory_order_release);
}

void cushim_mem_fence_unlink(struct cushim_mem_fence *fence, const struct cushim_mem_fence *other) {
    for (unsigned i = 0; i < CUSHIM_MEM_FENCE_LINKS; i++) {
        struct cushim_mem_fence *seen =
            atomic_load_explicit(&fence->links[i], memory_order_acquire);
        if (seen == other)
            atomic_store_explicit(&fence->links[i], NULL, memory_order_release);
    }
}

static CUresult event_obtain(struct cushim_mem_fence *fence, CUevent *event, unsigned *life) {
    *event = NULL;
    pthread_mutex_lock(&fence->lock);
    if (fence->n_spares)
        *event = fence->spares[--fence->n_spares];
    *life = fence->life;
    pthread_mutex_unlock(&fence->lock);
    if (*event)
        return CUDA_SUCCESS;
    CUresult answer;
    bool has_entered = cushim_mem_current_enter(fence->cuda, fence->context, &answer);
    if (answer == CUDA_SUCCESS)
        answer = fence->cuda->cuEventCreate(event, fence->event_flags);
    if (has_entered)
        cushim_mem_current_leave(fence->cuda);
    return answer;
}

static void event_release(struct cushim_mem_fence *fence, CUevent event, unsigned life) {
    pthread_mutex_lock(&fence->lock);
    bool is_gone = fence->life != life; /* its context went, and the event with it */
    bool is_kept = !is_gone && fence->n_spares < CUSHIM_MEM_FENCE_SPARES;
    if (is_kept)
        fence->spares[fence->n_spares++] = event;
    pthread_mutex_unlock(&fence->lock);
    if (!is_kept && !is_gone)
        fence->cuda->cuEventDestroy_v2(event);
}

/* Native's own barrier: the free of a small allocation, which waits for the whole context. */
static CUresult barrier(struct cushim_mem_fence *fence, bool is_relaxed) {
    struct cushim_cuda *cuda = fence->cuda;
    CUdeviceptr dummy = 0;
    CUresult answer;
    bool has_entered = cushim_mem_current_enter(cuda, fence->context, &answer);
    if (answer != CUDA_SUCCESS)
        return answer;
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(cuda);
    answer = cuda->cuMemAlloc_v2(&dummy, 1);
    if (answer == CUDA_SUCCESS && is_relaxed) {
        answer = cuda->cuMemFree_v2(dummy);
        cushim_mem_mode_back(cuda, mode);
    } else if (answer == CUDA_SUCCESS) {
        /* as the caller would meet it: natively this free fails and invalidates the capture */
        cushim_mem_mode_back(cuda, mode);
        answer = cuda->cuMemFree_v2(dummy);
        if (answer != CUDA_SUCCESS) {
            mode = cushim_mem_mode_relaxed(cuda);
            cuda->cuMemFree_v2(dummy);
            cushim_mem_mode_back(cuda, mode);
        }
    } else {
        cushim_mem_mode_back(cuda, mode);
    }
    if (has_entered)
        cushim_mem_current_leave(cuda);
    return answer;
}

/* The i-th of the fences that a wait covers: itself, then its links.  NULL where a link went away.
 */
static struct cushim_mem_fence *covered(struct cushim_mem_fence *fence, unsigned i) {
    return i ? atomic_load_explicit(&fence->links[i - 1], memory_order_acquire) : fence;
}

static CUresult barrier_all(struct cushim_mem_fence *fence, bool is_relaxed) {
    CUresult answer = CUDA_SUCCESS;
    for (unsigned i = 0; i <= CUSHIM_MEM_FENCE_LINKS && answer == CUDA_SUCCESS; i++) {
        struct cushim_mem_fence *each = covered(fence, i);
        if (each)
            answer = barrier(each, is_relaxed || i);
    }
    return answer;
}

/* Before driver 12.5: the whole context, without an event. */
static CUresult synchronise(struct cushim_mem_fence *fence) {
    CUresult answer;
    bool has_entered = cushim_mem_current_enter(fence->cuda, fence->context, &answer);
    if (answer == CUDA_SUCCESS)
        answer = fence->cuda->cuCtxSynchronize();
    if (has_entered)
        cushim_mem_current_leave(fence->cuda);
    return answer;
}

static CUresult synchronise_all(struct cushim_mem_fence *fence) {
    CUresult answer = CUDA_SUCCESS;
    for (unsigned i = 0; i <= CUSHIM_MEM_FENCE_LINKS && answer == CUDA_SUCCESS; i++) {
        struct cushim_mem_fence *each = covered(fence, i);
        if (each)
            answer = synchronise(each);
    }
    return answer;
}

/* The fence and its links, all recorded before any of them is waited for. */
static CUresult record_all(struct cushim_mem_fence *fence, struct record *records,
                           unsigned *n_records) {
    CUresult answer = CUDA_SUCCESS;
    *n_records = 0;
    for (unsigned i = 0; i <= CUSHIM_MEM_FENCE_LINKS && answer == CUDA_SUCCESS; i++) {
        struct cushim_mem_fence *each = covered(fence, i);
        if (!each)
            continue;
        struct record *record = &records[*n_records];
        record->fence = each;
        answer = event_obtain(each, &record->event, &record->life);
        if (answer != CUDA_SUCCESS)
            break;
        ++*n_records;
        answer = each->cuda->cuCtxRecordEvent(each->context, record->event);
    }
    return answer;
}

static void release_all(const struct record *records, unsigned n_records) {
    for (unsigned i = 0; i < n_records; i++)
        event_release(records[i].fence, records[i].event, records[i].life);
}

/* The first record that is not done yet, or the first that failed; n_records where all are done. */
static unsigned first_busy(const struct record *records, unsigned n_records, CUresult *answer) {
    for (unsigned i = 0; i < n_records; i++) {
        *answer = records[i].fence->cuda->cuEventQuery(records[i].event);
        if (*answer != CUDA_SUCCESS)
            return i;
    }
    *answer = CUDA_SUCCESS;
    return n_records;
}

/* Poll for about as long as a short kernel takes, then sleep as the context's flags say. */
static CUresult wait_one(const struct record *record) {
    enum { POLLS = 200 };
    struct cushim_cuda *cuda = record->fence->cuda;
    CUresult answer = CUDA_ERROR_NOT_READY;
    for (int i = 0; i < POLLS && answer == CUDA_ERROR_NOT_READY; i++)
        answer = cuda->cuEventQuery(record->event);
    return answer == CUDA_ERROR_NOT_READY ? cuda->cuEventSynchronize(record->event) : answer;
}

static void count_wait(struct cushim_mem_stats *stats, uint64_t start_ns) {
    cushim_mem_stats_add(&stats->n_waits, 1);
    cushim_mem_stats_add(&stats->wait_ns, cushim_clock_ns() - start_ns);
}

static CUresult wait_all(struct cushim_mem_fence *fence, const struct record *records,
                         unsigned n_records, struct cushim_mem_stats *stats) {
    uint64_t start_ns = cushim_clock_ns();
    CUresult answer = CUDA_SUCCESS;
    /* a capture may have begun since the record: queries and waits under RELAXED leave it valid */
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(fence->cuda);
    for (unsigned i = 0; i < n_records && answer == CUDA_SUCCESS; i++)
        answer = wait_one(&records[i]);
    cushim_mem_mode_back(fence->cuda, mode);
    count_wait(stats, start_ns);
    return answer;
}

static bool is_about_captures(CUresult answer) {
    return answer >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           answer <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* A wait in the making: who is waited for, and whether others join. */
struct attempt {
    struct cushim_mem_fence *fence;
    const struct cushim_mem_gate *gate;
    struct cushim_mem_stats *stats;
    bool is_shared; /* this thread leads, for the arrivals of `batch` */
    uint64_t batch;
    bool has_waited; /* the lead was passed on */
};

/* What follows may block: whoever arrives now must not wait for its end. */
static void pass_the_lead(struct attempt *attempt) {
    if (attempt->is_shared && !attempt->has_waited)
        cushim_mem_sharing_waits(&attempt->fence->sharing, attempt->batch);
    attempt->has_waited = true;
}

static CUresult record_and_wait(struct attempt *attempt) {
    struct cushim_mem_fence *fence = attempt->fence;
    struct record records[CUSHIM_MEM_FENCE_LINKS + 1];
    unsigned n_records = 0;
    CUresult answer = CUDA_SUCCESS;
    if (!fence->cuda->cuCtxRecordEvent) {
        /* the gate stays closed: a begin would meet the synchronise, which invalidates it as well
         */
        pass_the_lead(attempt);
        answer = synchronise_all(fence);
        attempt->gate->leave();
        return answer;
    }
    answer = record_all(fence, records, &n_records);
    if (answer == CUDA_SUCCESS)
        first_busy(records, n_records, &answer);
    attempt->gate->leave();
    if (answer == CUDA_ERROR_NOT_READY) {
        pass_the_lead(attempt);
        answer = wait_all(fence, records, n_records, attempt->stats);
    }
    release_all(records, n_records);
    return answer;
}

static CUresult try_to_wait(struct attempt *attempt) {
    struct cushim_mem_fence *fence = attempt->fence;
    enum cushim_mem_pass pass = attempt->gate->enter();
    if (pass == CUSHIM_MEM_PASS_RECORD && atomic_load(&fence->is_flooded)) {
        attempt->gate->leave();
        pass = CUSHIM_MEM_PASS_RELAXED;
    }
    if (pass == CUSHIM_MEM_PASS_RECORD) {
        CUresult answer = record_and_wait(attempt);
        if (!is_about_captures(answer))
            return answer;
        pass = CUSHIM_MEM_PASS_RELAXED; /* a capture that no hook of ours saw begin */
    }
    pass_the_lead(attempt);
    return barrier_all(fence, pass == CUSHIM_MEM_PASS_RELAXED);
}

/* Somebody else's wait covered this thread, or it led one for all that had arrived. */
static CUresult wait_together(struct attempt *attempt) {
    struct cushim_mem_sharing *sharing = &attempt->fence->sharing;
    uint64_t busy_since_ns;
    uint64_t arrival = cushim_mem_sharing_arrive(sharing);
    attempt->is_shared = cushim_mem_sharing_lead(sharing, arrival, &attempt->batch, &busy_since_ns);
    if (!attempt->is_shared) {
        if (busy_since_ns)
            count_wait(attempt->stats, busy_since_ns);
        return CUDA_SUCCESS;
    }
    CUresult answer = try_to_wait(attempt);
    cushim_mem_sharing_ends(sharing, attempt->batch, attempt->has_waited, answer == CUDA_SUCCESS);
    return answer;
}

enum cushim_status cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                         const struct cushim_mem_gate *gate,
                                         struct cushim_mem_stats *stats, CUresult *answer) {
    struct attempt attempt = {.fence = fence, .gate = gate, .stats = stats};
    /* while a capture is open a thread's own answer may be native's refusal: nothing is shared then
     */
    *answer = gate->is_open() ? try_to_wait(&attempt) : wait_together(&attempt);
    return cushim_status_from_cu(*answer);
}
