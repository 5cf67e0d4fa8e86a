/*
 * Graphs: works and what they come after, as recorded from streams or added by hand.
 *
 * A graph owns its nodes, a node its work.  An executable graph runs its own copy (graph_run.h).
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "user_object.h"
#include "tools/sim/driver/stream/work.h"

#include <stdbool.h>
#include <stddef.h>

struct sim_node;

/* A list of nodes without duplicates. */
struct sim_nodes {
    struct sim_node **nodes;
    size_t n, cap;
};

struct sim_node {
    struct sim_graph *graph;
    struct sim_work work;
    struct sim_nodes after;        /* what it waits for: nodes of the same graph */
    size_t place;                  /* in the graph's list */
    const struct sim_node *origin; /* in an executable: the node that was copied; never
                                      dereferenced */
};

struct sim_graph {
    unsigned n_refs;        /* its owner, and the running launches of an executable one */
    struct sim_nodes nodes; /* in the order in which they were added */
    struct sim_user_rows objects;
    bool is_captured_into; /* by an open capture */
    bool is_child;         /* owned by a node: the program may look at it, but not destroy it */
};

/* Lists. */
bool sim_nodes_add(struct sim_nodes *list, struct sim_node *node);
bool sim_nodes_copy(struct sim_nodes *list, const struct sim_nodes *from);
void sim_nodes_finish(struct sim_nodes *list);

/* NULL: no memory. */
struct sim_graph *sim_graph_create(void);
struct sim_graph *sim_graph_clone(const struct sim_graph *graph);
struct sim_graph *sim_graph_ref(struct sim_graph *graph);
void sim_graph_unref(struct sim_graph *graph); /* NULL is fine */

/* A node after all of `after`; takes the work, whatever happens; NULL: no memory. */
struct sim_node *sim_graph_add(struct sim_graph *graph, struct sim_work *work,
                               const struct sim_nodes *after);
void sim_graph_remove(struct sim_node *node);

/* Is `node` one of `from`, or before one of them? */
bool sim_node_is_before(const struct sim_node *node, const struct sim_nodes *from);

/* From handles, checked. */
CUresult sim_graph_of_handle(CUgraph handle, struct sim_graph **out);
CUresult sim_node_of_handle(CUgraphNode handle, struct sim_node **out);
CUresult sim_nodes_of_handles(const struct sim_graph *graph, const CUgraphNode *handles, size_t n,
                              struct sim_nodes *out);
