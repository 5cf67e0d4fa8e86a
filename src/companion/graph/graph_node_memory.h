/*
 * Node memory: memory of allocation nodes that no node of the graph frees.
 *
 * The driver keeps it longer than the executable.  So we free it before we destroy the executable,
 * in the order of the stream of the last launch, while the executable still reserves the addresses.
 * If the program has freed it, the driver's error is ignored.
 *
 * Lock: the executable's.  It is held over such launches, because the last one must be known.
 */
#ifndef CUSHIM_COMPANION_GRAPH_NODE_MEMORY_H
#define CUSHIM_COMPANION_GRAPH_NODE_MEMORY_H

#include "companion/stream/stream.h"

struct cushim_graph_node_memory {
    CUdeviceptr *addresses; /* [n], owned */
    size_t n;
    bool is_launched;
    struct cushim_stream_object *stream; /* of the last launch; kept; NULL: a special one */
    CUstream handle;
    pthread_t thread; /* that launched: the per-thread stream is its own */
};

/* The memory that launches of a graph would leave; none if the driver cannot say. */
enum cushim_status cushim_graph_node_memory_find(struct cushim_scope *scope, CUgraph graph,
                                                 struct cushim_graph_node_memory *left);

/* A launch was made. */
void cushim_graph_node_memory_note(struct cushim_graph_node_memory *left,
                                   const struct cushim_stream_use *use);

/* Free it in the driver: the executable is alive, and its context current.  If nothing can be
 * queued behind the last launch, wait for the context; if a capture is known there, the memory
 * stays. */
void cushim_graph_node_memory_free(struct cushim_scope *scope,
                                   struct cushim_graph_node_memory *left);

/* Let go of host memory. */
void cushim_graph_node_memory_finish(struct cushim_graph_node_memory *left);

#endif
