/*
 * Nodes of the host's memory (NUMA): a ring lies on the one that its device hangs on, since from
 * another one every byte crosses the processors' link as well.  libnuma is not linked.
 */
#ifndef CUSHIM_COPY_NODE_H
#define CUSHIM_COPY_NODE_H

#include <stdbool.h>

/*
 * From here on new pages of this thread come from a node where it has some; below 0 it is unknown.
 * False: nothing changed, since the kernel refuses, or the thread has a policy of its own.
 */
bool cushim_copy_node_prefer(int node);

/* From anywhere again. */
void cushim_copy_node_leave(void);

#endif
