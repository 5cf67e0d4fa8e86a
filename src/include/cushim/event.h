/*
 * Events: points in the work of a stream, to wait for and to measure between.
 */
#ifndef CUSHIM_EVENT_H
#define CUSHIM_EVENT_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cushim_event_flag {
    CUSHIM_EVENT_FLAG_BLOCKING_SYNC = 1, /* a waiting thread sleeps instead of spinning */
    CUSHIM_EVENT_FLAG_NO_TIMING = 2,     /* cheaper; not for cushim_event_elapsed */
    CUSHIM_EVENT_FLAG_INTERPROCESS = 4   /* for cushim_event_ipc_get; together with NO_TIMING */
};

/**
 * Create an event.
 * @param ctx    NULL: the current context, else the primary one of the thread's device
 * @param flags  bits of enum cushim_event_flag
 * @param e      out; not recorded
 * @return CUSHIM_OK | INVALID | NOMEM | the driver's
 * Threads  any
 * Owner    caller: cushim_event_destroy
 */
CUSHIM_API enum cushim_status cushim_event_create(struct cushim_context *ctx, unsigned flags,
                                                  struct cushim_event **e);

/**
 * Destroy an event, or only a wrapper.
 * @param e  NULL is fine; queued waits for it stay
 * @return CUSHIM_OK, also if the context is dead | BADHANDLE | the driver's
 * Threads  any; returns at once
 */
CUSHIM_API enum cushim_status cushim_event_destroy(struct cushim_event *e);

/**
 * Record the work that a stream has so far.
 * @param e  what it recorded before is forgotten
 * @param s  of the event's context; may be NULL or CUSHIM_STREAM_PER_THREAD
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | BADDEVICE (another context) | CAPTURE
 *         (the legacy stream while a capture is known) | the driver's
 * Threads  any
 * Stream   queued on s; in a capture it marks a place in the graph
 */
CUSHIM_API enum cushim_status cushim_event_record(struct cushim_event *e, struct cushim_stream *s);

/**
 * Wait until the recorded work is over.
 * @param e  an event that was never recorded is over
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | CAPTURE (recorded in a capture) | the
 *         driver's, also for a failure of earlier work
 * Threads  any; blocks the calling one
 */
CUSHIM_API enum cushim_status cushim_event_synchronize(struct cushim_event *e);

/**
 * Check whether the recorded work is over.
 * @param e     as above
 * @param done  out; 1: over, 0: not yet, which is no failure
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | CAPTURE | the driver's
 * Threads  any; never blocks
 */
CUSHIM_API enum cushim_status cushim_event_query(struct cushim_event *e, int *done);

/**
 * Measure the time between two events.
 * @param start, end  of one context, recorded, over, and with timing
 * @param ms          out
 * @return CUSHIM_OK | INVALID | BADHANDLE (also: not recorded, no timing) | NOTREADY | BADDEVICE |
 *         CAPTURE | the driver's
 * Units    milliseconds; the device resolves about half a microsecond
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_event_elapsed(struct cushim_event *start,
                                                   struct cushim_event *end, float *ms);

/**
 * Make a handle for an event that other code created.
 * @param ctx  its context; NULL: the current one, else the primary one of the thread's device
 * @param cu   CUevent or cudaEvent_t; alive as long as the wrapper
 * @param e    out
 * @return CUSHIM_OK | INVALID | NOMEM | the driver's
 * Threads  any
 * Owner    the caller destroys the wrapper; the event still belongs to the code that created it
 */
CUSHIM_API enum cushim_status cushim_event_wrap(struct cushim_context *ctx, struct CUevent_st *cu,
                                                struct cushim_event **e);

/**
 * Get the driver's handle.
 * @param cu  out; valid while the event lives
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_event_handle(struct cushim_event *e, struct CUevent_st **cu);

/**
 * Make a handle by which another process opens the event.
 * @param e         of CUSHIM_EVENT_FLAG_INTERPROCESS
 * @param handle64  [64] bytes, out
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_event_ipc_get(struct cushim_event *e, void *handle64);

/**
 * Open an event of another process.
 * @param ctx       as in cushim_event_create
 * @param handle64  [64] bytes, from cushim_event_ipc_get of that process
 * @param e         out
 * @return CUSHIM_OK | INVALID | NOMEM | the driver's
 * Threads  any
 * Owner    caller: cushim_event_destroy
 */
CUSHIM_API enum cushim_status cushim_event_ipc_open(struct cushim_context *ctx,
                                                    const void *handle64, struct cushim_event **e);

#ifdef __cplusplus
}
#endif

#endif
