#include "memory/fence/fence.h"

#include "base/clock.h"
#include "cuda/translate.h"
#include "cuda/table.h"
#include "memory/fence/barrier.h"
#include "memory/current_context.h"

struct cushim_mem_launches cushim_mem_launches = {.round = 1};

_Thread_local struct cushim_mem_waits cushim_mem_waits_of_thread
    __attribute__((tls_model("initial-exec")));

void cushim_mem_waits_count(struct cushim_mem_stats *stats, uint64_t start_ns) {
    uint64_t ns = cushim_mem_stats_add_time(stats, &stats->wait_ns, start_ns);
    cushim_mem_stats_add(&stats->n_waits, 1);
    cushim_mem_waits_of_thread.n++;
    cushim_mem_waits_of_thread.ns += ns;
}

void cushim_mem_fence_begin(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                            CUcontext context) {
    if (!fence->cuda) /* a first life: a lock is never made twice */
        pthread_mutex_init(&fence->lock, NULL);
    fence->cuda = cuda;
    fence->event_flags = CU_EVENT_DISABLE_TIMING;
    cushim_mem_epochs_begin(&fence->epochs);
    atomic_store(&fence->context, context);
}

void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context) {
    unsigned flags = 0;
    cushim_mem_fence_begin(fence, cuda, context);
    if (cuda->cuCtxGetFlags && cuda->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
        (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
        fence->event_flags |= CU_EVENT_BLOCKING_SYNC;
}

void cushim_mem_fence_abandon(struct cushim_mem_fence *fence) {
    pthread_mutex_lock(&fence->lock);
    fence->n_spares = 0;
    atomic_fetch_add(&fence->life, 1);
    atomic_store(&fence->context, NULL);
    pthread_mutex_unlock(&fence->lock);
    cushim_mem_epochs_end(&fence->epochs);
}

static CUresult wait_on(const struct cushim_mem_record *record, struct cushim_mem_stats *stats) {
    uint64_t start_ns = cushim_clock_ns();
    /* a capture may have begun since the record: queries and waits under RELAXED leave it valid */
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(record->fence->cuda);
    CUresult answer = cushim_mem_record_wait(record);
    cushim_mem_mode_back(record->fence->cuda, mode);
    cushim_mem_waits_count(stats, start_ns);
    return answer;
}

/* Of a leader: its own batch and those for others. */
enum { MOST_BATCHES = 16 };

/* A wait in the making: who is waited for, and whether others join. */
struct attempt {
    struct cushim_mem_fence *fence;
    const struct cushim_mem_capture_guard *gate;
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

/* A record, and the round of launches whose printf its wait brings out; 0: there is none. */
struct proof {
    struct cushim_mem_record record;
    uint64_t round;
};

/* The event of the lead, while it is this thread's. */
static struct cushim_mem_record_spare *spare_of(const struct attempt *attempt) {
    return attempt->is_shared && !attempt->has_waited ? &attempt->fence->lead_spare : NULL;
}

/* The gate is held, and left here. */
static inline __attribute__((always_inline)) CUresult record_and_ask(const struct attempt *attempt,
                                                                     struct proof *proof) {
    proof->round = cushim_mem_printed_is_due(&attempt->fence->printed);
    CUresult answer = cushim_mem_record_make(&proof->record, attempt->fence, spare_of(attempt));
    if (answer == CUDA_SUCCESS)
        answer = cushim_mem_record_query(&proof->record);
    if (answer == CUDA_SUCCESS && proof->round) /* a query brings nothing out */
        answer = cushim_mem_record_synchronise(&proof->record);
    attempt->gate->leave();
    return answer;
}

/* Behind the last question.  Returns `answer`, which is what it said. */
static CUresult end_proof(const struct attempt *attempt, struct proof *proof, CUresult answer) {
    if (answer == CUDA_SUCCESS && proof->round)
        cushim_mem_printed_up_to(&attempt->fence->printed, proof->round);
    cushim_mem_record_release(&proof->record, spare_of(attempt));
    return answer;
}

static CUresult record_and_wait(struct attempt *attempt) {
    struct proof proof;
    CUresult answer = record_and_ask(attempt, &proof);
    if (answer == CUDA_ERROR_NOT_READY) {
        pass_the_lead(attempt);
        answer = wait_on(&proof.record, attempt->stats);
    }
    return end_proof(attempt, &proof, answer);
}

static CUresult try_to_wait(struct attempt *attempt) {
    struct cushim_mem_fence *fence = attempt->fence;
    enum cushim_mem_pass pass = attempt->gate->enter();
    if (pass == CUSHIM_MEM_PASS_RECORD && !fence->cuda->cuCtxRecordEvent) {
        attempt->gate->leave(); /* the barrier leaves a capture that begins meanwhile valid */
        pass = CUSHIM_MEM_PASS_RELAXED;
    }
    if (pass == CUSHIM_MEM_PASS_RECORD) {
        CUresult answer = record_and_wait(attempt);
        if (!cushim_mem_fence_is_about_captures(answer))
            return answer;
        pass = CUSHIM_MEM_PASS_RELAXED; /* a capture that no hook of ours saw begin */
    }
    pass_the_lead(attempt);
    return cushim_mem_barrier_pass(fence, pass == CUSHIM_MEM_PASS_RELAXED);
}

/* Whether a record made now is done at once, so that nobody who arrived before it need wait. */
static __attribute__((noinline)) bool is_idle_now(const struct attempt *attempt) {
    struct proof proof;
    if (!attempt->fence->cuda->cuCtxRecordEvent || attempt->gate->enter() != CUSHIM_MEM_PASS_RECORD)
        return false;
    CUresult answer = record_and_ask(attempt, &proof);
    return end_proof(attempt, &proof, answer) == CUDA_SUCCESS;
}

/*
 * This thread is done, and keeps the lead for a while where others have come: with 16 threads on an
 * H200 a pair takes 1.9 us so, and 3.0 where the lead changes with each record.  What is no proof
 * at once they ask for themselves: it would be their work that this thread waits for.
 */
static void lead_on(struct attempt *attempt) {
    struct cushim_mem_sharing *sharing = &attempt->fence->sharing;
    bool is_good = true;
    for (unsigned n = 1;
         is_good && n < MOST_BATCHES && cushim_mem_sharing_next(sharing, &attempt->batch); n++)
        is_good = is_idle_now(attempt);
    cushim_mem_sharing_ends(sharing, attempt->batch, false, is_good);
}

/* Somebody else's wait covered this thread, or it led one for all that had arrived. */
static CUresult wait_together(struct attempt *attempt) {
    struct cushim_mem_sharing *sharing = &attempt->fence->sharing;
    uint64_t busy_since_ns;
    uint64_t arrival = cushim_mem_sharing_arrive(sharing);
    attempt->is_shared = cushim_mem_sharing_lead(sharing, arrival, &attempt->batch, &busy_since_ns);
    if (!attempt->is_shared) {
        if (busy_since_ns)
            cushim_mem_waits_count(attempt->stats, busy_since_ns);
        return CUDA_SUCCESS;
    }
    CUresult answer = try_to_wait(attempt);
    if (answer == CUDA_SUCCESS && !attempt->has_waited)
        lead_on(attempt);
    else
        cushim_mem_sharing_ends(sharing, attempt->batch, attempt->has_waited,
                                answer == CUDA_SUCCESS);
    return answer;
}

enum cushim_status cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                         const struct cushim_mem_capture_guard *gate,
                                         struct cushim_mem_stats *stats, CUresult *answer) {
    struct attempt attempt = {.fence = fence, .gate = gate, .stats = stats};
    /* while a capture is open a thread's own answer may be native's refusal: nothing is shared then
     */
    *answer = gate->is_open() ? try_to_wait(&attempt) : wait_together(&attempt);
    return *answer == CUDA_SUCCESS ? CUSHIM_OK : cushim_status_from_cu(*answer);
}
