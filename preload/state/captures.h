/*
 * The set of open stream captures of the process (interposition.md C7,
 * docs/internals/memory-engine.md, "Captures").
 *
 * The set is of the process, because a capture spreads to streams of other contexts.  Every begin
 * and end is hooked.  A stream has at most one capture, so the stream is the key of an entry.  All
 * threads share the handle of the per-thread default stream, so its key includes the thread.  That
 * stream and its capture end with their thread.
 *
 * With CUSHIM_CAPTURE=serve the caller's own captures are served too.  If a thread frees a block
 * while it captures, the entries of its captures hold the block (memory/graph_resources.h).
 * When such a capture ends with a graph, the hold becomes a user object of that graph.  The driver
 * keeps it as long as the graph, a copy, or an executable of it lives.
 *
 * Lock: a reader-writer lock.  A record over a context is a reader, and a begin is a writer, so
 * they never meet.  It is held over the record and over the begin, and neither can block.  Locks of
 * contexts and heaps are taken inside it, never around it.
 */
#pragma once

#include "memory/fence/fence.h"
#include "preload/state/process.h"

/* Heaps ask it before they record. */
extern const struct cushim_mem_capture_guard cushim_capture_guard;

static inline bool cushim_capture_is_open(void) {
    return (cushim_guard_now() & CUSHIM_GUARD_CAPTURES) != 0;
}

/*
 * Does the calling thread itself capture, in a mode that forbids the call?  Then the call goes to
 * the driver, which refuses it.  Never with CUSHIM_CAPTURE=serve.
 */
bool cushim_capture_is_own(struct cushim_cuda *cuda);

/* Is the stream being captured? */
bool cushim_capture_is_captured(struct cushim_cuda *cuda, CUstream stream);

/**
 * With CUSHIM_CAPTURE=serve: free a LIVE block of ours inside the caller's own captures.
 * @param status  as cushim_mem_graph_resources_free has it; out of memory counts as success
 * @return false: the calling thread captures nothing, or the option is off: nothing was done
 * Threads  any
 * Stream   none: neither waits nor records
 */
bool cushim_capture_free(const struct cushim_mem_lookup *lookup, enum cushim_status *status);

/* A capture that begins. */
struct cushim_capture {
    CUstream stream;
    CUcontext context; /* of the stream */
    CUstreamCaptureMode mode;
    CUgraph graph; /* that it goes into; NULL: it makes one */
};

/*
 * Before and after the driver's begin; in between nothing records.  False: host memory is out, so
 * the capture could not be remembered.  Then answer CUDA_ERROR_OUT_OF_MEMORY, and do not leave.
 * `answer` is the driver's.
 */
bool cushim_capture_begin_enter(void);
void cushim_capture_begin_leave(const struct cushim_capture *capture, CUresult answer);

/* After the driver's end, which may have refused; `graph` is the graph that it gave, or NULL. */
void cushim_capture_end(struct cushim_cuda *cuda, CUstream stream, CUresult answer, CUgraph graph);

/* A stream, a whole context, or the driver is gone, and its captures with it. */
void cushim_capture_drop_stream(CUstream stream);
void cushim_capture_drop_context(CUcontext context);
void cushim_capture_drop_all(void);
