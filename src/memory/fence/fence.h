/*
 * The fence of a context proves, with or without a wait, that all work submitted before a moment is
 * over.
 *
 * A block that is freed now belongs to the epoch `open`.  A fence closes an epoch E: `open` becomes
 * E+1, and then an event records the whole context for E (cuCtxRecordEvent, driver 12.5).  When the
 * event is over, all work is over that was submitted before any free of an epoch up to E.  Then
 * `done` rises to E, and those blocks may be reused (docs/internals/memory-engine.md, "Relaxed
 * frees"; tests/model has the proof).  An exact free waits until its own epoch is done.  While a
 * capture is open, and before driver 12.5, the driver's barrier is used instead.
 *
 *   free   submit; full fence (the exchange of the block's state); read open
 *   fence  raise open (an exchange, which is a full fence); record; publish the row
 *
 * A record is queried at once.  On an idle device it is over, and `done` rises.  If it is not over,
 * it becomes a row in flight.  If the record failed, the epoch has no row, and the next fence
 * covers it.  Rows are done in order.
 *
 * One thread at a time records and publishes, and no thread sees a row before.  A thread that
 * queries a row or waits for it pins it.  A row that is done is removed with its last pin, and its
 * event becomes a spare.
 *
 * Threads share records and waits.  A thread that finds another one recording says which epoch it
 * wants.  If the recorder's own record was over at once, it goes on with another one, because what
 * the driver touches for a record is in its core's caches.  Without that threads contend in the
 * driver: with 16 of them a record and query took 13 us (measured).  On a busy device the role is
 * free while one thread waits for the row, so a record never begins late and never covers work
 * submitted long after a thread arrived.  The others look two hundred times and then sleep, at most
 * 100 us while the role is taken and 1 ms during a wait.  The thread that gives up the role or ends
 * a wait wakes them.  So a recorder that a real-time thread keeps off its core runs again.
 *
 * All memory that a context allocated has one fence, because the driver's free of it waits for no
 * other context.  It does wait for contexts that copy from or to this one's device memory, and the
 * event covers these, too.  Fences are type-stable: the struct of a fence that was recorded once is
 * never freed.
 *
 * Lock: `lock` guards the rows and the spare events, and is not held over a driver call.  The
 * counters are atomic.  One thread at a time has each of the two roles.
 */
#pragma once

#include <pthread.h>

#include "cushim/status.h"
#include "memory/fence/record.h"
#include "memory/stats.h"

enum { CUSHIM_MEM_FENCE_SPARES = 256, CUSHIM_MEM_EPOCH_ROWS = 16, CUSHIM_MEM_LINE_BYTES = 64 };

/*
 * The capture guard: what the owner of a heap knows about open captures.  It is asked before each
 * wait.  A record over a context invalidates every capture of that context, so no capture may begin
 * during a record.  A heap does not know captures, so its owner passes these functions.
 */
enum cushim_mem_pass {
    CUSHIM_MEM_PASS_RECORD,  /* no capture is open, and none begins until leave is called */
    CUSHIM_MEM_PASS_RELAXED, /* one is open: do not record, do not leave, and use the driver's
                              * barrier */
    CUSHIM_MEM_PASS_OWN /* the calling thread captures: use the driver's barrier with the thread's
                         * own mode */
};

struct cushim_mem_capture_guard {
    bool (*is_open)(void); /* is a capture open?  A hint: one may begin a moment later */
    enum cushim_mem_pass (*enter)(void);
    void (*leave)(void); /* only after PASS_RECORD */
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
    uint64_t epoch, round; /* of launches whose output it brings out, 0: none; both constant */
    unsigned n_pins;
    struct cushim_mem_record record; /* constant while published */
    atomic_bool is_awaited; /* by one thread, for all that the row covers; not guarded by the
                             * lock */
};

struct cushim_mem_fence {
    struct cushim_cuda *cuda;
    const struct cushim_mem_capture_guard *guard;
    const struct cushim_mem_stream_host *host; /* of its stream fences; NULL: it has none */
    _Atomic(CUcontext) context;                /* NULL: abandoned */
    unsigned event_flags;                      /* blocking sync if the context sleeps in waits */
    atomic_uint life; /* counts abandons, under the lock, because events of an earlier life are
                       * gone */
    bool brings_out;  /* its records bring out what kernels printed */
    /* Each of these has its own cache line: what every free reads, what arriving threads write,
     * what all waiting threads read, and what only the recorder uses. */
    char before_open[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t open; /* from 1; only rises, also in later lives of the fence */
    char before_done[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t done; /* only rises */
    char before_effect[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t effect; /* noted at each copy */
    char before_wanted[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t wanted; /* the latest epoch that a thread wanted when it found another one
                                  * recording */
    char before_signal[CUSHIM_MEM_LINE_BYTES];
    atomic_uint signal;                   /* changes when something that sleepers wait for
                                           * changes */
    atomic_bool has_sleepers;             /* since the last wake */
    atomic_bool is_recording, is_polling; /* one thread each */
    atomic_uint n_rows;                   /* in flight; also read without the lock */
    char before_idle[CUSHIM_MEM_LINE_BYTES];
    struct cushim_mem_record idle;      /* it is over, and the recorder reuses it */
    atomic_uint_fast64_t printed_round; /* the output of launches up to this round is out */
    pthread_mutex_t lock;
    unsigned first; /* the oldest */
    struct cushim_mem_row rows[CUSHIM_MEM_EPOCH_ROWS];
    unsigned n_spares;
    CUevent spares[CUSHIM_MEM_FENCE_SPARES];
};

/*
 * How long the calling thread waited for the device, in all its fences; only rises.  The counters
 * of a device say how much its frees waited.  These say which free it was, if a caller reads them
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
 * The fence must be all zero, or abandoned.  The first relaxed free of a life waits, because
 * effects may have been submitted before there was a fence to note them.  With a guard its records
 * bring out what kernels printed, and waits sleep if the context's do; the context must be current,
 * because its flags are read.  With NULL nothing is recorded, because the host makes its own
 * records.
 */
void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context, const struct cushim_mem_capture_guard *guard);

/* The context is gone, and its events with it, so forget them.  All its epochs are done. */
void cushim_mem_fence_abandon(struct cushim_mem_fence *fence);

/*
 * The epoch that a block freed now belongs to; never 0.  The caller must have made a sequentially
 * consistent exchange, that of the block's state, after all work that it knows to be submitted.
 */
static inline uint64_t cushim_mem_fence_tag(const struct cushim_mem_fence *fence) {
    return atomic_load(&fence->open);
}

/* A block tagged e may be reused once e <= done. */
static inline uint64_t cushim_mem_fence_done(const struct cushim_mem_fence *fence) {
    return load_acquire(&fence->done);
}

/* Is the context gone? */
static inline bool cushim_mem_fence_is_gone(const struct cushim_mem_fence *fence) {
    return !atomic_load(&fence->context);
}

/* Is an epoch in flight?  Only a hint, because other threads start and query meanwhile. */
static inline bool cushim_mem_fence_is_in_flight(const struct cushim_mem_fence *fence) {
    return load_relaxed(&fence->n_rows) != 0;
}

/* The epoch that a relaxed free must wait for; 0: none. */
static inline uint64_t cushim_mem_fence_effect(const struct cushim_mem_fence *fence) {
    uint64_t epoch = atomic_load(&fence->effect);
    return epoch > cushim_mem_fence_done(fence) ? epoch : 0;
}

/**
 * Close the open epoch: record it and query the record, without a wait.
 * @param answer  the driver's own if it failed, else CUDA_SUCCESS
 * @return CUSHIM_OK (all tags read before the call are done, or covered by a record in flight, this
 *         thread's or another's) | CUSHIM_NOTREADY (not now: a capture is open, all rows are in
 *         flight, another thread records, or the driver is older than 12.5 and has no events of
 *         contexts; a later start or wait covers the epoch) | CUSHIM_NOMEM (no event to be had; as
 *         NOTREADY) | another status of `answer`: damage
 * Threads  any; the others go on
 * Stream   a record over the context; no wait
 */
enum cushim_status cushim_mem_fence_start(struct cushim_mem_fence *fence, CUresult *answer);

/**
 * Look whether epochs in flight are over.
 * @param answer  the driver's error if it is neither success nor not-ready (damage), else
 *                CUDA_SUCCESS
 * @return what cushim_mem_fence_done says now; one thread at a time asks the driver, the others get
 *         what is known
 * Threads  any
 * Stream   none; leaves captures valid
 */
uint64_t cushim_mem_fence_poll(struct cushim_mem_fence *fence, CUresult *answer);

/**
 * Wait until `epoch` is done, on the oldest record that covers it, which is made if there is none.
 * @param epoch        a tag, or what cushim_mem_fence_effect said
 * @param deadline_ns  of cushim_clock_ns; 0 is none.  With one, nothing that cannot be given up is
 *                     begun
 * @param stats        the wait is counted there if the device was busy
 * @param answer       the driver's own if it failed, else CUDA_SUCCESS
 * @return CUSHIM_OK (done) | CUSHIM_TIMEOUT (the deadline passed, or nothing can be recorded, and
 *         the barrier has no deadline) | CUSHIM_NOMEM (no event, or no memory for the barrier:
 *         nothing was waited for) | the status of `answer`: because of the caller's own capture, or
 *         damage
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
 *         the status of `answer`
 * Threads  any, with any current context, which is the same afterwards
 * Stream   host wait; opens no window in which a capture of another thread could be invalidated
 */
enum cushim_status cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                         struct cushim_mem_stats *stats, CUresult *answer);

/* Call it after submitting work whose effect the host can see (interposition.md C9). */
void cushim_mem_fence_note_effect(struct cushim_mem_fence *fence);

/* Close an epoch before a wait for all work of the context, which completes it. */
uint64_t cushim_mem_fence_close(struct cushim_mem_fence *fence);
void cushim_mem_fence_complete(struct cushim_mem_fence *fence, uint64_t epoch);

/**
 * The same before the program synchronises this very context, which covers as much as a record,
 * copies by other contexts included (docs/results/driver.md).
 * @return the epoch, complete once the synchronise that began afterwards has succeeded; 0, which is
 *         always complete, before driver 12.5, because what a synchronise covers there was not
 *         measured
 */
uint64_t cushim_mem_fence_synchronise(struct cushim_mem_fence *fence);
