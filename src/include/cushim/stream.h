/*
 * Streams: queues of device work, created here or wrapped.
 *
 * As a stream argument, NULL is the legacy default stream and CUSHIM_STREAM_PER_THREAD the calling
 * thread's own default stream, both of the call's context.  A wrapped stream must outlive its
 * wrapper, because the wrapper does not keep it.
 */
#ifndef CUSHIM_STREAM_H
#define CUSHIM_STREAM_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cushim_stream_flag {
    CUSHIM_STREAM_FLAG_NON_BLOCKING = 1 /* it and the legacy stream do not wait for each other */
};

/**
 * Create a stream.
 * @param ctx       NULL: the current context, else the primary one of the thread's device
 * @param flags     of enum cushim_stream_flag; 0: it and the legacy stream wait for each other
 * @param priority  lower is more urgent; brought into the device's range; 0: the default
 * @param s         out
 * @return CUSHIM_OK | INVALID | NOMEM | the driver's
 * Threads  any
 * Owner    caller: cushim_stream_destroy
 */
CUSHIM_API enum cushim_status cushim_stream_create(struct cushim_context *ctx, unsigned flags,
                                                   int priority, struct cushim_stream **s);

/**
 * Get the range of priorities.
 * @param ctx       as above
 * @param least     out; the least urgent, the greater number
 * @param greatest  out; the most urgent
 * @return CUSHIM_OK | INVALID | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_stream_priority_range(struct cushim_context *ctx, int *least,
                                                           int *greatest);

/**
 * Get the priority that a stream has.
 * @param s         may be NULL or CUSHIM_STREAM_PER_THREAD
 * @param priority  out
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_stream_priority(struct cushim_stream *s, int *priority);

/**
 * Get the flags of a stream.
 * @param s      may be NULL or CUSHIM_STREAM_PER_THREAD
 * @param flags  out; of enum cushim_stream_flag
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | CAPTURE (the stream captures; the capture
 *         stays valid) | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_stream_flags(struct cushim_stream *s, unsigned *flags);

/**
 * Make a handle for a stream that other code created.
 * @param ctx  its context; NULL: the one that the driver names; for the default streams the current
 *             one
 * @param cu   CUstream or cudaStream_t; alive as long as the wrapper; NULL: the legacy stream
 * @param s    out
 * @return CUSHIM_OK | INVALID | BADDEVICE (of another context than ctx) | NOMEM | the driver's
 * Threads  any
 * Owner    the caller destroys the wrapper; the stream still belongs to the code that created it
 */
CUSHIM_API enum cushim_status cushim_stream_wrap(struct cushim_context *ctx, struct CUstream_st *cu,
                                                 struct cushim_stream **s);

/**
 * Get the driver's handle.
 * @param s   NULL and CUSHIM_STREAM_PER_THREAD have one too, which needs no driver
 * @param cu  out; valid while the stream lives; NULL: the legacy stream
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_stream_handle(struct cushim_stream *s,
                                                   struct CUstream_st **cu);

/**
 * Wait until all work of a stream is over.
 * @param s  may be NULL or CUSHIM_STREAM_PER_THREAD
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT | CAPTURE (it takes part in a capture, which stays
 *         valid) | the driver's, also for a failure of earlier work
 * Threads  any; blocks the calling one
 */
CUSHIM_API enum cushim_status cushim_stream_synchronize(struct cushim_stream *s);

/**
 * Check whether all work of a stream is over.
 * @param s     may be NULL or CUSHIM_STREAM_PER_THREAD
 * @param done  out; 1: over, 0: not yet, which is no failure
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | CAPTURE, as above | the driver's
 * Threads  any; never blocks
 */
CUSHIM_API enum cushim_status cushim_stream_query(struct cushim_stream *s, int *done);

/**
 * Make later work of a stream wait, on the device, for the recorded work of an event.
 * @param s  may be NULL or CUSHIM_STREAM_PER_THREAD, then of the event's context
 * @param e  also of another device; if it was never recorded, there is no wait
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | CAPTURE (it would leave or mix captures,
 *         which stay valid) | the driver's
 * Threads  any
 * Stream   queued on s; in a capture the wait becomes an edge
 */
CUSHIM_API enum cushim_status cushim_stream_wait_event(struct cushim_stream *s,
                                                       struct cushim_event *e);

/**
 * Destroy a stream, or only a wrapper.
 * @param s  NULL is fine
 * @return CUSHIM_OK, also if the context is dead | BADHANDLE | CAPTURE (nothing destroyed) | the
 *         driver's
 * Threads  any; returns at once, submitted work goes on
 */
CUSHIM_API enum cushim_status cushim_stream_destroy(struct cushim_stream *s);

#ifdef __cplusplus
}
#endif

#endif
