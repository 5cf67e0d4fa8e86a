/*
 * What all entry points of the process share.
 *
 * It starts at the first need, never in a look-up.  Options are read once and are constant from
 * then on.  In a forked child of a process that used CUDA it is off for good: every call goes to
 * the driver unchanged, and no lock is taken (interposition.md E).  With an unfit driver it is off
 * until that driver goes.  All state is static and is never torn down (D6).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda/symbol.h"
#include "memory/layout/block.h"
#include "memory/policy.h"
#include "memory/stats.h"
#include "preload/events.h"
#include "preload/resolve/guard.h"
#include "preload/resolve/resolve.h"
#include "report/page.h"

struct cushim_mem_heap;
struct cushim_mem_request;

struct cushim_process {
    struct cushim_mem_blocks blocks;
    struct cushim_mem_policy policy;
    atomic_bool is_used;        /* memory was allocated or copied, so there is something to
                                 * report */
    int exit_status;            /* that exit was called with; 0 until then */
    atomic_bool is_driver_used; /* it was initialised, so no child can use it */
    atomic_bool is_watched;     /* the check, a recording or sites must see each block */
    bool is_orphan;             /* a forked child that may not use CUDA */
    atomic_bool is_plain;       /* nothing is asked for that the fast path would ignore */
    size_t large_copy_bytes; /* copies of this size and more are staged, or counted as not staged */
    /* Copies of fewer bytes are only judged, because nobody counts them and the report knows that
     * there was a copy; 0: all are counted.  The second is for copies that may return early. */
    atomic_size_t plain_copy_bytes, plain_async_bytes;
    pid_t process; /* that read the options, or was forked as a fresh one */
};

/* What a thread knows about itself.  The model is initial-exec, because the general one may
 * allocate (B5). */
struct cushim_thread {
    unsigned runtime_depth;       /* inside a runtime function that an entry point of ours called */
    unsigned host_function_depth; /* inside a host function of a stream (C11) */
    bool is_ending;               /* its destructors run, so it gets no shard */
    struct cushim_shard *shard;   /* its own; NULL: none yet, or all are taken */
    unsigned shared_shard;        /* if all are taken; 0: not asked yet */
    enum cushim_cuda_symbol symbol; /* of the last call on the slow path, for the check */
    int pinned_flags;               /* of the last request to the driver */
    /* the request that missed the fast path in the runtime's entry point which the thread is
     * inside; NULL: none */
    const struct cushim_mem_request *missed;
    struct CUctx_st *context; /* the heap found last, for this context */
    struct cushim_mem_heap *heap;
    uint64_t heap_epoch; /* of the guard; if it has changed, the heap above is stale */
    uint64_t fast_epoch; /* the same if nothing above forbids the fast path, else 0 */
};

extern _Thread_local struct cushim_thread cushim_thread __attribute__((tls_model("initial-exec")));

/* Call it when something that fast_epoch depends on has changed: the shard, a depth, or the heap's
 * epoch. */
static inline void cushim_thread_settle(struct cushim_thread *thread) {
    bool is_free = thread->shard && !thread->runtime_depth && !thread->host_function_depth;
    thread->fast_epoch = is_free ? thread->heap_epoch : 0;
}

/* Enter one level deeper, and leave it. */
static inline void cushim_thread_enter(unsigned *depth) {
    ++*depth;
    cushim_thread_settle(&cushim_thread);
}

static inline void cushim_thread_leave(unsigned *depth) {
    --*depth;
    cushim_thread_settle(&cushim_thread);
}

enum cushim_process_state {
    CUSHIM_PROCESS_UNREAD,
    CUSHIM_PROCESS_READING,
    CUSHIM_PROCESS_ON,
    CUSHIM_PROCESS_OFF,  /* for good */
    CUSHIM_PROCESS_UNFIT /* while the driver lacks what we need */
};

extern atomic_int cushim_process_state;
extern struct cushim_process cushim_process __attribute__((visibility("hidden")));

/* What the process counts, except what is still in the counters of its threads' caches. */
extern struct cushim_page cushim_page __attribute__((visibility("hidden")));

/* Read the options if that was not done, and judge the driver; true if cushim is on. */
bool cushim_process_start(void);

/* is_plain changes. */
void cushim_process_set_plain(bool is_plain);

/* A driver came or went, so judge at the next need what there is now.  Only stores atomics. */
void cushim_process_judge_anew(void);

/* May we do more than forward?  One load once started. */
static inline bool cushim_process_is_on(void) {
    int state = atomic_load_explicit(&cushim_process_state, memory_order_acquire);
    return state == CUSHIM_PROCESS_ON || (state < CUSHIM_PROCESS_ON && cushim_process_start());
}

/* The driver is in use: from now on a forked child switches itself off. */
void cushim_process_note_driver_use(void);

/* There is something to report.  It is written once, so that threads do not fight for its cache
 * line.
 */
static inline void cushim_process_note_use(void) {
    if (!atomic_load_explicit(&cushim_process.is_used, memory_order_relaxed))
        atomic_store_explicit(&cushim_process.is_used, true, memory_order_relaxed);
}

/* The same for a thread without a shard of its own. */
void cushim_process_count_slowly(enum cushim_cuda_symbol symbol);

/* Count one call of a row, if this is the thread's outermost entry point. */
static inline void cushim_process_count(enum cushim_cuda_symbol symbol) {
    struct cushim_shard *shard = cushim_thread.shard;
    if (cushim_thread.runtime_depth) /* the runtime's entry point counted this call */
        return;
    cushim_thread.symbol = symbol;
    if (!shard) {
        cushim_process_count_slowly(symbol);
        return;
    }
    uint64_t n_calls = atomic_load_explicit(&shard->calls[symbol], memory_order_relaxed);
    atomic_store_explicit(&shard->calls[symbol], n_calls + 1, memory_order_relaxed);
}

/* The counters of the current device; those of device 0 if none is current. */
struct cushim_mem_stats *cushim_process_stats(struct cushim_cuda *cuda, enum cushim_kind kind);

/* Count a call if cushim is on. */
static inline void cushim_process_note_call(enum cushim_cuda_symbol symbol) {
    if (cushim_process_is_on())
        cushim_process_count(symbol);
    else if (cushim_process.is_orphan)
        cushim_events.called_after_fork(symbol);
}

/* Count the call and return the driver's table; NULL if there is no driver. */
static inline struct cushim_cuda *cushim_call_begin(enum cushim_cuda_symbol symbol) {
    struct cushim_cuda *cuda = cushim_driver();
    if (cuda)
        cushim_process_note_call(symbol);
    return cuda;
}

/*
 * How a driver hook begins: `cuda` is the table and has the function; without a driver, or in one
 * that lacks the function, the hook returns here (B17).
 */
#define CUSHIM_ENTER(abi)                                                                          \
    struct cushim_cuda *cuda = cushim_call_begin(CUSHIM_SYMBOL_##abi);                             \
    if (!cuda || !cuda->abi)                                                                       \
        return CUDA_ERROR_NOT_INITIALIZED;
