/*
 * Stream fences: a point in the work of one stream, or of a whole context (ALL).
 *
 * A fence is complete once all work submitted before it was recorded is over.  It is an event of a
 * store that its context keeps, and belongs to whoever recorded it: fences of several users share
 * nothing.  ALL is cuCtxRecordEvent (driver 12.5); where that is missing such a fence has no event
 * and completes with the next wait for the whole context, which cushim_stream_fence_wait makes
 * itself.
 *
 * Waits through this library complete fences, too: each waits between
 * cushim_stream_fence_sync_begin and _end, and fences recorded before the begin are complete after
 * the end (`open` and `done` of the store, as the epochs of memory/fence/epoch.h).  The same
 * numbers serve work that has no fence yet: a number from cushim_stream_fence_moment, taken after
 * the work was submitted, for which cushim_stream_fence_is_past says whether the work is over.
 *
 * A fence of a dead context is complete.  The user of a fence keeps its context as long as it has
 * the fence.  Lock: one mutex a store for the spare fences, held over no driver call.
 */
#ifndef CUSHIM_COMPANION_STREAM_FENCE_H
#define CUSHIM_COMPANION_STREAM_FENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "companion/context/context.h"
#include "companion/context/call.h"

struct cushim_stream_fence;

/* What a context keeps. */
struct cushim_stream_fences {
    atomic_uint_fast64_t open; /* the present moment: rises when a wait begins */
    atomic_uint_fast64_t done; /* moments up to this one are past */
    pthread_mutex_t lock;
    struct cushim_stream_fence *spares; /* with events */
    unsigned n_spares;
};

/* Made with the first that is asked for; NULL where host memory is out, and
 * cushim_stream_fences_made where none was. */
struct cushim_stream_fences *cushim_stream_fences_make(struct cushim_context_object *context);
static inline struct cushim_stream_fences *
cushim_stream_fences_made(struct cushim_context_object *context) {
    return atomic_load_explicit(&context->marks, memory_order_acquire);
}
static inline struct cushim_stream_fences *
cushim_stream_fences_of(struct cushim_context_object *context) {
    struct cushim_stream_fences *store = cushim_stream_fences_made(context);
    return __builtin_expect(store != NULL, 1) ? store : cushim_stream_fences_make(context);
}

/**
 * Record a mark behind the work of a stream.
 * @param scope   its context is the stream's, and current
 * @param stream  the driver's handle; NULL: the legacy stream; CU_STREAM_PER_THREAD: the calling
 *                thread's
 * @param out     the caller's, for cushim_stream_fence_release; NULL after a failure
 * @return CUSHIM_OK | CUSHIM_CAPTURE (the stream takes part in a capture, or it is the legacy
 * stream and a known capture is open: nothing was recorded, the capture stays valid) |
 * CUSHIM_NOMEM | what the driver said; the error text is set
 * Threads  any  Stream  records on it, waits for nothing
 */
enum cushim_status cushim_stream_fence_record(struct cushim_scope *scope, CUstream stream,
                                              struct cushim_stream_fence **out);

/**
 * Record a mark behind all work of the scope's context.
 * @return as above; CUSHIM_CAPTURE: a capture is known there, or the driver knows of one
 */
enum cushim_status cushim_stream_fence_record_all(struct cushim_scope *scope,
                                                  struct cushim_stream_fence **out);

/*
 * Is it complete?  One query, none once it was seen.  Any current context; leaves captures valid;
 * no error text.  A context that is damaged runs nothing any more: true.
 */
bool cushim_stream_fence_is_complete(struct cushim_stream_fence *mark);

/**
 * Make a stream wait for it, in the device.
 * @param scope   its context is the stream's; it may be another than the mark's
 * @param stream  not one that takes part in a capture (CUSHIM_CAPTURE)
 * @return CUSHIM_OK | CUSHIM_CAPTURE | what the driver said.  A mark without an event is waited for
 * by the host, as by cushim_stream_fence_wait
 */
enum cushim_status cushim_stream_fence_order(struct cushim_scope *scope,
                                             struct cushim_stream_fence *mark, CUstream stream);

/**
 * Wait for it by the host.
 * @param scope  any context of the mark's device; it is made the mark's where that is needed
 * @return CUSHIM_OK | CUSHIM_CAPTURE (a mark without an event, while a capture is known) | what the
 * driver said
 */
enum cushim_status cushim_stream_fence_wait(struct cushim_scope *scope,
                                            struct cushim_stream_fence *mark);

/* Give it back, complete or not; NULL is fine.  Makes a driver call only where many are spare. */
void cushim_stream_fence_release(struct cushim_stream_fence *mark);

/* ---- waits through the library ---- */

/* Before a wait for all work of a context (cuCtxSynchronize), and after it has succeeded. */
uint64_t cushim_stream_fence_sync_begin(struct cushim_context_object *context);
void cushim_stream_fence_sync_end(struct cushim_context_object *context, uint64_t begun);

/*
 * The present moment of a context, for work without a mark; and whether such work is over.  The
 * caller made a sequentially consistent exchange after what it knows to be submitted.  Never 0.
 */
static inline uint64_t cushim_stream_fences_moment(struct cushim_stream_fences *store) {
    return store ? atomic_load(&store->open) : UINT64_MAX;
}
static inline uint64_t cushim_stream_fence_moment(struct cushim_context_object *context) {
    return cushim_stream_fences_moment(cushim_stream_fences_of(context));
}
bool cushim_stream_fence_is_past(struct cushim_context_object *context, uint64_t moment);

/* ---- streams and contexts that go ---- */

/*
 * Whoever notes streams: pools.  Called with the stream alive and in the scope of its context,
 * which may not be current; records what is needed, destroys nothing.
 */
struct cushim_stream_fence_user {
    /* A stream is about to be destroyed, or its wrapper is. */
    void (*stream_goes)(struct cushim_scope *scope, CUstream stream);
    /* A wait for this stream, begun through the library, is over; NULL: not of interest. */
    void (*stream_done)(struct cushim_scope *scope, CUstream stream, uint64_t begun);
    struct cushim_stream_fence_user *next;
};

/* Add one, for good: a static struct, once (a second time does nothing).  Threads  any. */
void cushim_stream_fence_add_user(struct cushim_stream_fence_user *user);

/* cushim_stream_destroy calls it before the driver's destroy; wrappers do too. */
void cushim_stream_fence_stream_goes(struct cushim_scope *scope, CUstream stream);

/* Whoever waited for a stream: `begun` is from cushim_stream_fence_sync_begin before the wait. */
void cushim_stream_fence_stream_done(struct cushim_scope *scope, CUstream stream, uint64_t begun);

/* The context object is being finished: its spare marks go. */
void cushim_stream_fence_end(struct cushim_context_object *context);

#endif
