/*
 * Executable graphs, and one launch of one.
 *
 * An executable graph is flat: nodes of child graphs are among the others, between two empty ones.
 * A launch holds the graph that it runs, so that it can end after the executable is destroyed or
 * updated.
 */
#pragma once

#include "graph.h"

#include <stdbool.h>

struct sim_stream;

struct sim_exec {
    unsigned long long flags;
    struct sim_graph *graph; /* flat, its own */
};

/* NULL: no memory, or a cycle of edges. */
struct sim_exec *sim_exec_create(const struct sim_graph *graph, unsigned long long flags);
void sim_exec_destroy(struct sim_exec *exec);

/* Replace it by another graph of the same shape; false: shapes differ, or no memory. */
bool sim_exec_update(struct sim_exec *exec, const struct sim_graph *graph);

/* Give the node for this one other work; takes the work, whatever happens. */
CUresult sim_exec_set(struct sim_exec *exec, const struct sim_node *node, struct sim_work *work);

CUresult sim_exec_of_handle(CUgraphExec handle, struct sim_exec **out);

/* A launch, as the work of a step; false: no memory. */
bool sim_graph_run_create(const struct sim_exec *exec, struct sim_work *work);
void sim_graph_run_destroy(struct sim_graph_run *run);

/* Like sim_work_touches, for any node. */
bool sim_graph_run_touches(const struct sim_graph_run *run, const struct sim_context *root);

/* A turn of one node, drawn among the ready ones; false: there are more. */
bool sim_graph_run_turn(struct sim_graph_run *run, struct sim_stream *stream);
