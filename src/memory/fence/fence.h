/*
 * The fence of a context: proof that all work submitted before a moment is over, with a wait or
 * without.
 *
 * A block freed now belongs to the epoch `open`.  A fence closes an epoch E: `open` becomes E+1
 * first, then E is recorded by an event over the whole context (cuCtxRecordEvent, driver 12.5).
 * Once that is over, so is all work that was submitted before any free of an epoch up to E, and
 * `done` rises to E: those blocks may be reused (docs/internals/memory-engine.md, "Relaxed frees";
 * tests/model has the proof).  An exact free waits until its own epoch is done.  While a capture is
 * open, and before 12.5, the native barrier is used instead.
 *
 *   free   submit; full fence (the exchange of the block's state); read open
 *   fence  raise open (an exchange, which is a full fence); record; publish the row
 *
 * A record is asked about at once: on an idle device it is over, and `done` rises.  Where it is
 * not, it becomes a row of those in flight.  Where the record failed the epoch has no row, and the
 * next fence covers it.  Rows are done in order.
 *
 * One thread at a time records and publishes; nobody sees a row before.  A thread that queries a
 * row or waits for it pins it; a row that is done leaves when its last pin goes, and its event
 * becomes a spare.
 *
 * Threads share records and waits.  Whoever finds another thread recording says which epoch it
 * wants, and that one goes on where its own was done at once: what the driver touches for a record
 * is in its core's caches.  Without that threads contend in the driver: 13 us a record and query
 * with 16 of them (measured).  On a busy device the role is free again while one thread waits for
 * the row: a record never begins later than it must, and never covers work submitted long after an
 * arrival.  Others look two hundred times and then sleep, at most 100 us while the role is taken
 * and 1 ms while a wait goes on; whoever gives up the role or ends a wait wakes them.  So a
 * recorder that a real-time thread keeps off its core runs again.
 *
 * All memory that a context allocated has one fence: a native free of it waits for no other
 * context, but for one that copies from or to this one's device memory, which the event covers too.
 * Fences are type-stable: nobody frees the struct of one that was ever recorded.
 *
 * Lock: `lock` guards the rows and the spare events; it is not held over a driver call.  The
 * counters are atomic, and two roles are held by one thread at a time.
 */
#ifndef CUSHIM_MEMORY_FENCE_H
#define CUSHIM_MEMORY_FENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "cushim/status.h"
#include "memory/fence/record.h"
#include "memory/stats.h"

enum { CUSHIM_MEM_FENCE_SPARES = 256, CUSHIM_MEM_EPOCH_ROWS = 16, CUSHIM_MEM_LINE_BYTES = 64 };

/*
 * The capture guard: what the host of a heap knows about open captures, asked before each wait.  A
 * record over a context invalidates every capture of that context, so none may be made while one
 * begins.  A heap does not know captures: whoever owns it hands it these functions.
 */
enum cushim_mem_pass {
    CUSHIM_MEM_PASS_RECORD,  /* no capture is open, and none begins until leave is called */
    CUSHIM_MEM_PASS_RELAXED, /* one is open: neither record nor leave, use native's own barrier */
    CUSHIM_MEM_PASS_OWN /* the calling thread captures: native's barrier, as the caller would meet
                           it */
};

struct cushim_mem_capture_guard {
    bool (*is_open)(void); /* is a capture open?  A hint: one may begin a moment later */
    enum cushim_mem_pass (*enter)(void);
    void (*leave)(void); /* after PASS_RECORD alone */
};

/* What enter says now; the guard is not held. */
static inline enum cushim_mem_pass
cushim_mem_capture_guard_ask(const struct cushim_mem_capture_guard *guard) {
    enum cushim_mem_pass pass = guard->enter();
    if (pass == CUSHIM_MEM_PASS_RECORD)
        guard->leave();
    return pass;
}

struct cushim_mem_row {
    uint64_t epoch, round; /* of launches whose printf it brings out, 0: none; both constant */
    unsigned n_pins;
    struct cushim_mem_record record; /* constant while published */
    atomic_bool is_awaited; /* by one thread, for all that the row covers; not the lock's */
};

struct cushim_mem_stream_host; /* memory/fence/stream_fence.h */

struct cushim_mem_fence {
    struct cushim_cuda *cuda;
    const struct cushim_mem_capture_guard *guard;
    const struct cushim_mem_stream_host *host; /* of stream fences; NULL: it has none */
    _Atomic(CUcontext) context;                /* NULL: abandoned */
    unsigned event_flags;                      /* blocking sync where the context sleeps in waits */
    atomic_uint life; /* counts abandons, under the lock: an event of an earlier life is no more */
    bool brings_out;  /* its records bring out what kernels printed */
    /* Each in lines of cache of its own: what every free reads, what arrivals write, what all who
     * wait look at, and what only the recorder has. */
    char before_open[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t open; /* from 1; only rises, in later lives of the fence too */
    char before_done[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t done; /* only rises */
    char before_effect[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t effect; /* noted at each copy */
    char before_wanted[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t wanted; /* the latest by who found another thread recording */
    char before_signal[CUSHIM_MEM_LINE_BYTES];
    atomic_uint signal;                   /* changes with what sleepers wait for */
    atomic_bool has_sleepers;             /* since the last wake */
    atomic_bool is_recording, is_polling; /* one thread each */
    atomic_uint n_rows;                   /* in flight; read without the lock too */
    char before_idle[CUSHIM_MEM_LINE_BYTES];
    struct cushim_mem_record idle;      /* over: who records makes it anew */
    atomic_uint_fast64_t printed_round; /* up to this round of launches that is out */
    pthread_mutex_t lock;
    unsigned first; /* the oldest */
    struct cushim_mem_row rows[CUSHIM_MEM_EPOCH_ROWS];
    unsigned n_spares;
    CUevent spares[CUSHIM_MEM_FENCE_SPARES];
};

/*
 * What the calling thread itself waited for the device, in all its fences; only rises.  The
 * counters of a device say how much its frees waited; these say which free it was, to who asks
 * before and after it.
 */
struct cushim_mem_waits {
    uint64_t n, ns;
};
extern _Thread_local struct cushim_mem_waits cushim_mem_waits_of_thread
    __attribute__((tls_model("initial-exec")));

/* A wait that began at start_ns is over, and found the device busy. */
void cushim_mem_waits_count(struct cushim_mem_stats *stats, uint64_t start_ns);

/*
 * All zero, or abandoned.  The first relaxed free of a life waits, since effects may have been
 * submitted before there was a fence to note them.  With a guard its records bring out what kernels
 * printed, and waits sleep as the context's do: it must be current, for its flags are read.  With
 * NULL nothing is recorded: the host records for itself.
 */
void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context, const struct cushim_mem_capture_guard *guard);

/* The context is gone, and its events with it: forget them.  All its epochs are done. */
void cushim_mem_fence_abandon(struct cushim_mem_fence *fence);

/*
 * The epoch that a block freed now belongs to; never 0.  The caller made a sequentially consistent
 * exchange after all it knows to be submitted: that of the block's state.
 */
static inline uint64_t cushim_mem_fence_tag(const struct cushim_mem_fence *fence) {
    return atomic_load(&fence->open);
}

/* A block tagged e may be reused once e <= done. */
static inline uint64_t cushim_mem_fence_done(const struct cushim_mem_fence *fence) {
    return atomic_load_explicit(&fence->done, memory_order_acquire);
}

/* Is the context gone? */
static inline bool cushim_mem_fence_is_gone(const struct cushim_mem_fence *fence) {
    return !atomic_load(&fence->context);
}

/* Is an epoch in flight?  A hint, where others start and ask. */
static inline bool cushim_mem_fence_is_in_flight(const struct cushim_mem_fence *fence) {
    return atomic_load_explicit(&fence->n_rows, memory_order_relaxed) != 0;
}

/* The epoch that a relaxed free must wait for; 0 where there is nothing to wait for. */
static inline uint64_t cushim_mem_fence_effect(const struct cushim_mem_fence *fence) {
    uint64_t epoch = atomic_load(&fence->effect);
    return epoch > cushim_mem_fence_done(fence) ? epoch : 0;
}

/**
 * Close the open epoch: record it and ask after it, without waiting.
 * @param answer  the driver's own where it failed, else CUDA_SUCCESS
 * @return CUSHIM_OK (all tags read before the call are done, or covered by a record in flight, this
 * thread's or another's) | CUSHIM_NOTREADY (not now: a capture is open, all rows are in flight,
 * another thread is at it, or the driver is older than 12.5 and has no events of contexts; a later
 * start or wait covers the epoch) | CUSHIM_NOMEM (no event to be had; as NOTREADY) | another status
 * of `answer`: damage
 * Threads  any; the others go on
 * Stream   a record over the context; no wait
 */
enum cushim_status cushim_mem_fence_start(struct cushim_mem_fence *fence, CUresult *answer);

/**
 * Look whether epochs in flight are over.
 * @param answer  the driver's own where it is neither success nor not-ready (damage), else
 * CUDA_SUCCESS
 * @return what cushim_mem_fence_done says now; one thread at a time asks the driver, the others get
 * what is known
 * Threads  any
 * Stream   none; leaves captures valid
 */
uint64_t cushim_mem_fence_poll(struct cushim_mem_fence *fence, CUresult *answer);

/**
 * Wait until `epoch` is done, on the oldest record that covers it; made where there is none.
 * @param epoch        a tag, or what cushim_mem_fence_effect said
 * @param deadline_ns  of cushim_clock_ns; 0 is none.  With one, nothing that cannot be given up is
 * begun
 * @param stats        the wait is counted there where the device was busy
 * @param answer       the driver's own where it failed, else CUDA_SUCCESS
 * @return CUSHIM_OK (done) | CUSHIM_TIMEOUT (the deadline passed, or nothing can be recorded and
 * the barrier would know no deadline) | CUSHIM_NOMEM (no event, or no memory for the barrier:
 * nothing was waited for) | the status of `answer`: of the caller's own capture, or damage
 * Threads  any, with any current context
 * Stream   host wait; never on device
 */
enum cushim_status cushim_mem_fence_await(struct cushim_mem_fence *fence, uint64_t epoch,
                                          uint64_t deadline_ns, struct cushim_mem_stats *stats,
                                          CUresult *answer);

/**
 * Wait until all work submitted to the context before this call is over, and what its kernels
 * printed is out.  The caller made a sequentially consistent exchange after what it submitted.
 * @param answer  the driver's own, CUDA_SUCCESS with CUSHIM_OK
 * @return CUSHIM_OK | CUSHIM_NOMEM (there is no memory for the barrier: nothing was waited for) |
 * the status of `answer`
 * Threads  any, with any current context, which is the same afterwards
 * Stream   host wait; opens no window in which a capture of another thread could be invalidated
 */
enum cushim_status cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                         struct cushim_mem_stats *stats, CUresult *answer);

/* After submitting work whose effect the host can see (interposition.md C9). */
void cushim_mem_fence_note_effect(struct cushim_mem_fence *fence);

/* Close an epoch ahead of a wait for all work of the context, which completes it. */
uint64_t cushim_mem_fence_close(struct cushim_mem_fence *fence);
void cushim_mem_fence_complete(struct cushim_mem_fence *fence, uint64_t epoch);

/*
 * The same ahead of the program's synchronise of this very context, which covers what a
 * record does: copies by others, too (docs/results/driver.md).
 * @return the epoch, complete once the synchronise that began afterwards has succeeded; 0, which is
 * complete anyway, before context events (12.5): nobody has measured what one covers there
 */
uint64_t cushim_mem_fence_synchronise(struct cushim_mem_fence *fence);

#endif
