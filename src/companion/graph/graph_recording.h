/*
 * Recordings: captures that were begun through this library and are open.
 *
 * A recording has the stream it began on, the pools and arenas attached to it, and the resources
 * that the graph will own.  It is counted with its context (companion/capture/known_captures.h)
 * from before the driver begins until after the driver ended.  The thread that ends it takes it off
 * the list first, so only one thread does.  Each end detaches the pools and stops the arenas.
 *
 * Lock: one mutex for the list, held over no driver call.
 */
#ifndef CUSHIM_COMPANION_GRAPH_RECORDING_H
#define CUSHIM_COMPANION_GRAPH_RECORDING_H

#include "companion/capture/graph_resources.h"

struct cushim_graph_recording;

/**
 * Begin to capture.
 * @param scope    its context is the stream's, and current
 * @param handle   the public argument: a way to find the recording when the context died
 * @param stream   not the legacy stream
 * @param options  checked by the caller: numbers in range
 * @param mode     the driver's
 * @return CUSHIM_OK | CUSHIM_CAPTURE (the stream captures) | what attaching or the driver said:
 * nothing is left
 */
enum cushim_status cushim_graph_recording_begin(struct cushim_scope *scope,
                                                const struct cushim_stream *handle, CUstream stream,
                                                const struct cushim_graph_options *options,
                                                CUstreamCaptureMode mode);

/**
 * End it.
 * @param graph  out: the driver's, the caller's from here on; NULL after a failure
 * @param resources  out: what it keeps, the caller being the owner; NULL after a failure
 * @return CUSHIM_OK | CUSHIM_STATE (none was begun here) | CUSHIM_EMPTYGRAPH | CUSHIM_CAPTURE (it
 * was invalidated and is over, or it is another thread's to end and goes on) | the driver's
 */
enum cushim_status cushim_graph_recording_end(struct cushim_scope *scope, CUstream stream,
                                              CUgraph *graph,
                                              struct cushim_graph_resources **resources);

/* End it and destroy its graph.  CUSHIM_OK even if it was invalidated. */
enum cushim_status cushim_graph_recording_abort(struct cushim_scope *scope, CUstream stream);

/* The context cannot be entered (is_dead: it is gone), so the capture of this handle is over. */
void cushim_graph_recording_lose(const struct cushim_stream *handle, bool is_dead);

/* Bytes were kept with the graph of this capture, if it is one of ours. */
void cushim_graph_recording_note_bytes(uint64_t capture_id, size_t bytes);

#endif
