/*
 * Stream fences: a point in the work of one stream, or of a whole context.
 *
 * A stream fence is complete once all work submitted before its record is over.  It has an event,
 * and belongs to the thread that recorded it, or to the struct in which that thread keeps it.
 * Fences of different owners share nothing but spare events.  A fence of a whole context is
 * recorded by cuCtxRecordEvent (driver 12.5).  If the driver lacks that, the fence has no event and
 * completes with the next wait for the whole context, which cushim_mem_stream_fence_wait does
 * itself.
 *
 * Waits complete stream fences, too, by the epochs of the context's fence (fence.h).  A wait closes
 * an epoch before it begins.  Once it is over, it completes that epoch, and all stream fences that
 * were recorded before.  The same epochs serve work without a stream fence, because its tag was
 * read after it was submitted.
 *
 * Once a context is gone, its fence is abandoned, and all its stream fences are complete.  The
 * owner of a stream fence keeps the context, and lets one thread at a time use the fence.
 */
#pragma once

#include "cuda/current_context.h"
#include "memory/fence/fence.h"

/*
 * The host of a fence knows the captures of its context, and handles the driver's answers.  `what`
 * names the public call for the text of a refusal; NULL: no text.
 */
struct cushim_mem_stream_host {
    /* May the driver be called for the context?  Not after the context or the process ended. */
    bool (*is_usable)(struct cushim_mem_fence *fence);
    /* CUSHIM_CAPTURE if a capture forbids a record on a stream (NULL: on the whole context) or a
     * wait for it; else CUSHIM_OK. */
    enum cushim_status (*refuse)(struct cushim_mem_fence *fence, const char *what,
                                 const CUstream *stream);
    /* The same for a record on the whole context.  After CUSHIM_OK no capture begins until leave.
     */
    enum cushim_status (*enter)(struct cushim_mem_fence *fence, const char *what);
    void (*leave)(struct cushim_mem_fence *fence);
    /* The status of the driver's answer to `entry`.  Notes damage of the context.  A failure
     * becomes the thread's last error unless is_quiet. */
    enum cushim_status (*answer)(struct cushim_mem_fence *fence, const char *entry, CUresult answer,
                                 bool is_quiet);
    /* Let a stream of the context wait in the device for an event of any context. */
    enum cushim_status (*order)(struct cushim_mem_fence *fence, CUstream stream, CUevent event);
    /* cushim_mem_stream_fence_is_quiet for the core, which is linked without this file. */
    bool (*is_quiet)(struct cushim_mem_fence *fence);
    /* Keep or release the context for an object that refers to it. */
    void (*keep)(struct cushim_mem_fence *fence);
    void (*let_go)(struct cushim_mem_fence *fence);
};

/* All zero: no fence. */
struct cushim_mem_stream_fence {
    struct cushim_mem_record record; /* of the context's fence; its event may be NULL */
    uint64_t epoch;                  /* read after the record; 0: known complete */
};

/**
 * Record a stream fence behind the work of a stream or of the whole context.
 * @param fence   of a context that has a host and is current
 * @param stream  the driver's handle: NULL is the legacy stream, CU_STREAM_PER_THREAD the calling
 *                thread's.  If the pointer is NULL, the whole context is recorded.
 * @param out     the caller releases it by cushim_mem_stream_fence_release; no fence after a
 *                failure
 * @return CUSHIM_OK | CUSHIM_CAPTURE (the stream takes part in a capture, or a capture is known and
 *         the legacy stream or the context would be recorded; nothing was recorded, and the capture
 *         stays valid) | CUSHIM_NOMEM | the driver's status
 * Threads  any
 * Stream   records on it, waits for nothing
 */
enum cushim_status cushim_mem_stream_fence_record(struct cushim_mem_fence *fence, const char *what,
                                                  const CUstream *stream,
                                                  struct cushim_mem_stream_fence *out);

/* Whether there is a fence. */
static inline bool
cushim_mem_stream_fence_is_some(const struct cushim_mem_stream_fence *stream_fence) {
    return stream_fence->record.fence != NULL;
}

/*
 * Whether it is complete.  Queries the driver once, and never again after it was complete.  Any
 * context may be current.  Captures stay valid.  Sets no error text.  True if the context is
 * damaged, because it runs no work any more.
 */
bool cushim_mem_stream_fence_is_complete(struct cushim_mem_stream_fence *stream_fence);

/**
 * Make a stream wait for it in the device.
 * @param fence   of the stream's context, which is current and need not be the stream fence's
 * @param stream  CUSHIM_CAPTURE if it takes part in a capture
 * @return CUSHIM_OK | CUSHIM_CAPTURE | the driver's status.  The host waits, like
 *         cushim_mem_stream_fence_wait, if the stream fence has no event
 */
enum cushim_status cushim_mem_stream_fence_order(struct cushim_mem_stream_fence *stream_fence,
                                                 struct cushim_mem_fence *fence, const char *what,
                                                 CUstream stream);

/**
 * Make the host wait for it.
 * @return CUSHIM_OK | CUSHIM_CAPTURE (it has no event, and a capture is known) | the driver's
 *         status
 */
enum cushim_status cushim_mem_stream_fence_wait(struct cushim_mem_stream_fence *stream_fence,
                                                const char *what);

/* Release it, complete or not.  It is no fence afterwards, and may be none before.  Makes a driver
 * call only if many events are spare. */
void cushim_mem_stream_fence_release(struct cushim_mem_stream_fence *stream_fence);

/* Make its context current, unless it is, until the end of the CUSHIM_ENTERED `entered`.  CUSHIM_OK
 * | CUSHIM_DEADCONTEXT (the driver is not called; no text) | the driver's status. */
enum cushim_status cushim_mem_stream_fence_enter(struct cushim_mem_fence *fence,
                                                 struct cushim_cuda **entered);

/* Whether a context has no work.  Uses a record, so it is false while a capture is known. */
bool cushim_mem_stream_fence_is_quiet(struct cushim_mem_fence *fence);

/* Wait for all work of the current context (cuCtxSynchronize). */
enum cushim_status cushim_mem_stream_fence_wait_all(struct cushim_mem_fence *fence);

/* Destroy its spare events, because the context ends or no object keeps it.  It is current. */
void cushim_mem_stream_fence_end(struct cushim_mem_fence *fence);
