/*
 * The set of open stream captures of the process (HOOKS.md C7, docs/design.md section 8).
 *
 * Per process, not per context, since a capture spreads to streams of other contexts.  Every begin
 * and end is hooked; a stream has at most one capture, so an entry is keyed by its stream (and, for
 * the per-thread default stream, whose handle all threads share, by the thread).
 *
 * Lock: a reader-writer lock.  A record over a context is a reader, a begin a writer: so they never
 * meet.  It is held over the record and over the begin, neither of which can block.
 */
#ifndef CUSHIM_PRELOAD_CAPTURE_H
#define CUSHIM_PRELOAD_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/table.h"
#include "memory/gate.h"

/* What pools ask before they record. */
extern const struct cushim_mem_gate cushim_capture_gate;

extern atomic_uint cushim_capture_n_open;

static inline bool cushim_capture_is_open(void) {
    return atomic_load_explicit(&cushim_capture_n_open, memory_order_acquire) != 0;
}

/*
 * Does the calling thread itself capture, in a mode that forbids it what native forbids?  Such a
 * call goes to the driver and fails as it would natively.
 */
bool cushim_capture_is_own(struct cushim_cuda *cuda);

/* Around the driver's begin: nothing records in between.  `context` is the stream's, `answer` what
 * the driver said. */
void cushim_capture_begin_enter(void);
void cushim_capture_begin_leave(CUstream stream, CUcontext context, CUstreamCaptureMode mode,
                                CUresult answer);

/* After the driver's end. */
void cushim_capture_end(CUstream stream, CUresult answer);

/* The stream, or a whole context, is gone, and its captures with it. */
void cushim_capture_drop_stream(CUstream stream);
void cushim_capture_drop_context(CUcontext context);

#endif
