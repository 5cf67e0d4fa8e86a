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

/* Bytes were kept with the graph of this capture, if it is one of ours. */
void cushim_graph_recording_note_bytes(uint64_t capture_id, size_t bytes);
