/*
 * Captures: streams whose work becomes a graph, and what that forbids.
 *
 * A capture begins on one stream and spreads to every stream that waits for an event recorded in
 * it.  A forbidden call invalidates it; it then stays open without use until its end is called.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "graph.h"

#include <stdbool.h>

struct sim_context;
struct sim_event;
struct sim_stream;

struct sim_capture {
    unsigned long long id;
    CUstreamCaptureMode mode;
    unsigned long thread; /* of the thread that began it */
    struct sim_stream *origin;
    struct sim_graph *graph;
    bool is_graph_given; /* from the program, which keeps it */
    bool is_invalid;
    struct sim_capture *next;
};

/* Begin; graph: NULL for a new one. */
CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode,
                           struct sim_graph *graph, const struct sim_nodes *after);

/* End; the caller gets the graph, or NULL if it was invalidated or is not complete. */
CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **graph);

/* A node after the stream's tips, which becomes the stream's new tip; takes the work. */
CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work);

/* An event recorded in, or waited for by, a stream, if one end or both are captured. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event);

/* What captures forbid; each refusal invalidates the captures that forbid it. */
CUresult sim_capture_refuse_unsafe(void);                            /* by the thread's mode */
CUresult sim_capture_refuse_legacy(const struct sim_stream *stream); /* work on the legacy stream */
CUresult sim_capture_refuse_wait(const struct sim_stream *stream);   /* the host waits or queries */
CUresult
sim_capture_refuse_context(const struct sim_context *context); /* any stream of it captures */
CUresult sim_capture_refuse(struct sim_stream *stream,
                            CUresult refusal); /* work that cannot be captured */

/* A capturing stream is destroyed. */
void sim_capture_lose_stream(struct sim_stream *stream);

/* Does a blocking stream of the legacy stream's context capture?  Nothing is invalidated. */
bool sim_capture_is_beside(const struct sim_stream *legacy);
