/*
 * Nodes of the host's memory (NUMA).  A ring is on the node of its device, because from another one
 * every byte crosses the link between the processors as well.  libnuma is not linked.
 */
#pragma once

#include <stdbool.h>

/*
 * From now on new pages of this thread come from this node if it has some; below 0 it is unknown.
 * False: nothing changed, because the kernel refuses, or the thread has a policy of its own.
 */
bool cushim_copy_node_prefer(int node);

/* From any node again. */
void cushim_copy_node_leave(void);
