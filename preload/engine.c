#include "preload/engine.h"

#include <pthread.h>
#include <sched.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"

_Thread_local struct cushim_thread cushim_thread __attribute__((tls_model("initial-exec")));
atomic_int cushim_engine_state;
struct cushim_engine cushim_engine;

enum { DEDICATED_FOR_IPC_BYTES = 2 << 20 };

/* A word for "no report" is as good as no name: whoever counts for the report looks at the name
 * alone. */
static void forget_off_word(char *where) {
    static const char *const off_words[] = {"0", "off", "false", "no"};
    for (size_t i = 0; i < sizeof off_words / sizeof off_words[0]; i++) {
        if (strcasecmp(where, off_words[i]) == 0)
            *where = 0;
    }
}

static void read_options(void) {
    struct cushim_options *options = &cushim_engine.options;
    cushim_options_load(options);
    forget_off_word(options->stats);
    size_t dedicated_bytes = options->large;
    if (options->ipc && dedicated_bytes > DEDICATED_FOR_IPC_BYTES)
        dedicated_bytes = DEDICATED_FOR_IPC_BYTES;
    atomic_store_explicit(&cushim_engine.policy.dedicated_bytes, dedicated_bytes,
                          memory_order_relaxed);
    cushim_engine.start_ns = cushim_clock_ns();
}

/* A driver without what we build on is left alone: every call goes to it as it came. */
static bool is_driver_usable(void) {
    const char *missing = cushim_driver() ? cushim_driver_missing() : NULL;
    if (missing)
        log_error("engine", "the driver has no %s: cushim is off", missing);
    return !missing;
}

bool cushim_engine_start(void) {
    int state = CUSHIM_ENGINE_UNREAD;
    if (atomic_compare_exchange_strong(&cushim_engine_state, &state, CUSHIM_ENGINE_READING)) {
        read_options();
        bool is_on = cushim_engine.options.cushim && is_driver_usable();
        state = is_on ? CUSHIM_ENGINE_ON : CUSHIM_ENGINE_OFF;
        atomic_store_explicit(&cushim_engine_state, state, memory_order_release);
    }
    while (state ==
           CUSHIM_ENGINE_READING) { /* another thread is at it: microseconds, once a process */
        sched_yield();
        state = atomic_load_explicit(&cushim_engine_state, memory_order_acquire);
    }
    return state == CUSHIM_ENGINE_ON;
}

/* The parent may have held any of our locks: the child touches none of them any more. */
static void switch_off_in_child(void) {
    atomic_store(&cushim_engine_state, CUSHIM_ENGINE_OFF);
}

static void register_fork_handler(void) {
    pthread_atfork(NULL, NULL, switch_off_in_child);
}

void cushim_engine_watch_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
}

void cushim_engine_count(enum cushim_row row) {
    static atomic_uint n_threads;
    struct cushim_thread *thread = &cushim_thread;
    if (thread->runtime_depth) /* the runtime's door counted this call */
        return;
    if (!thread->shard)
        thread->shard =
            atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) % CUSHIM_N_SHARDS + 1;
    atomic_fetch_add_explicit(&cushim_engine.shards[thread->shard - 1].calls[row], 1,
                              memory_order_relaxed);
}

uint64_t cushim_engine_calls(enum cushim_row row) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < CUSHIM_N_SHARDS; i++)
        sum += atomic_load_explicit(&cushim_engine.shards[i].calls[row], memory_order_relaxed);
    return sum;
}

struct cushim_mem_stats *cushim_engine_stats(struct cushim_cuda *cuda, enum cushim_kind kind) {
    CUdevice device = 0;
    if (cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= CUSHIM_MAX_DEVICES)
        device = 0;
    return &cushim_engine.stats[device][kind];
}
