/*
 * Host effects: work on a stream whose result the host can see (interposition.md C9).  Such work is
 * an asynchronous copy from or to the host, a value written to host memory, a host function, or the
 * launch of a graph.
 *
 * In `relaxed` mode a free waits for such work, and for nothing else.  The work is noted after the
 * driver has accepted it.  A context without a heap needs no note, because the first free into a
 * heap always waits.  In `exact` mode it costs one load to see that nothing is to be noted.
 */
#pragma once

#include "preload/state/contexts.h"

static inline bool cushim_host_effect_matters(void) {
    return cushim_process_is_on() && cushim_process.policy.is_relaxed && cushim_contexts_count();
}

/* Note work on a stream, of any context.  Returns the fence that has the note, or NULL. */
struct cushim_mem_fence *cushim_host_effect_note(struct cushim_cuda *cuda, CUstream stream);

/*
 * Note work on any stream, while effects matter, if only one context has a heap and the thread
 * remembers it.  Work of other contexts then counts as that context's, so a free may record one
 * event too many.  But asking the driver for the stream's context would cost more, at each call.
 * NULL: there are several contexts, or the thread remembers none.
 */
struct cushim_mem_fence *cushim_host_effect_note_sole(void);

/* Note work in all contexts: the nodes of a graph may be of any. */
void cushim_host_effect_note_all(void);

/* The program synchronises: after that, all work submitted before it is over. */
struct cushim_synchronise {
    struct cushim_mem_fence *fence; /* NULL: it concerns no heap's memory */
    uint64_t epoch;
};

/* Before the call, of a context (NULL: the current one). */
struct cushim_synchronise cushim_host_effect_synchronise(struct cushim_cuda *cuda,
                                                         CUcontext context);

/* After the call, which answered `answer`.  Returns that. */
CUresult cushim_host_effect_synchronised(const struct cushim_synchronise *synchronise,
                                         CUresult answer);
