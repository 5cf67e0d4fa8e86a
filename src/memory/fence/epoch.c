#include "memory/fence/epoch.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/atomics.h"
#include "cuda/translate.h"
#include "cuda/table.h"
#include "memory/fence/barrier.h"
#include "memory/current_context.h"
#include "memory/fence/fence.h"

void cushim_mem_fence_note_effect(struct cushim_mem_fence *fence) {
    /* an exchange first, as in a free: what was submitted comes before the load of open */
    uint64_t noted = atomic_fetch_add(&fence->epochs.effect, 0);
    uint64_t open = atomic_load(&fence->epochs.open);
    if (noted < open)
        cushim_raise_to(&fence->epochs.effect, open);
}

void cushim_mem_epochs_begin(struct cushim_mem_epochs *epochs) {
    if (!atomic_load(&epochs->open)) /* a first life: a lock is never made twice */
        pthread_mutex_init(&epochs->lock, NULL);
    cushim_raise_to(&epochs->open, 1);
    cushim_raise_to(&epochs->effect, atomic_load(&epochs->open));
}

void cushim_mem_epochs_end(struct cushim_mem_epochs *epochs) {
    cushim_raise_to(&epochs->done, atomic_fetch_add(&epochs->open, 1));
}

/* ---- rows ---- */

/* The k-th row from the oldest on; the one behind the youngest where k is n_rows. */
static struct cushim_mem_row *row_at(struct cushim_mem_epochs *epochs, unsigned k) {
    return &epochs->rows[(epochs->first + k) % CUSHIM_MEM_EPOCH_ROWS];
}

/* Its record was made, and there is room: others may see it. */
static void publish(struct cushim_mem_epochs *epochs, const struct cushim_mem_record *record,
                    uint64_t epoch) {
    pthread_mutex_lock(&epochs->lock);
    *row_at(epochs, atomic_load(&epochs->n_rows)) =
        (struct cushim_mem_row){.epoch = epoch, .record = *record};
    atomic_fetch_add(&epochs->n_rows, 1);
    pthread_mutex_unlock(&epochs->lock);
}

/* Under the lock: the oldest row that is younger than `done` and covers `epoch`, or NULL. */
static struct cushim_mem_row *find(struct cushim_mem_epochs *epochs, uint64_t done,
                                   uint64_t epoch) {
    unsigned n_rows = atomic_load(&epochs->n_rows);
    for (unsigned k = 0; k < n_rows; k++) {
        struct cushim_mem_row *row = row_at(epochs, k);
        if (!row->is_leaving && row->epoch > done && row->epoch >= epoch)
            return row;
    }
    return NULL;
}

static bool is_covered(struct cushim_mem_fence *fence, uint64_t epoch) {
    if (cushim_mem_fence_done(fence) >= epoch)
        return true;
    pthread_mutex_lock(&fence->epochs.lock);
    bool is_covered = find(&fence->epochs, 0, epoch);
    pthread_mutex_unlock(&fence->epochs.lock);
    return is_covered;
}

/* The oldest row that covers `epoch`: it stays as it is until unpinned. */
static struct cushim_mem_row *pin(struct cushim_mem_fence *fence, uint64_t epoch) {
    uint64_t done = cushim_mem_fence_done(fence);
    pthread_mutex_lock(&fence->epochs.lock);
    struct cushim_mem_row *row = find(&fence->epochs, done, epoch);
    if (row)
        row->n_pins++;
    pthread_mutex_unlock(&fence->epochs.lock);
    return row;
}

/* The oldest row where it may leave, for the caller alone. */
static struct cushim_mem_row *take_oldest(struct cushim_mem_epochs *epochs, uint64_t done) {
    struct cushim_mem_row *row = NULL;
    pthread_mutex_lock(&epochs->lock);
    if (atomic_load(&epochs->n_rows))
        row = row_at(epochs, 0);
    if (row && (row->is_leaving || row->n_pins || row->epoch > done))
        row = NULL;
    if (row)
        row->is_leaving = true;
    pthread_mutex_unlock(&epochs->lock);
    return row;
}

/* Rows that are done leave, in order, unless one is pinned. */
static void recycle(struct cushim_mem_fence *fence) {
    struct cushim_mem_epochs *epochs = &fence->epochs;
    struct cushim_mem_row *row;
    uint64_t done = cushim_mem_fence_done(fence);
    while ((row = take_oldest(epochs, done))) {
        cushim_mem_record_release(&row->record, NULL);
        pthread_mutex_lock(&epochs->lock);
        epochs->first = (epochs->first + 1) % CUSHIM_MEM_EPOCH_ROWS;
        atomic_fetch_sub(&epochs->n_rows, 1);
        pthread_mutex_unlock(&epochs->lock);
    }
}

/* Leave a row whose record was asked about. */
static void unpin(struct cushim_mem_fence *fence, struct cushim_mem_row *row, CUresult answer) {
    if (answer == CUDA_SUCCESS)
        cushim_raise_to(&fence->epochs.done, row->epoch);
    pthread_mutex_lock(&fence->epochs.lock);
    row->n_pins--;
    pthread_mutex_unlock(&fence->epochs.lock);
    recycle(fence);
}

uint64_t cushim_mem_fence_poll(struct cushim_mem_fence *fence, CUresult *answer) {
    struct cushim_mem_epochs *epochs = &fence->epochs;
    struct cushim_mem_row *row;
    *answer = CUDA_SUCCESS;
    if (!cushim_mem_fence_is_in_flight(fence) || atomic_exchange(&epochs->is_polling, true))
        return cushim_mem_fence_done(fence);
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(fence->cuda);
    while (*answer == CUDA_SUCCESS && (row = pin(fence, 0))) {
        *answer = cushim_mem_record_query(&row->record);
        unpin(fence, row, *answer);
    }
    if (*answer == CUDA_SUCCESS && cushim_mem_fence_is_in_flight(fence))
        recycle(fence); /* what a wait has covered was not asked about */
    cushim_mem_mode_back(fence->cuda, mode);
    atomic_store(&epochs->is_polling, false);
    if (*answer == CUDA_ERROR_NOT_READY)
        *answer = CUDA_SUCCESS;
    return cushim_mem_fence_done(fence);
}

/* ---- closing an epoch ---- */

/* Why there is no record now, or that there is one. */
enum outcome {
    STARTED,
    ELSEWHERE, /* another thread is at it */
    FULL,      /* all rows are in flight */
    BARRED,    /* a record would invalidate a capture, or the driver is older than 12.5 */
    REFUSED    /* by the driver */
};

/* Those who read the old value submitted before this exchange. */
uint64_t cushim_mem_fence_close(struct cushim_mem_fence *fence) {
    return atomic_fetch_add(&fence->epochs.open, 1);
}

/* The gate is held, so that the question needs no exchange of modes, and so is the role of the
 * starter. */
static enum outcome record_epoch(struct cushim_mem_fence *fence, CUresult *answer) {
    struct cushim_mem_record record;
    /* in this order: who still reads the old value submitted before this exchange; the record
     * comes after it */
    uint64_t epoch = cushim_mem_fence_close(fence);
    *answer = cushim_mem_record_make(&record, fence, &fence->epochs.spare);
    if (cushim_mem_fence_is_about_captures(*answer)) {
        *answer = CUDA_SUCCESS;
        return BARRED; /* by one that no hook of ours saw begin */
    }
    if (*answer != CUDA_SUCCESS)
        return REFUSED;
    *answer = cushim_mem_record_query(&record);
    if (*answer == CUDA_ERROR_NOT_READY) {
        publish(&fence->epochs, &record, epoch);
        *answer = CUDA_SUCCESS;
        return STARTED;
    }
    cushim_mem_record_release(&record, &fence->epochs.spare);
    if (*answer != CUDA_SUCCESS)
        return REFUSED;
    cushim_raise_to(&fence->epochs.done, epoch);
    return STARTED;
}

/* In the role of the starter. */
static enum outcome start_alone(struct cushim_mem_fence *fence,
                                const struct cushim_mem_capture_guard *gate,
                                enum cushim_mem_pass *pass, CUresult *answer) {
    atomic_uint *n_rows = &fence->epochs.n_rows; /* nobody else makes more of them */
    if (atomic_load(n_rows) == CUSHIM_MEM_EPOCH_ROWS)
        cushim_mem_fence_poll(fence, answer);
    if (atomic_load(n_rows) == CUSHIM_MEM_EPOCH_ROWS)
        return *answer == CUDA_SUCCESS ? FULL : REFUSED;
    *answer = CUDA_SUCCESS;
    *pass = gate->enter();
    if (*pass != CUSHIM_MEM_PASS_RECORD)
        return BARRED;
    enum outcome outcome = record_epoch(fence, answer);
    gate->leave();
    return outcome;
}

static enum outcome start(struct cushim_mem_fence *fence,
                          const struct cushim_mem_capture_guard *gate, enum cushim_mem_pass *pass,
                          CUresult *answer) {
    enum { LOOKS = 200 }; /* a record takes less than a microsecond */
    uint64_t epoch = atomic_load(&fence->epochs.open);
    atomic_bool *is_starting = &fence->epochs.is_starting;
    *answer = CUDA_SUCCESS;
    if (!fence->cuda->cuCtxRecordEvent) {
        *pass = gate->enter();
        if (*pass == CUSHIM_MEM_PASS_RECORD)
            gate->leave();
        return BARRED;
    }
    for (int i = 0; i < LOOKS; i++) {
        bool is_ours = !atomic_load(is_starting) && !atomic_exchange(is_starting, true);
        enum outcome outcome = ELSEWHERE;
        if (i && is_covered(fence, epoch))
            outcome = STARTED;
        else if (is_ours)
            outcome = start_alone(fence, gate, pass, answer);
        if (is_ours)
            atomic_store(is_starting, false);
        if (outcome != ELSEWHERE)
            return outcome;
    }
    return ELSEWHERE;
}

enum cushim_status cushim_mem_fence_start(struct cushim_mem_fence *fence,
                                          const struct cushim_mem_capture_guard *gate,
                                          CUresult *answer) {
    enum cushim_mem_pass pass;
    enum outcome outcome = start(fence, gate, &pass, answer);
    if (outcome == REFUSED)
        return cushim_status_from_cu(*answer);
    return outcome == STARTED ? CUSHIM_OK : CUSHIM_NOTREADY;
}

uint64_t cushim_mem_fence_synchronise(struct cushim_mem_fence *fence) {
    return fence->cuda->cuCtxRecordEvent ? cushim_mem_fence_close(fence) : 0;
}

void cushim_mem_fence_complete(struct cushim_mem_fence *fence, uint64_t epoch) {
    cushim_raise_to(&fence->epochs.done, epoch);
}

/* ---- waiting ---- */

struct waiting {
    struct cushim_mem_fence *fence;
    const struct cushim_mem_capture_guard *gate;
    uint64_t epoch, deadline_ns;
    uint64_t busy_since_ns; /* 0: no record was waited for */
    unsigned n_looks;       /* while another thread starts, or has all rows */
};

static bool is_late(const struct waiting *waiting) {
    return waiting->deadline_ns && cushim_clock_ns() >= waiting->deadline_ns;
}

/* Poll until the deadline, ever more seldom. */
static CUresult poll_record(const struct waiting *waiting, const struct cushim_mem_record *record) {
    for (unsigned n_looks = 0;;) {
        CUresult answer = cushim_mem_record_query(record);
        if (answer != CUDA_ERROR_NOT_READY || is_late(waiting))
            return answer;
        cushim_futex_back_off(&n_looks);
    }
}

/* Wait on the oldest row that covers `epoch`; false where there is none. */
static bool wait_on_row(struct waiting *waiting, uint64_t epoch, CUresult *answer) {
    struct cushim_mem_fence *fence = waiting->fence;
    struct cushim_mem_row *row = pin(fence, epoch);
    if (!row)
        return false;
    if (!waiting->busy_since_ns)
        waiting->busy_since_ns = cushim_clock_ns();
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(fence->cuda);
    *answer = waiting->deadline_ns ? poll_record(waiting, &row->record)
                                   : cushim_mem_record_wait(&row->record);
    cushim_mem_mode_back(fence->cuda, mode);
    unpin(fence, row, *answer);
    if (*answer == CUDA_ERROR_NOT_READY)
        *answer = CUDA_SUCCESS;
    return true;
}

/* Native's own wait closes and completes an epoch: those freed before it began are covered. */
static CUresult wait_natively(struct waiting *waiting, bool is_relaxed) {
    uint64_t epoch = cushim_mem_fence_close(waiting->fence);
    CUresult answer = cushim_mem_barrier_pass(waiting->fence, is_relaxed);
    if (answer == CUDA_SUCCESS)
        cushim_mem_fence_complete(waiting->fence, epoch);
    return answer;
}

/* No record covers the epoch: get one, or what stands for it. */
static enum cushim_status cover(struct waiting *waiting, CUresult *answer) {
    enum cushim_mem_pass pass;
    switch (start(waiting->fence, waiting->gate, &pass, answer)) {
    case STARTED:
        return CUSHIM_OK;
    case FULL:
        if (!wait_on_row(waiting, 0, answer))
            cushim_futex_back_off(&waiting->n_looks);
        return cushim_status_from_cu(*answer);
    case BARRED:
        if (waiting->deadline_ns)
            return CUSHIM_TIMEOUT;
        *answer = wait_natively(waiting, pass != CUSHIM_MEM_PASS_OWN);
        return cushim_status_from_cu(*answer);
    case REFUSED:
        return cushim_status_from_cu(*answer);
    case ELSEWHERE:
        break;
    }
    cushim_futex_back_off(&waiting->n_looks);
    return CUSHIM_OK;
}

static enum cushim_status wait_until_done(struct waiting *waiting, CUresult *answer) {
    while (cushim_mem_fence_poll(waiting->fence, answer) < waiting->epoch) {
        if (*answer != CUDA_SUCCESS)
            return cushim_status_from_cu(*answer);
        if (is_late(waiting))
            return CUSHIM_TIMEOUT;
        enum cushim_status status = wait_on_row(waiting, waiting->epoch, answer)
                                        ? cushim_status_from_cu(*answer)
                                        : cover(waiting, answer);
        if (status != CUSHIM_OK)
            return status;
    }
    *answer = CUDA_SUCCESS; /* of a later row, where it was not */
    return CUSHIM_OK;
}

enum cushim_status cushim_mem_fence_await(struct cushim_mem_fence *fence,
                                          const struct cushim_mem_capture_guard *gate,
                                          uint64_t epoch, uint64_t deadline_ns,
                                          struct cushim_mem_stats *stats, CUresult *answer) {
    struct waiting waiting = {
        .fence = fence, .gate = gate, .epoch = epoch, .deadline_ns = deadline_ns};
    enum cushim_status status = wait_until_done(&waiting, answer);
    if (waiting.busy_since_ns)
        cushim_mem_waits_count(stats, waiting.busy_since_ns);
    return status;
}
