/*
 * The fence of a context: proof that all work submitted before a moment is over.
 *
 * A wait records one event over the whole context (cuCtxRecordEvent, driver 12.5), polls it, then
 * sleeps on it; before 12.5 it synchronises the context.  While a capture is open it frees a small
 * allocation of its own instead, which is native's barrier and leaves captures valid
 * (docs/design.md section 8).
 *
 * Contexts whose streams copied from or to this one's memory are linked: a wait covers them too.
 * Links stay until the other context goes.
 *
 * Lock: `lock` guards the spare events; links are appended without it.  None is held over a wait.
 */
#ifndef CUSHIM_MEMORY_FENCE_H
#define CUSHIM_MEMORY_FENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/table.h"
#include "cushim/status.h"
#include "memory/gate.h"
#include "memory/sharing.h"
#include "memory/stats.h"

enum { CUSHIM_MEM_FENCE_SPARES = 32, CUSHIM_MEM_FENCE_LINKS = 32 };

struct cushim_mem_fence {
    struct cushim_cuda *cuda;
    CUcontext context;
    unsigned event_flags; /* blocking sync where the context sleeps in waits */
    pthread_mutex_t lock;
    CUevent spares[CUSHIM_MEM_FENCE_SPARES];
    unsigned n_spares;
    unsigned life; /* counts abandons: an event of an earlier life is no spare of this one */
    _Atomic(struct cushim_mem_fence *) links[CUSHIM_MEM_FENCE_LINKS]; /* NULL-terminated, or full */
    struct cushim_mem_sharing sharing; /* one record serves all threads that wait at the time */
    atomic_bool is_flooded;            /* more links than places: every wait is native's barrier */
};

/* All zero, or abandoned.  The context must be current: its scheduling flags are read. */
void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context);

/* The context is gone, and its events with it: forget them. */
void cushim_mem_fence_abandon(struct cushim_mem_fence *fence);

/* From now on waits of `fence` cover `other` as well. */
void cushim_mem_fence_link(struct cushim_mem_fence *fence, struct cushim_mem_fence *other);

/* `other` is going away. */
void cushim_mem_fence_unlink(struct cushim_mem_fence *fence, const struct cushim_mem_fence *other);

/**
 * Wait until all work submitted to the context, and to linked ones, before this call is over.
 * @param answer  the driver's own, CUDA_SUCCESS with CUSHIM_OK
 * @return CUSHIM_OK | CUSHIM_NOMEM (a capture is open and there is no memory for the barrier:
 * nothing was waited for) | the status of `answer` Threads  any, with any current context, which is
 * the same afterwards Stream   host wait; opens no window in which a capture of another thread
 * could be invalidated
 */
enum cushim_status cushim_mem_fence_wait(struct cushim_mem_fence *fence,
                                         const struct cushim_mem_gate *gate,
                                         struct cushim_mem_stats *stats, CUresult *answer);

#endif
