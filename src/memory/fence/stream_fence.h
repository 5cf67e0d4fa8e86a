/*
 * Stream fences: a point in the work of one stream, or of a whole context.
 *
 * A stream fence is complete once all work submitted before it was recorded is over.  It has an
 * event, and belongs to the thread that recorded it, or to what that thread keeps it in: fences of
 * several users share nothing but spare events.  One of a whole context is cuCtxRecordEvent (driver
 * 12.5).  Where that is missing it has no event and completes with the next wait for the whole
 * context, which cushim_mem_stream_fence_wait makes itself.
 *
 * Waits complete stream fences, too, by the epochs of the fence of the context (fence.h): a wait
 * closes an epoch before it begins, and once it is over completes that epoch and with it all stream
 * fences recorded before.  The same epochs serve work that has no stream fence yet: its tag was
 * read after it was submitted.
 *
 * Once a context is gone its fence is abandoned, and all its stream fences are complete.  Whoever
 * has a stream fence keeps its context, and lets one thread at it at a time.
 */
#ifndef CUSHIM_MEMORY_STREAM_FENCE_H
#define CUSHIM_MEMORY_STREAM_FENCE_H

#include <stdbool.h>

#include "memory/fence/fence.h"

/*
 * What the host of a fence knows of its context: of captures, and what to do with what the driver
 * says.  `what` names the public call, for the text of a refusal; NULL: no text.
 */
struct cushim_mem_stream_host {
    /* May the driver be called for the context?  Not once that or the process is gone. */
    bool (*is_usable)(struct cushim_mem_fence *fence);
    /* CUSHIM_CAPTURE if a capture forbids a record of a stream (NULL: of the whole context), or a
     * wait for it; else CUSHIM_OK. */
    enum cushim_status (*refuse)(struct cushim_mem_fence *fence, const char *what,
                                 const CUstream *stream);
    /* The same for a record of the whole context: after CUSHIM_OK no capture begins until leave. */
    enum cushim_status (*enter)(struct cushim_mem_fence *fence, const char *what);
    void (*leave)(struct cushim_mem_fence *fence);
    /* The status of what the driver said to `entry`, damage noted; a failure is the thread's last
     * error unless is_quiet. */
    enum cushim_status (*answer)(struct cushim_mem_fence *fence, const char *entry, CUresult answer,
                                 bool is_quiet);
    /* Let a stream of the context wait for an event of any context, in the device. */
    enum cushim_status (*order)(struct cushim_mem_fence *fence, CUstream stream, CUevent event);
    /* cushim_mem_stream_fence_is_quiet, for the core, which is linked without it. */
    bool (*is_quiet)(struct cushim_mem_fence *fence);
    /* Keep the context, or let go of it, for what is noted of it. */
    void (*keep)(struct cushim_mem_fence *fence);
    void (*let_go)(struct cushim_mem_fence *fence);
};

/* All zero is none. */
struct cushim_mem_stream_fence {
    struct cushim_mem_record record; /* its fence is the context's; its event may be NULL */
    uint64_t epoch;                  /* read after the record; 0: it was seen complete */
};

/**
 * Record a stream fence behind the work of a stream, or of the whole context.
 * @param fence   of a context that has a host and is current
 * @param stream  the driver's handle: NULL is the legacy stream, CU_STREAM_PER_THREAD the calling
 *                thread's.  Without one (the pointer is NULL) the whole context is recorded.
 * @param out     the caller's, for cushim_mem_stream_fence_release; none after a failure
 * @return CUSHIM_OK | CUSHIM_CAPTURE (the stream takes part in a capture; or it is the legacy
 *         stream, or the context is recorded, and a capture is known there: nothing was recorded,
 *         the capture stays valid) | CUSHIM_NOMEM | what the driver said
 * Threads  any
 * Stream   records on it, waits for nothing
 */
enum cushim_status cushim_mem_stream_fence_record(struct cushim_mem_fence *fence, const char *what,
                                                  const CUstream *stream,
                                                  struct cushim_mem_stream_fence *out);

/* Is there one? */
static inline bool
cushim_mem_stream_fence_is_some(const struct cushim_mem_stream_fence *stream_fence) {
    return stream_fence->record.fence != NULL;
}

/*
 * Is it complete?  One query, none once it was seen.  Any context may be current; captures stay
 * valid; no error text.  A context that is damaged runs nothing any more: true.
 */
bool cushim_mem_stream_fence_is_complete(struct cushim_mem_stream_fence *stream_fence);

/**
 * Make a stream wait for it, in the device.
 * @param fence   of the stream's context, which is current; it may be another than the stream
 * fence's
 * @param stream  not one that takes part in a capture (CUSHIM_CAPTURE)
 * @return CUSHIM_OK | CUSHIM_CAPTURE | what the driver said.  The host waits for a stream fence
 *         without an event, as by cushim_mem_stream_fence_wait
 */
enum cushim_status cushim_mem_stream_fence_order(struct cushim_mem_stream_fence *stream_fence,
                                                 struct cushim_mem_fence *fence, const char *what,
                                                 CUstream stream);

/**
 * Wait for it by the host.
 * @return CUSHIM_OK | CUSHIM_CAPTURE (it has no event, and a capture is known) | what the driver
 *         said
 */
enum cushim_status cushim_mem_stream_fence_wait(struct cushim_mem_stream_fence *stream_fence,
                                                const char *what);

/* Give it back, complete or not; it is none then, and may be before.  Makes a driver call only if
 * many events are spare. */
void cushim_mem_stream_fence_release(struct cushim_mem_stream_fence *stream_fence);

/* Make its context current, unless it is; leave puts back what was.  CUSHIM_OK |
 * CUSHIM_DEADCONTEXT (the driver is not called; no text) | what the driver said. */
enum cushim_status cushim_mem_stream_fence_enter(struct cushim_mem_fence *fence, bool *has_entered);
void cushim_mem_stream_fence_leave(struct cushim_mem_fence *fence, bool has_entered);

/* Has a context nothing to do?  Said by a record of it, so false while a capture is known. */
bool cushim_mem_stream_fence_is_quiet(struct cushim_mem_fence *fence);

/* Wait for all work of a context (cuCtxSynchronize), which is current. */
enum cushim_status cushim_mem_stream_fence_wait_all(struct cushim_mem_fence *fence);

/* Its spare events go: the context ends, or nobody keeps it any more.  It is current. */
void cushim_mem_stream_fence_end(struct cushim_mem_fence *fence);

#endif
