/*
 * Memory of graphs: what the driver has taken for nodes that allocate.
 *
 * Nodes share memory, and a graph may never run, so the driver is asked how much there is: after a
 * launch in a process that has such nodes, and after a trim.  All of a device is one foreign
 * allocation (foreign.h), which the last change asked for.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct cushim_cuda;

/* The devices on which nodes allocate; 0 in most processes. */
extern atomic_uint_fast64_t cushim_graph_memory_devices;

/* A node was made that gives this address. */
void cushim_graph_memory_note(int device, CUdeviceptr address);

/* Does a node give this address?  If so, its free gives back memory of the graph. */
bool cushim_graph_memory_has(CUdeviceptr address);

/* Count what there is now. */
void cushim_graph_memory_look(struct cushim_cuda *cuda);
