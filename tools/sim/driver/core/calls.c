#include "calls.h"

#include "base/cancel.h"

#include "tools/sim/driver/graph/capture.h"
#include "tools/sim/driver/context/checkpoint.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/context/share.h"
#include "options.h"
#include "tools/sim/driver/stream/scheduler.h"
#include "sim.h"
#include "symbol.h"
#include "thread.h"
#include "traits.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_changed = PTHREAD_COND_INITIALIZER;

enum life { UNINITIALISED, ALIVE, OVER, FORKED };
static atomic_int life = UNINITIALISED;

/* All under the lock. */
enum { RING_CALLS = 65536 };
static unsigned long n_calls_of[SIM_N_SYMBOLS];
static unsigned long n_calls;
static uint16_t ring[RING_CALLS];
static unsigned long fail_in; /* calls until the one that fails; 0: none */
static CUresult fail_with;
static bool has_failed;

static const char *const names[SIM_N_SYMBOLS] = {
#define NAME_DRV(abi) [SIM_SYMBOL_##abi] = #abi,
#define NAME_RT(abi)
#define SYM(role, api, abi, asked_as, since, need) NAME_##api(abi)
#include "cuda/symbols.def"
#undef SYM
};

#define NUMBER_DRV(abi)                                                                            \
    extern const uint16_t sim_number_of_##abi;                                                     \
    const uint16_t sim_number_of_##abi = SIM_SYMBOL_##abi;
#define NUMBER_RT(abi)
#define SYM(role, api, abi, asked_as, since, need) NUMBER_##api(abi)
#include "cuda/symbols.def"
#undef SYM

bool sim_is_over(void) {
    return atomic_load(&life) == OVER;
}

/* Sleeping is too coarse for microseconds, so the last stretch is a loop. */
static void take_time(uint32_t real_ns) {
    uint64_t ns = sim_options()->latency_ns;
    if (ns == 0)
        return;
    if (ns == SIM_LATENCY_REAL)
        ns = real_ns;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t end_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ns;
    uint64_t now_ns;
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        if (now_ns + 200000 < end_ns) {
            struct timespec nap = {0, 100000};
            int cancel = cushim_cancel_hold();
            nanosleep(&nap, NULL);
            cushim_cancel_let(cancel);
        }
    } while (now_ns < end_ns);
}

static CUresult refuse_for_life(unsigned traits) {
    switch ((enum life)atomic_load(&life)) {
    case UNINITIALISED:
        return traits & EARLY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    case OVER:
        return traits & QUIET ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
    case FORKED:
        return traits & QUIET ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    case ALIVE:
        break;
    }
    return CUDA_SUCCESS;
}

static void count(unsigned symbol) {
    ring[n_calls % RING_CALLS] = (uint16_t)symbol;
    n_calls++;
    n_calls_of[symbol]++;
}

/* Is this the call that a test wants to fail? */
static bool is_to_fail(unsigned traits) {
    if (fail_in == 0 || traits & QUIET || --fail_in != 0)
        return false;
    has_failed = true;
    return true;
}

static CUresult refuse(unsigned symbol, unsigned traits) {
    count(symbol);
    SIM_TRY(refuse_for_life(traits));
    if (is_to_fail(traits))
        return fail_with;
    if (traits & BARRED && sim_thread()->is_in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    if (!(traits & HARMLESS))
        SIM_TRY(sim_context_fault(sim_context_top()));
    if (traits & UNSAFE)
        SIM_TRY(sim_capture_refuse_unsafe());
    return CUDA_SUCCESS;
}

static void load_failure(void) {
    fail_in = sim_options()->fail_at;
    fail_with = CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_enter(unsigned symbol) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (sim_thread()->is_in_destructor)
        return CUDA_ERROR_NOT_PERMITTED;
    pthread_once(&once, load_failure);
    struct sim_traits found = sim_traits_of(symbol);
    take_time(found.real_ns);
    pthread_mutex_lock(&sim_lock);
    sim_checkpoint_enter(found.traits & QUIET);
    CUresult result = refuse(symbol, found.traits);
    return result == CUDA_SUCCESS ? result : sim_leave(result);
}

CUresult sim_leave(CUresult result) {
    if (result == CUDA_ERROR_NOT_READY && fail_in)
        fail_in++; /* do not count this query: how many come is chance */
    sim_checkpoint_leave();
    pthread_mutex_unlock(&sim_lock);
    return result;
}

/* The end of the process: later calls are refused, and the scheduler's thread ends. */
static void on_exit_of_process(void) {
    if (atomic_load(&life) != ALIVE)
        return;
    pthread_mutex_lock(&sim_lock);
    atomic_store(&life, OVER);
    sim_scheduler_finish();
    pthread_cond_broadcast(&sim_changed); /* wakes threads that wait for steps */
    pthread_mutex_unlock(&sim_lock);
    sim_checkpoint_end();
}

/* The lock is held over the fork, so that the child finds it intact. */
static void before_fork(void) {
    pthread_mutex_lock(&sim_lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&sim_lock);
}

static void after_fork_in_child(void) {
    pthread_mutex_init(&sim_lock, NULL);
    pthread_cond_init(&sim_changed, NULL);
    atomic_store(&life, FORKED);
    sim_share_leave_child();
    sim_checkpoint_leave_child();
}

CUresult sim_start(void) {
    if (atomic_load(&life) != UNINITIALISED)
        return CUDA_SUCCESS;
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0 ||
        atexit(on_exit_of_process) != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    atomic_store(&life, ALIVE);
    return CUDA_SUCCESS;
}

void sim_fail_at(unsigned long n, CUresult result) {
    pthread_mutex_lock(&sim_lock);
    fail_in = n;
    fail_with = result;
    has_failed = false;
    pthread_mutex_unlock(&sim_lock);
}

int cushim_sim_version(void) {
    return 1000;
}

int sim_has_failed(void) {
    pthread_mutex_lock(&sim_lock);
    int answer = has_failed;
    pthread_mutex_unlock(&sim_lock);
    return answer;
}

const unsigned long *sim_calls_counter(const char *name) {
    for (unsigned symbol = 0; symbol < SIM_N_SYMBOLS; symbol++) {
        if (strcmp(names[symbol], name) == 0)
            return &n_calls_of[symbol];
    }
    return NULL;
}

unsigned long sim_calls(const char *name) {
    const unsigned long *counter = sim_calls_counter(name);
    pthread_mutex_lock(&sim_lock);
    unsigned long n = counter ? *counter : ULONG_MAX;
    pthread_mutex_unlock(&sim_lock);
    return n;
}

unsigned long sim_calls_total(void) {
    pthread_mutex_lock(&sim_lock);
    unsigned long n = n_calls;
    pthread_mutex_unlock(&sim_lock);
    return n;
}

void sim_calls_reset(void) {
    pthread_mutex_lock(&sim_lock);
    memset(n_calls_of, 0, sizeof n_calls_of);
    n_calls = 0;
    pthread_mutex_unlock(&sim_lock);
}

const char *sim_call_name(unsigned long i) {
    pthread_mutex_lock(&sim_lock);
    const char *name = NULL;
    if (i < n_calls && n_calls - i <= RING_CALLS)
        name = names[ring[i % RING_CALLS]];
    pthread_mutex_unlock(&sim_lock);
    return name;
}
