/*
 * Stream fences: a point in the work of one stream, or of a whole context (ALL).
 *
 * A fence is complete once all work submitted before it was recorded is over.  It has an event, and
 * belongs to whoever recorded it: fences of several users share nothing but what is spare.  ALL is
 * cuCtxRecordEvent (driver 12.5); where that is missing such a fence has no event and completes
 * with the next wait for the whole context, which cushim_stream_fence_wait makes itself.
 *
 * Waits through this library complete fences, too: each begins a moment, and fences recorded before
 * it are complete after the wait.  Moments are the epochs of the context's fence
 * (memory/fence/fence.h), and events are its records.  The same numbers serve work that has no
 * fence yet: a number from cushim_stream_fence_moment, taken after the work was submitted, for
 * which cushim_stream_fence_is_past says whether the work is over.
 *
 * A fence of a dead context is complete.  The user of a fence keeps its context as long as it has
 * the fence, and lets one thread at it at a time.
 */
#ifndef CUSHIM_COMPANION_STREAM_FENCE_H
#define CUSHIM_COMPANION_STREAM_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "companion/context/context.h"
#include "companion/context/call.h"

/* All zero is none. */
struct cushim_stream_fence {
    struct cushim_context_object *context; /* not kept: the user of the fence does */
    struct cushim_mem_record record; /* its event is NULL of a whole context before driver 12.5 */
    uint64_t moment;                 /* read after the record; 0: it was seen complete */
};

/**
 * Record a fence behind the work of a stream.
 * @param scope   its context is the stream's, and current
 * @param stream  the driver's handle; NULL: the legacy stream; CU_STREAM_PER_THREAD: the calling
 *                thread's
 * @param out     the caller's, for cushim_stream_fence_release; none after a failure
 * @return CUSHIM_OK | CUSHIM_CAPTURE (the stream takes part in a capture, or it is the legacy
 * stream and a known capture is open: nothing was recorded, the capture stays valid) |
 * CUSHIM_NOMEM | what the driver said; the error text is set
 * Threads  any  Stream  records on it, waits for nothing
 */
enum cushim_status cushim_stream_fence_record(struct cushim_scope *scope, CUstream stream,
                                              struct cushim_stream_fence *out);

/**
 * Record a fence behind all work of the scope's context.
 * @return as above; CUSHIM_CAPTURE: a capture is known there, or the driver knows of one
 */
enum cushim_status cushim_stream_fence_record_all(struct cushim_scope *scope,
                                                  struct cushim_stream_fence *out);

/*
 * Is it complete?  One query, none once it was seen.  Any current context; leaves captures valid;
 * no error text.  A context that is damaged runs nothing any more: true.
 */
bool cushim_stream_fence_is_complete(struct cushim_stream_fence *fence);

/**
 * Make a stream wait for it, in the device.
 * @param scope   its context is the stream's; it may be another than the fence's
 * @param stream  not one that takes part in a capture (CUSHIM_CAPTURE)
 * @return CUSHIM_OK | CUSHIM_CAPTURE | what the driver said.  A fence without an event is waited
 * for by the host, as by cushim_stream_fence_wait
 */
enum cushim_status cushim_stream_fence_order(struct cushim_scope *scope,
                                             struct cushim_stream_fence *fence, CUstream stream);

/**
 * Wait for it by the host.
 * @param scope  any context of the fence's device; it is made the fence's where that is needed
 * @return CUSHIM_OK | CUSHIM_CAPTURE (a fence without an event, while a capture is known) | what
 * the driver said
 */
enum cushim_status cushim_stream_fence_wait(struct cushim_scope *scope,
                                            struct cushim_stream_fence *fence);

/* Give it back, complete or not; it is none then, and may be before.  Makes a driver call only
 * where many events are spare. */
void cushim_stream_fence_release(struct cushim_stream_fence *fence);

/* ---- waits through the library ---- */

/* Wait for all work of the scope's context (cuCtxSynchronize), which is current. */
enum cushim_status cushim_stream_fence_wait_all(struct cushim_scope *scope);

/* End the present moment, before a wait for one stream or before a record: who reads the moment
 * that is returned submitted its work before. */
static inline uint64_t cushim_stream_fence_end_moment(struct cushim_context_object *context) {
    return cushim_mem_fence_close(&context->fence);
}

/*
 * The present moment of a context, for work without a fence; and whether such work is over.  The
 * caller made a sequentially consistent exchange after what it knows to be submitted.  Never 0.
 */
static inline uint64_t cushim_stream_fence_moment(struct cushim_context_object *context) {
    return cushim_mem_fence_tag(&context->fence);
}
static inline bool cushim_stream_fence_is_past(struct cushim_context_object *context,
                                               uint64_t moment) {
    return moment <= cushim_mem_fence_done(&context->fence);
}

/* ---- streams and contexts that go ---- */

/*
 * Who notes streams: pools.  Called with the stream alive and in the scope of its context, which
 * may not be current; records what is needed, destroys nothing.
 */
struct cushim_stream_fence_user {
    /* A stream is about to be destroyed, or its wrapper is. */
    void (*stream_goes)(struct cushim_scope *scope, CUstream stream);
    /* A wait for this stream, begun through the library, is over. */
    void (*stream_done)(struct cushim_scope *scope, CUstream stream, uint64_t begun);
};

/* The one that there is, for good.  Threads  any. */
void cushim_stream_fence_set_user(const struct cushim_stream_fence_user *only);

/* cushim_stream_destroy calls it before the driver's destroy; wrappers do too. */
void cushim_stream_fence_stream_goes(struct cushim_scope *scope, CUstream stream);

/* Whoever waited for a stream: `begun` is from cushim_stream_fence_end_moment before the wait. */
void cushim_stream_fence_stream_done(struct cushim_scope *scope, CUstream stream, uint64_t begun);

#endif
