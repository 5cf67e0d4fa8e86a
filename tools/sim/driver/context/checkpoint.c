#include "checkpoint.h"

#include "base/cancel.h"

#include "context.h"
#include "share.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/core/thread.h"
#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/stream/scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum call { GET_STATE, LOCK, CHECKPOINT, RESTORE, UNLOCK };

/* Under the driver's lock. */
static bool is_locked;
static unsigned n_inside; /* calls that began and did not end */

/* Sleep until the word is no longer `value`, or for a while. */
static void sleep_on(const _Atomic uint32_t *word, uint32_t value) {
    const struct timespec while_ = {.tv_nsec = 100000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &while_, NULL, 0);
}

static void wake(const _Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- calls ---- */

void sim_checkpoint_enter(bool is_quiet) {
    int cancel = cushim_cancel_hold();
    /* the lock waits for a host function's end */
    while (is_locked && !is_quiet && !sim_thread()->is_in_host_function && !sim_is_over())
        pthread_cond_wait(&sim_changed, &sim_lock);
    cushim_cancel_let(cancel);
    n_inside++;
}

void sim_checkpoint_leave(void) {
    n_inside--;
}

static void unlock(void) {
    is_locked = false;
    pthread_cond_broadcast(&sim_changed);
}

/* ---- the process that is asked ---- */

/* Calls that began and work that was submitted end first. */
static CUresult lock(struct sim_share_desk *desk) {
    const struct timespec nap = {.tv_nsec = 1000000};
    uint32_t timeout_ms = atomic_load(&desk->timeout_ms);
    is_locked = true;
    for (uint32_t ms = 0; n_inside || !sim_scheduler_is_idle(); ms++) {
        if (sim_is_over() || (timeout_ms && ms >= timeout_ms)) {
            unlock();
            return CUDA_ERROR_NOT_READY;
        }
        pthread_mutex_unlock(&sim_lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&sim_lock);
    }
    atomic_store(&desk->state, CU_PROCESS_STATE_LOCKED);
    return CUDA_SUCCESS;
}

/* Managed memory, and memory that another process has or may open, cannot be laid down. */
static CUresult checkpoint(struct sim_share_desk *desk) {
    for (const struct sim_block *block = NULL; (block = sim_block_next(block));) {
        if (block->kind == SIM_BLOCK_MANAGED || block->kind == SIM_BLOCK_IMPORTED || block->is_held)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (const struct sim_context *context = sim_contexts(); context; context = context->next) {
        if (sim_context_fault(context) != CUDA_SUCCESS) {
            atomic_store(&desk->state, CU_PROCESS_STATE_FAILED);
            unlock(); /* its calls return the fault */
            return CUDA_ERROR_UNKNOWN;
        }
    }
    sim_share_lay_down();
    atomic_store(&desk->state, CU_PROCESS_STATE_CHECKPOINTED);
    return CUDA_SUCCESS;
}

static CUresult restore(struct sim_share_desk *desk) {
    if (!sim_share_take_up(sim_device_pages()))
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_store(&desk->state, CU_PROCESS_STATE_LOCKED);
    return CUDA_SUCCESS;
}

static CUresult perform(struct sim_share_desk *desk) {
    static const uint32_t states[] = {[LOCK] = CU_PROCESS_STATE_RUNNING,
                                      [CHECKPOINT] = CU_PROCESS_STATE_LOCKED,
                                      [RESTORE] = CU_PROCESS_STATE_CHECKPOINTED,
                                      [UNLOCK] = CU_PROCESS_STATE_LOCKED};
    uint32_t call = atomic_load(&desk->call);
    if (call == GET_STATE)
        return CUDA_SUCCESS;
    if (call > UNLOCK)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&desk->state) != states[call])
        return CUDA_ERROR_ILLEGAL_STATE;
    if (call != UNLOCK)
        return call == LOCK ? lock(desk) : call == CHECKPOINT ? checkpoint(desk) : restore(desk);
    atomic_store(&desk->state, CU_PROCESS_STATE_RUNNING);
    unlock();
    return CUDA_SUCCESS;
}

static pthread_t thread;
static struct sim_share_desk *desk_of_thread;

static void *answer(void *own) {
    struct sim_share_desk *desk = own;
    atomic_store(&desk->thread, (uint32_t)syscall(SYS_gettid));
    while (!sim_is_over()) {
        uint32_t n = atomic_load(&desk->n_answered), n_asked = atomic_load(&desk->n_asked);
        if (n == n_asked) {
            sleep_on(&desk->n_asked, n);
            continue;
        }
        pthread_mutex_lock(&sim_lock);
        atomic_store(&desk->result, perform(desk));
        pthread_mutex_unlock(&sim_lock);
        atomic_store(&desk->n_answered, n_asked);
        wake(&desk->n_answered);
    }
    return NULL;
}

CUresult sim_checkpoint_begin(void) {
    struct sim_share_desk *desk = sim_share_desk();
    sigset_t all, old;
    if (!desk || desk_of_thread)
        return CUDA_SUCCESS;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool is_made = pthread_create(&thread, NULL, answer, desk) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    desk_of_thread = is_made ? desk : NULL;
    return is_made ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

void sim_checkpoint_end(void) {
    if (!desk_of_thread)
        return;
    wake(&desk_of_thread->n_asked);
    pthread_join(thread, NULL);
    desk_of_thread = NULL;
}

void sim_checkpoint_leave_child(void) {
    desk_of_thread = NULL;
    is_locked = false;
    n_inside = 0;
}

/* ---- the process that asks ---- */

/* False: the process has ended. */
static bool wait_for_answer(struct sim_share_desk *desk) {
    for (;;) {
        uint32_t n = atomic_load(&desk->n_answered);
        if (n == atomic_load(&desk->n_asked))
            return true;
        if (!sim_share_desk_is_alive(desk))
            return false;
        sleep_on(&desk->n_answered, n);
    }
}

/* A process that was killed after it asked leaves a request that is answered first. */
static CUresult ask_locked(struct sim_share_desk *desk, pid_t pid, enum call call,
                           uint32_t timeout_ms) {
    bool is_there = wait_for_answer(desk);
    pthread_mutex_lock(&sim_lock);
    is_there = is_there && sim_share_desk_of(pid) == desk;
    pthread_mutex_unlock(&sim_lock);
    if (!is_there)
        return CUDA_ERROR_OPERATING_SYSTEM;
    atomic_store(&desk->call, call);
    atomic_store(&desk->timeout_ms, timeout_ms);
    atomic_fetch_add(&desk->n_asked, 1);
    wake(&desk->n_asked);
    return wait_for_answer(desk) ? (CUresult)atomic_load(&desk->result)
                                 : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult find(int pid, struct sim_share_desk **out) {
    if (pid <= 0 || kill(pid, 0) != 0)
        return pid <= 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OPERATING_SYSTEM;
    *out = sim_share_desk_of(pid);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/* The driver's lock is held, and released: the process that asks may be the one that answers. */
static CUresult ask(int pid, enum call call, uint32_t timeout_ms, uint32_t *state) {
    static pthread_mutex_t one_thread = PTHREAD_MUTEX_INITIALIZER;
    struct sim_share_desk *desk = NULL;
    CUresult result = sim_leave(find(pid, &desk));
    if (result != CUDA_SUCCESS)
        return result;
    int cancel = cushim_cancel_hold();
    pthread_mutex_lock(&one_thread);
    sim_share_desk_lock(desk, F_WRLCK);
    result = ask_locked(desk, pid, call, timeout_ms);
    if (state)
        *state = atomic_load(&desk->state);
    sim_share_desk_lock(desk, F_UNLCK);
    pthread_mutex_unlock(&one_thread);
    cushim_cancel_let(cancel);
    return result;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
    SIM_ENTER(cuCheckpointProcessGetRestoreThreadId);
    struct sim_share_desk *desk;
    CUresult result = tid ? find(pid, &desk) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *tid = (int)atomic_load(&desk->thread);
    return sim_leave(result);
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state) {
    SIM_ENTER(cuCheckpointProcessGetState);
    uint32_t word = 0;
    if (!state)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = ask(pid, GET_STATE, 0, &word);
    *state = (CUprocessState)word;
    return result;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
    SIM_ENTER(cuCheckpointProcessLock);
    return ask(pid, LOCK, args ? args->timeoutMs : 0, NULL);
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args) {
    SIM_ENTER(cuCheckpointProcessCheckpoint);
    (void)args;
    return ask(pid, CHECKPOINT, 0, NULL);
}

/* A process cannot move to another device. */
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
    SIM_ENTER(cuCheckpointProcessRestore);
    if (args && args->gpuPairsCount)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    return ask(pid, RESTORE, 0, NULL);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args) {
    SIM_ENTER(cuCheckpointProcessUnlock);
    (void)args;
    return ask(pid, UNLOCK, 0, NULL);
}
