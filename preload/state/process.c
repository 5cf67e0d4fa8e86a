#include "preload/state/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/thread_end.h"
#include "cuda/table.h"
#include "memory/cache/cache.h"
#include "preload/events.h"
#include "preload/resolve/elf.h"
#include "preload/resolve/fork.h"
#include "preload/state/contexts.h"
#include "preload/state/dma_readers.h"
#include "preload/state/live.h"
#include "preload/state/process_options.h"

_Thread_local struct cushim_thread cushim_thread __attribute__((tls_model("initial-exec")));
atomic_int cushim_process_state;
struct cushim_process cushim_process;
struct cushim_options cushim_process_options;

_Static_assert((int)CUSHIM_N_SYMBOLS <= (int)CUSHIM_PAGE_SYMBOLS,
               "a page has room for every symbol");

static bool has_read_options; /* written while the options are read */
static atomic_bool is_fast;   /* the guard says so */

static void set_fast(bool is) {
    if (atomic_exchange(&is_fast, is) == is)
        return;
    if (is)
        atomic_fetch_sub(&cushim_guard.now, CUSHIM_GUARD_UNUSUAL);
    else
        atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_UNUSUAL);
}

/* The child takes none of our locks any more, because another thread of the parent may have held
 * one. */
static void switch_off_in_child(void) {
    int cancel = cushim_cancel_hold();
    bool is_fresh = !atomic_load(&cushim_process.is_driver_used);
    cushim_process.process = getpid();
    cushim_live_in_child(is_fresh);
    cushim_events.forked(is_fresh);
    cushim_cancel_let(cancel);
    if (is_fresh)
        return;
    atomic_store(&cushim_process_state, CUSHIM_PROCESS_OFF);
    cushim_process.is_orphan = cushim_process_options.cushim;
    set_fast(false);
    cushim_mem_cache_leave_to_parent();
}

void cushim_process_note_driver_use(void) {
    if (!atomic_load_explicit(&cushim_process.is_driver_used, memory_order_relaxed))
        atomic_store(&cushim_process.is_driver_used, true);
}

/* Only glibc has it.  A function registered at the first use of CUDA is called before our
 * destructor. */
extern int on_exit(void (*called)(int status, void *argument), void *argument)
    __attribute__((weak));

static void note_exit(int status, void *unused) {
    (void)unused;
    cushim_process.exit_status = status;
}

static void read_options(void) {
    struct cushim_options *options = &cushim_process_options;
    cushim_options_load(options);
    if (cushim_object_copy(true)) /* of two copies only the first serves, because each would count
                                   * the other's memory */
        options->cushim = false;
    /* "off" becomes no name, because the counting code only looks at the name */
    if (cushim_option_is_off(options->stats))
        *options->stats = 0;
    atomic_store_explicit(&cushim_process.policy.dedicated_bytes, options->large,
                          memory_order_relaxed);
    cushim_process.policy.is_relaxed = options->free != 0;
    cushim_process.policy.keep = options->keep;
    cushim_process.policy.reserve = options->reserve;
    cushim_process.policy.has_keep = !cushim_amount_is_auto(options->keep);
    cushim_process.policy.make_room = cushim_contexts_make_room;
    cushim_process.policy.hold = cushim_contexts_hold;
    cushim_process.policy.let = cushim_contexts_let;
    cushim_process.policy.look_around = cushim_dma_readers_look;
    cushim_mem_sizeclass_choose((enum cushim_mem_scheme)options->buckets);
    bool is_seen = *options->stats || options->live || *options->trace;
    cushim_process.large_copy_bytes =
        options->copy_stage || is_seen ? options->copy_stage_min : SIZE_MAX;
    cushim_process.process = getpid();
    cushim_live_begin();
    cushim_events.configured();
    cushim_contexts_set_policies(); /* from what was set above */
    cushim_fork_watch(NULL, NULL, switch_off_in_child);
    if (*options->stats && on_exit)
        on_exit(note_exit, NULL);
    has_read_options = true;
}

/* The file that this code came from. */
static const char *own_file(void) {
    Dl_info info;
    return dladdr(&cushim_process, &info) && info.dli_fname ? info.dli_fname : "?";
}

/* A user with two copies gets one of them, perhaps not the wanted one. */
static void say_copy(void) {
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    const char *copy = cushim_object_copy(false);
    if (copy && !atomic_flag_test_and_set(&is_said))
        log_error("engine", "two cushim are preloaded: %s (%s) is first and serves, %s is off",
                  own_file(), CUSHIM_VERSION_TEXT, copy);
}

static void say_option(const char *entry, void *unused) {
    (void)unused;
    if (cushim_options_has(entry))
        log_info("engine", "set: %s", entry);
}

/* Says in the log whether cushim is active: once, and again when that changes. */
static void say_state(bool is_on) {
    static atomic_int told; /* 1: off, 2: on */
    if (!cushim_log_on(CUSHIM_LOG_INFO) || atomic_exchange(&told, 1 + is_on) == 1 + is_on)
        return;
    if (!is_on) {
        const char *first = cushim_object_copy(true);
        log_info("engine", "off in %s: every call goes to the driver as it came%s%s",
                 program_invocation_name,
                 first                           ? ", another cushim is first: "
                 : cushim_process_options.cushim ? ""
                                                 : " (CUSHIM=0)",
                 first ? first : "");
        return;
    }
    log_info("engine", "active in %s: cushim %s, %s", program_invocation_name, CUSHIM_VERSION_TEXT,
             own_file());
    cushim_environment_each(say_option, NULL);
}

void cushim_process_set_plain(bool is_plain) {
    atomic_store(&cushim_process.is_plain, is_plain);
    set_fast(is_plain && atomic_load(&cushim_process_state) == CUSHIM_PROCESS_ON);
}

/* A driver that lacks what we need gets every call unchanged. */
static int judge(void) {
    if (!cushim_process_options.cushim)
        return CUSHIM_PROCESS_OFF;
    const char *missing = cushim_driver() ? cushim_driver_missing() : NULL;
    if (missing)
        log_error("engine", "the driver has no %s: cushim is off", missing);
    return missing ? CUSHIM_PROCESS_UNFIT : CUSHIM_PROCESS_ON;
}

void cushim_process_judge_anew(void) {
    int on = CUSHIM_PROCESS_ON, unfit = CUSHIM_PROCESS_UNFIT;
    if (!atomic_compare_exchange_strong(&cushim_process_state, &on, CUSHIM_PROCESS_UNREAD))
        atomic_compare_exchange_strong(&cushim_process_state, &unfit, CUSHIM_PROCESS_UNREAD);
    set_fast(false);
}

/* Forks are held off meanwhile, so that no child finds a state which only a thread of its parent
 * would end. */
bool cushim_process_start(void) {
    int cancel = cushim_cancel_hold();
    bool is_held_off = cushim_fork_hold_off();
    int state = CUSHIM_PROCESS_UNREAD;
    bool is_first =
        atomic_compare_exchange_strong(&cushim_process_state, &state, CUSHIM_PROCESS_READING);
    if (is_first) {
        if (!has_read_options)
            read_options();
        state = judge();
        atomic_store(&cushim_page.head.is_software, cushim_driver_is_software());
        cushim_events.driver_judged();
        atomic_store(&cushim_process_state, state);
        cushim_process_set_plain(cushim_process.is_plain);
        if (state == CUSHIM_PROCESS_ON && cushim_driver_missing()) { /* a driver came meanwhile */
            cushim_process_judge_anew();
            state = CUSHIM_PROCESS_UNFIT;
        }
        cushim_futex_wake(&cushim_process_state);
    }
    cushim_fork_let_go(is_held_off);
    cushim_cancel_let(cancel);
    if (is_first && cushim_process_options.cushim)
        say_copy();
    if (is_first)
        say_state(state == CUSHIM_PROCESS_ON);
    /* another thread is reading them, for microseconds, once for each driver */
    for (int i = 0; state == CUSHIM_PROCESS_READING; i++) {
        if (i < CUSHIM_FUTEX_LOOKS)
            cushim_futex_pause();
        else
            cushim_futex_wait(&cushim_process_state, CUSHIM_PROCESS_READING, CUSHIM_FUTEX_LONG_NS);
        state = atomic_load_explicit(&cushim_process_state, memory_order_acquire);
    }
    return state == CUSHIM_PROCESS_ON;
}

static void end_thread(void *shard) {
    cushim_thread.is_ending = true;
    cushim_thread.shard = NULL;
    cushim_thread_settle(&cushim_thread);
    atomic_store_explicit(&((struct cushim_shard *)shard)->is_taken, false, memory_order_release);
}

CUSHIM_THREAD_END(watch_thread, end_thread)

/* A shard for this thread alone, which another thread may take after its end; NULL if all are
 * taken. */
static struct cushim_shard *take_shard(void) {
    for (unsigned i = 0; i < CUSHIM_N_OWN_SHARDS; i++) {
        struct cushim_shard *shard = &cushim_page_calls.shards[i];
        cushim_live_show(shard, sizeof *shard); /* before it is taken, because that is a store to
                                                 * it */
        if (atomic_load_explicit(&shard->is_taken, memory_order_relaxed) ||
            atomic_exchange_explicit(&shard->is_taken, true, memory_order_acquire))
            continue;
        if (watch_thread(shard))
            return shard;
        atomic_store_explicit(&shard->is_taken, false, memory_order_release);
        break;
    }
    return NULL;
}

static struct cushim_shard *shared_shard(const struct cushim_thread *thread) {
    return &cushim_page_calls.shards[CUSHIM_N_OWN_SHARDS + thread->shared_shard - 1];
}

void cushim_process_count_slowly(enum cushim_cuda_symbol symbol) {
    static atomic_uint n_sharing;
    struct cushim_thread *thread = &cushim_thread;
    if (!thread->shared_shard) {
        thread->shared_shard = atomic_fetch_add_explicit(&n_sharing, 1, memory_order_relaxed) %
                                   CUSHIM_N_SHARED_SHARDS +
                               1;
        thread->shard = thread->is_ending ? NULL : take_shard();
        if (!thread->shard)
            cushim_live_show(shared_shard(thread), sizeof *thread->shard);
        cushim_thread_settle(thread);
    }
    struct cushim_shard *shard = thread->shard ? thread->shard : shared_shard(thread);
    atomic_fetch_add_explicit(&shard->calls[symbol], 1, memory_order_relaxed);
}

struct cushim_mem_stats *cushim_process_stats(struct cushim_cuda *cuda, enum cushim_kind kind) {
    CUdevice device = 0;
    if (cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= CUSHIM_MAX_DEVICES)
        device = 0;
    cushim_live_show(cushim_page.stats[device], sizeof cushim_page.stats[device]);
    return &cushim_page.stats[device][kind];
}
