/*
 * Graphs and executables as objects.
 *
 * A graph has the driver's handle (NULL: it only holds memory) and graph resources
 * (companion/capture/graph_resources.h); an executable has a handle and the resources of the graph
 * that it was last made of or updated from.  Both own their resources, and both drop them after the
 * driver has destroyed the handle.
 *
 * An executable's resources are exchanged under its mutex, which is held over the driver's update;
 * a launch takes it only if it leaves node memory behind (struct cushim_graph_node_memory).
 */
#pragma once

#include "companion/capture/graph_resources.h"
#include "companion/stream/stream.h"

struct cushim_graph_object {
    struct cushim_object object;
    CUgraph handle;
    bool is_wrapped;
    struct cushim_graph_resources *resources; /* owned */
};

/*
 * Node memory: memory of allocation nodes that no node of the graph frees.
 *
 * The driver keeps it longer than the executable.  So we free it before we destroy the executable,
 * in the order of the stream of the last launch, while the executable still reserves the addresses.
 * If the program has freed it, the driver's error is ignored.
 *
 * Lock: the executable's.  It is held over such launches, because the last one must be known.
 */
struct cushim_graph_node_memory {
    bool has_nodes;         /* the graph has nodes that allocate */
    CUdeviceptr *addresses; /* [n], owned */
    size_t n;
    bool is_launched;
    struct cushim_stream_object *stream; /* of the last launch; kept; NULL: a special one */
    CUstream handle;
    pthread_t thread; /* that launched: the per-thread stream is its own */
};

struct cushim_graphexec_object {
    /* what the fast path of a launch reads, in two lines */
    struct cushim_object object;
    CUgraphExec handle;
    atomic_uint_fast64_t n_fast; /* the number of changes at which all conditions held */
    CUcontext must_be_current;   /* constant; NULL: whichever is (companion/module/launch.h) */
    atomic_ullong n_launches_of_counter;     /* written by one thread alone: */
    _Atomic(struct cushim_thread *) counter; /* NULL before the first launch */
    atomic_ullong n_launches;                /* of all the others */
    unsigned flags;
    /* it has nodes that allocate */
    struct cushim_graph_node_memory left; /* lock */
    atomic_ullong n_updates;
    pthread_mutex_t lock; /* of resources, updates, and of launches that leave memory */
    struct cushim_graph_resources *resources; /* owned */
};

/**
 * Give a driver's graph a handle.
 * @param handle  NULL: it only holds memory; passes to the object, as keep does: after a failure
 *                both are gone
 * @return CUSHIM_OK | CUSHIM_NOMEM
 */
enum cushim_status cushim_graph_open(struct cushim_scope *scope, CUgraph handle, bool is_wrapped,
                                     struct cushim_graph_resources *resources,
                                     struct cushim_graph **g);

/* Empty resources, whose memory goes back to pools and arenas; NULL: no memory. */
struct cushim_graph_resources *cushim_graph_create_resources(void);

/* Whether the driver can no longer destroy the graphs of a context. */
bool cushim_graph_is_gone(const struct cushim_context_object *context);

/* Count the nodes of each CUgraphNodeType; unknown types count as the last. */
enum { CUSHIM_GRAPH_N_TYPES = 16 };
/* All nodes, in an array to be freed, even after a failure. */
enum cushim_status cushim_graph_nodes(struct cushim_scope *scope, CUgraph graph,
                                      CUgraphNode **nodes, size_t *n);

enum cushim_status cushim_graph_count(struct cushim_scope *scope, CUgraph graph,
                                      size_t counts[CUSHIM_GRAPH_N_TYPES]);

/* Refuse a graph without a handle: cushim_pool_unfreeze made it. */
enum cushim_status cushim_graph_check_handle(struct cushim_scope *scope,
                                             const struct cushim_graph_object *graph);

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
