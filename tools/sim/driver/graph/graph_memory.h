/*
 * Memory behind the allocation nodes of graphs.
 *
 * The address is found when the node is made, and the node and its copies own the block.  If no
 * node of a graph frees it, a launch leaves it allocated (is_unfreed), which is one more owner,
 * until a free outside, a launch of a graph that frees it, or the end of the context.  That is
 * checked at the call, not in stream order, as by the driver.
 */
#pragma once

#include "graph.h"

#include <stdbool.h>

struct sim_stream;

/* CUDA_ERROR_INVALID_VALUE: something is unfreed that the launch would allocate again. */
CUresult sim_graph_memory_may_launch(const struct sim_graph *graph, bool is_auto_free);

/* The launch is in the stream: note what it leaves, and release what it frees. */
CUresult sim_graph_memory_launched(const struct sim_graph *graph, struct sim_stream *stream);
