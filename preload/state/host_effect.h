/*
 * Effects: work whose result the host can see (HOOKS.md C9).
 *
 * In `relaxed` a free waits for it, and for nothing else: an asynchronous copy with a host end, a
 * word written to host memory, a host function, a graph launch.  Noted after the driver has taken
 * the work.  A context without a pool needs no note: the first free of a pool waits anyway.  In
 * `exact` all of this is one load.
 */
#ifndef CUSHIM_PRELOAD_HOST_EFFECT_H
#define CUSHIM_PRELOAD_HOST_EFFECT_H

#include "preload/state/contexts.h"

static inline bool cushim_host_effect_matters(void) {
    return cushim_process_is_on() && cushim_process.policy.is_relaxed && cushim_contexts_count();
}

/* On a stream of any context; returns the fence that noted it, NULL where there is none. */
struct cushim_mem_fence *cushim_host_effect_note(struct cushim_cuda *cuda, CUstream stream);

/*
 * For any stream and memory, while effects matter: where one context alone has a pool and this
 * thread knows it, note them there.  Work of others counts as its own then, for which a free may
 * make a record too many; the questions whose a stream is cost more, at each call.  NULL elsewhere.
 */
struct cushim_mem_fence *cushim_host_effect_note_sole(void);

/* Of contexts unknown: a graph has nodes of any. */
void cushim_host_effect_note_all(void);

/* A synchronise by the program: after it, what was freed or had effects before it is over. */
struct cushim_synchronise {
    struct cushim_mem_fence *fence; /* NULL: says nothing about any pool's memory */
    uint64_t epoch;
};

/* Ahead of it, of a context (NULL: the current one). */
struct cushim_synchronise cushim_host_effect_synchronise(struct cushim_cuda *cuda,
                                                         CUcontext context);

/* Behind it.  Returns `answer`, which is what it said. */
CUresult cushim_host_effect_synchronised(const struct cushim_synchronise *synchronise,
                                         CUresult answer);

#endif
