/*
 * The fence of a context: proof that all work submitted before a moment is over.
 *
 * An event over the whole context (cuCtxRecordEvent, driver 12.5) is polled, then slept on, and
 * brings out what kernels printed.  While a capture is open, and before 12.5, the native barrier is
 * used instead.  How records and waits serve many blocks and threads is epoch.h.
 *
 * All memory that a context allocated has one fence: a native free of it waits for no other
 * context, but for one that copies from or to this one's device memory, which the event covers too.
 *
 * Fences are type-stable: nobody frees the struct of one that was ever recorded.
 *
 * Lock: `lock` guards the spare events.  It is not held over a driver call.
 */
#ifndef CUSHIM_MEMORY_FENCE_H
#define CUSHIM_MEMORY_FENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/types.h"
#include "cushim/status.h"
#include "memory/fence/epoch.h"
#include "memory/fence/capture_guard.h"
#include "memory/fence/launches.h"
#include "memory/fence/record.h"
#include "memory/stats.h"

enum { CUSHIM_MEM_FENCE_SPARES = 256 };

struct cushim_mem_fence {
    struct cushim_cuda *cuda;
    _Atomic(CUcontext) context; /* NULL: abandoned */
    unsigned event_flags;       /* blocking sync where the context sleeps in waits */
    pthread_mutex_t lock;
    CUevent spares[CUSHIM_MEM_FENCE_SPARES];
    unsigned n_spares;
    atomic_uint life; /* counts abandons, under the lock: an event of an earlier life is no more */
    bool brings_out;  /* its records bring out what kernels printed */
    struct cushim_mem_printed printed;
    struct cushim_mem_epochs epochs;
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

/* All zero, or abandoned. */
void cushim_mem_fence_begin(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                            CUcontext context);

/* The same, its records bring out what kernels printed, and waits sleep as the context's do: it
 * must be current, for its flags are read. */
void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context);

/* The context is gone, and its events with it: forget them.  All its epochs are done. */
void cushim_mem_fence_abandon(struct cushim_mem_fence *fence);

/*
 * The epoch that a block freed now belongs to; never 0.  The caller made a sequentially consistent
 * exchange after all it knows to be submitted: that of the block's state.
 */
static inline uint64_t cushim_mem_fence_tag(const struct cushim_mem_fence *fence) {
    return atomic_load(&fence->epochs.open);
}

/* A block tagged e may be reused once e <= done. */
static inline uint64_t cushim_mem_fence_done(const struct cushim_mem_fence *fence) {
    return atomic_load_explicit(&fence->epochs.done, memory_order_acquire);
}

/* Is an epoch in flight?  A hint, where others start and ask. */
static inline bool cushim_mem_fence_is_in_flight(const struct cushim_mem_fence *fence) {
    return atomic_load_explicit(&fence->epochs.n_rows, memory_order_relaxed) != 0;
}

/* The epoch that a relaxed free must wait for; 0 where there is nothing to wait for. */
static inline uint64_t cushim_mem_fence_effect(const struct cushim_mem_fence *fence) {
    uint64_t epoch = atomic_load(&fence->epochs.effect);
    return epoch > cushim_mem_fence_done(fence) ? epoch : 0;
}

/* The driver refused because of a capture that no hook of ours saw begin: not damage. */
static inline bool cushim_mem_fence_is_about_captures(CUresult answer) {
    return answer >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           answer <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

#endif
