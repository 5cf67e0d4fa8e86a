/*
 * Captures: streams whose work becomes a graph, and what that forbids.
 *
 * A capture begins on one stream and spreads to every stream that waits for an event recorded in
 * it.  A call that it forbids invalidates it; it then stays open, good for nothing, until its end
 * is called.
 */
#ifndef CUSHIM_SIM_CAPTURE_H
#define CUSHIM_SIM_CAPTURE_H

#include "tools/sim/driver/core/abi.h"
#include "graph.h"

#include <stdbool.h>

struct sim_context;
struct sim_event;
struct sim_stream;

struct sim_capture {
    unsigned long long id;
    CUstreamCaptureMode mode;
    unsigned long thread; /* that began it */
    struct sim_stream *origin;
    struct sim_graph *graph;
    bool is_graph_given; /* by the program, which keeps it */
    bool is_invalid;
    struct sim_capture *next;
};

/* Begin; graph: NULL for a new one. */
CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode,
                           struct sim_graph *graph, const struct sim_nodes *after);

/* End; the graph goes to the caller, NULL if it was invalidated or is not whole. */
CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **graph);

/* A node after the stream's tips, and the stream's new tip; takes the work. */
CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work);

/* An event recorded in, or waited for by, a stream of which one end or both are captured. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event);

/* What captures forbid; each refusal invalidates those that forbid it. */
CUresult sim_capture_refuse_unsafe(void);                            /* by the thread's mode */
CUresult sim_capture_refuse_legacy(const struct sim_stream *stream); /* work on the legacy stream */
CUresult sim_capture_refuse_wait(const struct sim_stream *stream);   /* the host waits or asks */
CUresult
sim_capture_refuse_context(const struct sim_context *context); /* any stream of it captures */
CUresult sim_capture_refuse(struct sim_stream *stream,
                            CUresult refusal); /* nothing to be captured */

/* A capturing stream is destroyed. */
void sim_capture_lose_stream(struct sim_stream *stream);

/* Whether a blocking stream of the legacy stream's context captures; nothing is invalidated. */
bool sim_capture_is_beside(const struct sim_stream *legacy);

#endif
