/*
 * Memory behind the allocation nodes of graphs.
 *
 * The address is found when the node is made, and the node and its copies own the block.  A launch
 * whose graph has no node that frees it leaves it allocated (is_unfreed), which is one owner more:
 * until a free outside, a launch of a graph that frees it, or the end of the context.  That is
 * judged when the call is made, not in stream order, as the driver does.
 */
#ifndef CUSHIM_SIM_GRAPH_MEMORY_H
#define CUSHIM_SIM_GRAPH_MEMORY_H

#include "graph.h"

#include <stdbool.h>

struct sim_stream;

/* CUDA_ERROR_INVALID_VALUE: something is unfreed that the launch would allocate again. */
CUresult sim_graph_memory_may_launch(const struct sim_graph *graph, bool is_auto_free);

/* The launch is in the stream: note what it leaves, and let go of what it frees behind it. */
CUresult sim_graph_memory_launched(const struct sim_graph *graph, struct sim_stream *stream);

#endif
