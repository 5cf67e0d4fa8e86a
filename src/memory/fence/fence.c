#include "memory/fence/fence.h"

#include "base/futex.h"
#include "base/lock.h"
#include "cuda/current_context.h"
#include "cuda/translate.h"

struct cushim_mem_launches cushim_mem_launches = {.round = 1};

_Thread_local struct cushim_mem_waits cushim_mem_waits_of_thread
    __attribute__((tls_model("initial-exec")));

void cushim_mem_waits_count(struct cushim_mem_stats *stats, uint64_t start_ns) {
    uint64_t ns = cushim_mem_stats_add_time(stats, &stats->wait_ns, start_ns);
    cushim_mem_stats_add(&stats->n_waits, 1);
    cushim_mem_waits_of_thread.n++;
    cushim_mem_waits_of_thread.ns += ns;
}

/* For a host that makes its own records: this fence makes none, and only has the driver's
 * barrier. */
static bool is_never_open(void) {
    return false;
}

static enum cushim_mem_pass enter_nowhere(void) {
    return CUSHIM_MEM_PASS_RELAXED;
}

static void leave_nowhere(void) {
}

static const struct cushim_mem_capture_guard unguarded = {is_never_open, enter_nowhere,
                                                          leave_nowhere};

void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context, const struct cushim_mem_capture_guard *guard) {
    unsigned flags = 0;
    if (!fence->cuda) /* only in the first life, because a lock is initialised once */
        pthread_mutex_init(&fence->lock, NULL);
    fence->cuda = cuda;
    fence->guard = guard ? guard : &unguarded;
    fence->brings_out = guard != NULL;
    fence->event_flags = CU_EVENT_DISABLE_TIMING;
    if (guard && cuda->cuCtxGetFlags && cuda->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
        (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
        fence->event_flags |= CU_EVENT_BLOCKING_SYNC;
    cushim_raise_to(&fence->open, 1);
    cushim_raise_to(&fence->effect, atomic_load(&fence->open));
    atomic_store(&fence->context, context);
}

void cushim_mem_fence_abandon(struct cushim_mem_fence *fence) {
    pthread_mutex_lock(&fence->lock);
    fence->n_spares = 0;
    atomic_fetch_add(&fence->life, 1);
    atomic_store(&fence->context, NULL);
    pthread_mutex_unlock(&fence->lock);
    cushim_mem_fence_complete(fence, cushim_mem_fence_close(fence));
}

void cushim_mem_fence_note_effect(struct cushim_mem_fence *fence) {
    /* an exchange first, as in a free, so that the work was submitted before the load of open */
    uint64_t noted = atomic_fetch_add(&fence->effect, 0);
    uint64_t open = atomic_load(&fence->open);
    if (noted < open)
        cushim_raise_to(&fence->effect, open);
}

/* ---- rows ---- */

/* The k-th row, counted from the oldest; the free one after the youngest if k is n_rows. */
static struct cushim_mem_row *row_at(struct cushim_mem_fence *fence, unsigned k) {
    return &fence->rows[(fence->first + k) % CUSHIM_MEM_EPOCH_ROWS];
}

/* The record of the row was made, and there is room.  From here on other threads see it. */
static void publish(struct cushim_mem_fence *fence, const struct cushim_mem_row *row) {
    CUSHIM_LOCKED(&fence->lock);
    *row_at(fence, atomic_load(&fence->n_rows)) = *row;
    atomic_fetch_add(&fence->n_rows, 1);
}

/* The oldest row that is not done and covers `epoch`, or NULL.  The caller holds the lock. */
static struct cushim_mem_row *find(struct cushim_mem_fence *fence, uint64_t epoch) {
    uint64_t done = cushim_mem_fence_done(fence);
    unsigned n_rows = atomic_load(&fence->n_rows);
    for (unsigned k = 0; k < n_rows; k++) {
        struct cushim_mem_row *row = row_at(fence, k);
        if (row->epoch > done && row->epoch >= epoch)
            return row;
    }
    return NULL;
}

static bool is_covered(struct cushim_mem_fence *fence, uint64_t epoch) {
    CUSHIM_LOCKED(&fence->lock);
    return cushim_mem_fence_done(fence) >= epoch || find(fence, epoch);
}

/* The oldest row that covers `epoch`.  It stays as it is until it is unpinned. */
static struct cushim_mem_row *pin(struct cushim_mem_fence *fence, uint64_t epoch) {
    CUSHIM_LOCKED(&fence->lock);
    struct cushim_mem_row *row = find(fence, epoch);
    if (row)
        row->n_pins++;
    return row;
}

/* Remove the oldest row if it is done and not pinned.  Its record then belongs to the caller.
 */
static bool take_oldest(struct cushim_mem_fence *fence, struct cushim_mem_record *record) {
    CUSHIM_LOCKED(&fence->lock);
    const struct cushim_mem_row *row = row_at(fence, 0);
    bool is_taken =
        atomic_load(&fence->n_rows) && !row->n_pins && row->epoch <= cushim_mem_fence_done(fence);
    if (is_taken) {
        *record = row->record;
        fence->first = (fence->first + 1) % CUSHIM_MEM_EPOCH_ROWS;
        atomic_fetch_sub(&fence->n_rows, 1);
    }
    return is_taken;
}

/* Remove the rows that are done, in order, up to one that is pinned. */
static void recycle(struct cushim_mem_fence *fence) {
    struct cushim_mem_record record;
    while (take_oldest(fence, &record))
        cushim_mem_record_release(&record);
}

/* On success all work up to the row is over, and what its kernels printed is out. */
static void note_answer(struct cushim_mem_fence *fence, const struct cushim_mem_row *row,
                        CUresult answer) {
    if (answer != CUDA_SUCCESS)
        return;
    cushim_raise_to(&fence->printed_round, row->round);
    cushim_raise_to(&fence->done, row->epoch);
}

/* Is it over?  A query does not bring out what kernels printed, so a synchronise may follow. */
static CUresult ask(const struct cushim_mem_row *row) {
    CUresult answer = cushim_mem_record_query(&row->record);
    return answer == CUDA_SUCCESS && row->round ? cushim_mem_record_synchronise(&row->record)
                                                : answer;
}

/* Leave a row whose record was asked about. */
static void unpin(struct cushim_mem_fence *fence, struct cushim_mem_row *row, CUresult answer) {
    note_answer(fence, row, answer);
    pthread_mutex_lock(&fence->lock);
    row->n_pins--;
    pthread_mutex_unlock(&fence->lock);
    recycle(fence);
}

uint64_t cushim_mem_fence_poll(struct cushim_mem_fence *fence, CUresult *answer) {
    struct cushim_mem_row *row;
    *answer = CUDA_SUCCESS;
    if (!cushim_mem_fence_is_in_flight(fence) || atomic_exchange(&fence->is_polling, true))
        return cushim_mem_fence_done(fence);
    CUstreamCaptureMode mode = cushim_mode_relaxed(fence->cuda);
    while (*answer == CUDA_SUCCESS && (row = pin(fence, 0))) {
        *answer = ask(row);
        unpin(fence, row, *answer);
    }
    if (*answer == CUDA_SUCCESS && cushim_mem_fence_is_in_flight(fence))
        recycle(fence); /* rows that a wait has covered were not asked about */
    cushim_mode_back(fence->cuda, mode);
    atomic_store(&fence->is_polling, false);
    if (*answer == CUDA_ERROR_NOT_READY)
        *answer = CUDA_SUCCESS;
    return cushim_mem_fence_done(fence);
}

/* ---- the thread that records, and those that sleep meanwhile ---- */

/* Called after each change that sleepers wait for.  They read the signal before they look for the
 * change.  A thread that is about to sleep and has not said so yet wakes by its time-out.  No
 * thread is woken twice, so one that has no core yet costs the next recorder nothing. */
static void signal_all(struct cushim_mem_fence *fence) {
    if (likely(!atomic_load(&fence->has_sleepers)))
        return;
    atomic_store(&fence->has_sleepers, false);
    atomic_fetch_add(&fence->signal, 1);
    cushim_futex_wake(&fence->signal);
}

/* ---- closing an epoch ---- */

/* The reason why there is no record now, or its result. */
enum outcome {
    DONE,      /* it was over at once */
    STARTED,   /* it is in flight */
    ELSEWHERE, /* another thread records */
    FULL,      /* all rows are in flight */
    BARRED,    /* a record would invalidate a capture, or the driver is older than 12.5 */
    OWN,       /* the same, and the calling thread captures */
    REFUSED    /* by the driver */
};

/* Threads that read the old value submitted their work before this exchange. */
uint64_t cushim_mem_fence_close(struct cushim_mem_fence *fence) {
    return atomic_fetch_add(&fence->open, 1);
}

/* The capture guard is held, so the query needs no exchange of modes.  The role is held, too. */
static enum outcome record_epoch(struct cushim_mem_fence *fence, CUresult *answer) {
    struct cushim_mem_row row = {.record = fence->idle};
    /* in this order, because a thread that still reads the old value submitted before this
     * exchange, and the record comes after it */
    row.epoch = cushim_mem_fence_close(fence);
    /* The round of launches whose output must be brought out after the record.  The caller's own
     * launches, and those it knows of, were noted. */
    if (fence->brings_out &&
        atomic_load(&cushim_mem_launches.latest) > atomic_load(&fence->printed_round))
        row.round = atomic_fetch_add(&cushim_mem_launches.round, 1);
    fence->idle.event = NULL;
    *answer = cushim_mem_record_make(&row.record, fence, NULL);
    /* the driver refused because of a capture whose begin no hook saw, which is no damage */
    if (*answer >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
        *answer <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
        *answer = CUDA_SUCCESS;
        return BARRED; /* by a capture whose begin no hook saw */
    }
    if (*answer != CUDA_SUCCESS)
        return REFUSED;
    *answer = ask(&row);
    if (*answer == CUDA_ERROR_NOT_READY) {
        publish(fence, &row);
        *answer = CUDA_SUCCESS;
        return STARTED;
    }
    fence->idle = row.record;
    note_answer(fence, &row, *answer);
    return *answer == CUDA_SUCCESS ? DONE : REFUSED;
}

/* The caller has the role. */
static enum outcome start_alone(struct cushim_mem_fence *fence, CUresult *answer) {
    atomic_uint *n_rows = &fence->n_rows; /* only this thread adds rows */
    if (atomic_load(n_rows) == CUSHIM_MEM_EPOCH_ROWS)
        cushim_mem_fence_poll(fence, answer);
    if (atomic_load(n_rows) == CUSHIM_MEM_EPOCH_ROWS)
        return *answer == CUDA_SUCCESS ? FULL : REFUSED;
    *answer = CUDA_SUCCESS;
    enum cushim_mem_pass pass = fence->guard->enter();
    if (pass != CUSHIM_MEM_PASS_RECORD)
        return pass == CUSHIM_MEM_PASS_OWN ? OWN : BARRED;
    enum outcome outcome = record_epoch(fence, answer);
    fence->guard->leave();
    return outcome;
}

static bool is_wanted(const struct cushim_mem_fence *fence) {
    return atomic_load(&fence->wanted) > atomic_load(&fence->done);
}

/*
 * This thread is served.  If others came, it keeps the role for a while: with 16 threads on an H200
 * a pair then takes 1.9 us, and 3.0 if the role changes with each record.  If a record is not over
 * at once, the others wait themselves, because this thread would wait for their work.
 */
static __attribute__((noinline)) void go_on(struct cushim_mem_fence *fence) {
    enum { MOST_RECORDS = 16 };
    CUresult answer;
    for (unsigned n = 1; n < MOST_RECORDS && is_wanted(fence); n++) {
        if (start_alone(fence, &answer) != DONE)
            return;
    }
}

static enum outcome start(struct cushim_mem_fence *fence, CUresult *answer) {
    *answer = CUDA_SUCCESS;
    if (!fence->cuda->cuCtxRecordEvent)
        return cushim_mem_capture_guard_ask(fence->guard) == CUSHIM_MEM_PASS_OWN ? OWN : BARRED;
    /* the load comes first, because an exchange would take the cache line from the thread that
     * records, which will write there */
    if (atomic_load(&fence->is_recording) || atomic_exchange(&fence->is_recording, true))
        return ELSEWHERE;
    enum outcome outcome = start_alone(fence, answer);
    if (outcome == DONE && is_wanted(fence))
        go_on(fence);
    atomic_store(&fence->is_recording, false);
    signal_all(fence);
    return outcome;
}

enum cushim_status cushim_mem_fence_start(struct cushim_mem_fence *fence, CUresult *answer) {
    uint64_t epoch = cushim_mem_fence_tag(fence);
    enum outcome outcome = start(fence, answer);
    for (int i = 0; outcome == ELSEWHERE && i < CUSHIM_FUTEX_LOOKS; i++) {
        cushim_futex_pause();
        outcome = is_covered(fence, epoch) ? STARTED : start(fence, answer);
    }
    if (outcome == REFUSED)
        return cushim_status_from_cu(*answer);
    return outcome <= STARTED ? CUSHIM_OK : CUSHIM_NOTREADY;
}

uint64_t cushim_mem_fence_synchronise(struct cushim_mem_fence *fence) {
    return fence->cuda->cuCtxRecordEvent ? cushim_mem_fence_close(fence) : 0;
}

void cushim_mem_fence_complete(struct cushim_mem_fence *fence, uint64_t epoch) {
    cushim_raise_to(&fence->done, epoch);
}

/* ---- waiting ---- */

struct waiting {
    struct cushim_mem_fence *fence;
    uint64_t epoch, deadline_ns;
    uint64_t busy_since_ns; /* 0: no record was waited for */
    unsigned seen;          /* the signal, which is read before everything else */
    unsigned n_looks;       /* while all rows are in flight */
};

static bool is_late(const struct waiting *waiting) {
    return waiting->deadline_ns && cushim_clock_ns() >= waiting->deadline_ns;
}

/* Another thread records, or waits for `row`, and does so for this thread, too.  A record takes
 * less than a microsecond, and a wait as long as the device takes. */
static void rest(const struct waiting *waiting, const struct cushim_mem_row *row) {
    struct cushim_mem_fence *fence = waiting->fence;
    for (int i = 0; i < CUSHIM_FUTEX_LOOKS; i++) {
        if (cushim_mem_fence_done(fence) >= waiting->epoch ||
            !atomic_load(row ? &row->is_awaited : &fence->is_recording))
            return;
        cushim_futex_pause();
    }
    atomic_store(&fence->has_sleepers, true);
    cushim_futex_wait(&fence->signal, waiting->seen,
                      row ? CUSHIM_FUTEX_LONG_NS : CUSHIM_FUTEX_SHORT_NS);
}

/* One thread waits for a row, for all threads that it covers.  A thread with a deadline polls
 * itself. */
static CUresult wait_or_rest(const struct waiting *waiting, struct cushim_mem_row *row) {
    CUresult answer;
    if (waiting->deadline_ns) { /* more and more rarely */
        unsigned n_looks = 0;
        while ((answer = ask(row)) == CUDA_ERROR_NOT_READY && !is_late(waiting))
            cushim_futex_back_off(&n_looks);
        return answer;
    }
    if (atomic_exchange(&row->is_awaited, true)) {
        rest(waiting, row);
        return CUDA_ERROR_NOT_READY;
    }
    answer = cushim_mem_record_wait(&row->record);
    note_answer(waiting->fence, row, answer);
    atomic_store(&row->is_awaited, false); /* if it failed, each thread asks itself */
    return answer;
}

/* Wait on the oldest row that covers `epoch`; false if there is none. */
static bool wait_on_row(struct waiting *waiting, uint64_t epoch, CUresult *answer) {
    struct cushim_mem_fence *fence = waiting->fence;
    struct cushim_mem_row *row = cushim_mem_fence_is_in_flight(fence) ? pin(fence, epoch) : NULL;
    if (!row)
        return false;
    if (!waiting->busy_since_ns)
        waiting->busy_since_ns = cushim_clock_ns();
    *answer = CUSHIM_IN_RELAXED(fence->cuda, wait_or_rest(waiting, row));
    unpin(fence, row, *answer);
    if (*answer == CUDA_ERROR_NOT_READY)
        *answer = CUDA_SUCCESS;
    else
        signal_all(fence);
    return true;
}

/* The driver's own wait closes and completes an epoch: it covers blocks that were freed before it
 * began. */
static enum cushim_status wait_natively(struct cushim_mem_fence *fence, bool is_relaxed,
                                        CUresult *answer) {
    uint64_t epoch = cushim_mem_fence_close(fence);
    *answer = cushim_mem_barrier_pass(fence, is_relaxed);
    if (*answer == CUDA_SUCCESS)
        cushim_mem_fence_complete(fence, epoch);
    return cushim_status_from_cu(*answer);
}

/* No record covers the epoch.  Make one, or use the barrier instead. */
static enum cushim_status cover(struct waiting *waiting, CUresult *answer) {
    struct cushim_mem_fence *fence = waiting->fence;
    enum outcome outcome = start(fence, answer);
    switch (outcome) {
    case DONE:
    case STARTED:
    case REFUSED:
        break;
    case ELSEWHERE:
        cushim_raise_to(&fence->wanted, waiting->epoch);
        rest(waiting, NULL);
        break;
    case FULL:
        if (!waiting->deadline_ns)
            return wait_natively(fence, true, answer);
        if (!wait_on_row(waiting, 0, answer))
            cushim_futex_back_off(&waiting->n_looks);
        break;
    case BARRED:
    case OWN:
        return waiting->deadline_ns ? CUSHIM_TIMEOUT : wait_natively(fence, outcome != OWN, answer);
    }
    return cushim_status_from_cu(*answer);
}

/* Look once, and take the next step. */
static enum cushim_status go_further(struct waiting *waiting, CUresult *answer) {
    if (cushim_mem_fence_poll(waiting->fence, answer) >= waiting->epoch)
        return CUSHIM_OK;
    if (*answer != CUDA_SUCCESS)
        return cushim_status_from_cu(*answer);
    if (is_late(waiting))
        return CUSHIM_TIMEOUT;
    return wait_on_row(waiting, waiting->epoch, answer) ? cushim_status_from_cu(*answer)
                                                        : cover(waiting, answer);
}

enum cushim_status cushim_mem_fence_await(struct cushim_mem_fence *fence, uint64_t epoch,
                                          uint64_t deadline_ns, struct cushim_mem_stats *stats,
                                          CUresult *answer) {
    struct waiting waiting = {.fence = fence, .epoch = epoch, .deadline_ns = deadline_ns};
    enum cushim_status status = CUSHIM_OK;
    *answer = CUDA_SUCCESS;
    while (status == CUSHIM_OK) {
        waiting.seen = atomic_load(&fence->signal);
        if (cushim_mem_fence_done(fence) >= epoch)
            break;
        status = go_further(&waiting, answer);
    }
    if (status == CUSHIM_OK)
        *answer = CUDA_SUCCESS; /* an error was that of a later row */
    if (waiting.busy_since_ns)
        cushim_mem_waits_count(stats, waiting.busy_since_ns);
    return status;
}

enum cushim_status cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                         struct cushim_mem_stats *stats, CUresult *answer) {
    uint64_t epoch = cushim_mem_fence_tag(fence);
    if (unlikely(fence->guard->is_open())) {
        /* the driver may refuse this thread's own wait, so another thread's wait must not serve
         * it */
        enum cushim_mem_pass pass = cushim_mem_capture_guard_ask(fence->guard);
        if (pass != CUSHIM_MEM_PASS_RECORD)
            return wait_natively(fence, pass == CUSHIM_MEM_PASS_RELAXED, answer);
    }
    enum outcome outcome = start(fence, answer);
    if (likely(outcome == DONE)) /* the thread was alone, and the device was idle */
        return CUSHIM_OK;
    return outcome == REFUSED ? cushim_status_from_cu(*answer)
                              : cushim_mem_fence_await(fence, epoch, 0, stats, answer);
}
