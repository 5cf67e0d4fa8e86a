/*
 * Node memory: what allocation nodes got and no node of the graph frees.
 *
 * The driver keeps it beyond the executable, so whoever destroys the executable frees it before: in
 * the order of the stream of the last launch, while the executable still reserves the addresses.
 * For memory that the program has freed by itself the driver's refusal is ignored.
 *
 * Lock: the executable's, which is held over its launches then, since the last one counts.
 */
#ifndef CUSHIM_COMPANION_GRAPH_NODE_MEMORY_H
#define CUSHIM_COMPANION_GRAPH_NODE_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "companion/context/call.h"
#include "companion/stream/stream.h"

struct cushim_graph_node_memory {
    CUdeviceptr *addresses; /* [n], owned */
    size_t n;
    bool is_launched;
    struct cushim_stream_object *stream; /* of the last launch; kept; NULL: a special one */
    CUstream handle;
    pthread_t thread; /* that launched: the per-thread stream is its own */
};

/* What launches of a graph would leave; nothing where the driver cannot say. */
enum cushim_status cushim_graph_node_memory_find(struct cushim_scope *scope, CUgraph graph,
                                                 struct cushim_graph_node_memory *left);

/* A launch was made. */
void cushim_graph_node_memory_note(struct cushim_graph_node_memory *left,
                                   const struct cushim_stream_use *use);

/* Free it in the driver: the executable is alive, and its context current.  Where the last launch
 * cannot be followed the context is waited for, but not while a capture is known: then it stays. */
void cushim_graph_node_memory_free(struct cushim_scope *scope,
                                   struct cushim_graph_node_memory *left);

/* Let go of host memory. */
void cushim_graph_node_memory_finish(struct cushim_graph_node_memory *left);

#endif
