#include "graph_run.h"

#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/stream/scheduler.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct sim_graph_run {
    struct sim_graph *graph; /* a reference */
    size_t n_left;
    uint8_t *is_done; /* by place */
    size_t *ready;    /* room for the choice of one turn */
};

static bool add_flat(struct sim_graph *flat, const struct sim_graph *graph,
                     const struct sim_nodes *after, struct sim_nodes *ends);

/* The graph that a node stands for; NULL: none, as for a conditional node that runs no body. */
static const struct sim_graph *inner_of(const struct sim_work *work) {
    if (work->kind == SIM_WORK_CHILD)
        return work->as.child;
    return work->as.conditional.chosen < work->as.conditional.n
               ? work->as.conditional.bodies[work->as.conditional.chosen]
               : NULL;
}

/* The copy of one node, or of the graph it stands for: what its followers wait for. */
static struct sim_node *add_node(struct sim_graph *flat, const struct sim_node *node,
                                 const struct sim_nodes *after) {
    struct sim_work work;
    if (node->work.kind != SIM_WORK_CHILD && node->work.kind != SIM_WORK_CONDITIONAL) {
        struct sim_node *copy =
            sim_work_clone(&work, &node->work) ? sim_graph_add(flat, &work, after) : NULL;
        if (copy)
            copy->origin = node;
        return copy;
    }
    struct sim_nodes inner = {NULL, 0, 0}, ends = {NULL, 0, 0};
    struct sim_node *end = NULL;
    work = (struct sim_work){.kind = SIM_WORK_EMPTY};
    struct sim_node *begin = sim_graph_add(flat, &work, after);
    const struct sim_graph *graph = inner_of(&node->work);
    if (begin && sim_nodes_add(&inner, begin) && (!graph || add_flat(flat, graph, &inner, &ends)) &&
        sim_nodes_add(&ends, begin)) {
        work = (struct sim_work){.kind = SIM_WORK_EMPTY};
        end = sim_graph_add(flat, &work, &ends);
    }
    sim_nodes_finish(&inner);
    sim_nodes_finish(&ends);
    return end;
}

/* Does everything before a node have its copy?  Then those copies, and `outer` for a root. */
static bool collect_before(const struct sim_node *node, struct sim_node *const *copies,
                           const struct sim_nodes *outer, struct sim_nodes *before,
                           bool *is_whole) {
    *is_whole = true;
    for (size_t i = 0; i < node->after.n; i++) {
        struct sim_node *copy = copies[node->after.nodes[i]->place];
        if (!copy)
            return false;
        *is_whole = *is_whole && sim_nodes_add(before, copy);
    }
    if (node->after.n == 0)
        *is_whole = sim_nodes_copy(before, outer);
    return true;
}

/* Copy in passes until every node is there; a pass that copies none means a cycle. */
static bool add_flat(struct sim_graph *flat, const struct sim_graph *graph,
                     const struct sim_nodes *after, struct sim_nodes *ends) {
    size_t n = graph->nodes.n, n_copied = 0, n_before_pass = n;
    struct sim_node **copies = calloc(n + 1, sizeof(struct sim_node *));
    bool is_whole = copies && sim_user_rows_copy(&flat->objects, &graph->objects);
    while (is_whole && n_copied < n && n_copied != n_before_pass) {
        n_before_pass = n_copied;
        for (size_t i = 0; i < n && is_whole; i++) {
            struct sim_nodes before = {NULL, 0, 0};
            if (!copies[i] &&
                collect_before(graph->nodes.nodes[i], copies, after, &before, &is_whole) &&
                is_whole) {
                copies[i] = add_node(flat, graph->nodes.nodes[i], &before);
                is_whole = copies[i] && sim_nodes_add(ends, copies[i]);
                n_copied++;
            }
            sim_nodes_finish(&before);
        }
    }
    free(copies);
    return is_whole && n_copied == n;
}

static struct sim_graph *flatten(const struct sim_graph *graph) {
    struct sim_graph *flat = sim_graph_create();
    struct sim_nodes none = {NULL, 0, 0}, ends = {NULL, 0, 0};
    bool is_whole = flat && add_flat(flat, graph, &none, &ends);
    sim_nodes_finish(&ends);
    if (is_whole)
        return flat;
    sim_graph_unref(flat);
    return NULL;
}

struct sim_exec *sim_exec_create(const struct sim_graph *graph, unsigned long long flags) {
    struct sim_exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        return NULL;
    exec->flags = flags;
    exec->graph = flatten(graph);
    if (!exec->graph || !sim_handle_add(exec, SIM_HANDLE_EXEC)) {
        sim_graph_unref(exec->graph);
        free(exec);
        return NULL;
    }
    return exec;
}

void sim_exec_destroy(struct sim_exec *exec) {
    sim_handle_remove(exec);
    sim_graph_unref(exec->graph);
    free(exec);
}

static bool is_alike(const struct sim_graph *a, const struct sim_graph *b) {
    if (a->nodes.n != b->nodes.n)
        return false;
    for (size_t i = 0; i < a->nodes.n; i++) {
        const struct sim_node *x = a->nodes.nodes[i], *y = b->nodes.nodes[i];
        if (x->work.kind != y->work.kind || x->after.n != y->after.n)
            return false;
        for (size_t k = 0; k < x->after.n; k++) {
            if (x->after.nodes[k]->place != y->after.nodes[k]->place)
                return false;
        }
    }
    return true;
}

bool sim_exec_update(struct sim_exec *exec, const struct sim_graph *graph) {
    struct sim_graph *flat = flatten(graph);
    if (!flat || !is_alike(exec->graph, flat)) {
        sim_graph_unref(flat);
        return false;
    }
    /* its nodes are identified by those of the graph from which it was made */
    for (size_t i = 0; i < flat->nodes.n; i++)
        flat->nodes.nodes[i]->origin = exec->graph->nodes.nodes[i]->origin;
    sim_graph_unref(exec->graph);
    exec->graph = flat;
    return true;
}

CUresult sim_exec_of_handle(CUgraphExec handle, struct sim_exec **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_exec *)handle;
    return CUDA_SUCCESS;
}

CUresult sim_exec_set(struct sim_exec *exec, const struct sim_node *node, struct sim_work *work) {
    struct sim_graph *copy = sim_graph_clone(exec->graph);
    CUresult result = copy ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; copy && i < copy->nodes.n; i++) {
        struct sim_node *found = copy->nodes.nodes[i];
        if (found->origin != node || found->work.kind != work->kind)
            continue;
        sim_work_finish(&found->work);
        found->work = *work;
        sim_graph_unref(exec->graph);
        exec->graph = copy;
        return CUDA_SUCCESS;
    }
    sim_graph_unref(copy);
    sim_work_finish(work);
    return result;
}

bool sim_graph_run_create(const struct sim_exec *exec, struct sim_work *work) {
    size_t n = exec->graph->nodes.n;
    struct sim_graph_run *run = calloc(1, sizeof *run);
    if (!run)
        return false;
    run->is_done = calloc(n + 1, 1);
    run->ready = calloc(n + 1, sizeof *run->ready);
    run->n_left = n;
    if (!run->is_done || !run->ready) {
        free(run->is_done);
        free(run->ready);
        free(run);
        return false;
    }
    run->graph = sim_graph_ref(exec->graph);
    *work = (struct sim_work){.kind = SIM_WORK_RUN, .as.run = run};
    return true;
}

void sim_graph_run_destroy(struct sim_graph_run *run) {
    sim_graph_unref(run->graph);
    free(run->is_done);
    free(run->ready);
    free(run);
}

bool sim_graph_run_touches(const struct sim_graph_run *run, const struct sim_context *root) {
    const struct sim_nodes *nodes = &run->graph->nodes;
    for (size_t i = 0; i < nodes->n; i++) {
        if (sim_work_touches(&nodes->nodes[i]->work, root))
            return true;
    }
    return false;
}

static bool is_ready(const struct sim_graph_run *run, const struct sim_node *node) {
    if (run->is_done[node->place])
        return false;
    for (size_t i = 0; i < node->after.n; i++) {
        if (!run->is_done[node->after.nodes[i]->place])
            return false;
    }
    return true;
}

bool sim_graph_run_turn(struct sim_graph_run *run, struct sim_stream *stream) {
    const struct sim_nodes *nodes = &run->graph->nodes;
    size_t n_ready = 0;
    for (size_t i = 0; i < nodes->n; i++) {
        if (is_ready(run, nodes->nodes[i]))
            run->ready[n_ready++] = i;
    }
    if (n_ready == 0)
        return true;
    struct sim_node *node = nodes->nodes[run->ready[sim_scheduler_draw(n_ready)]];
    if (sim_work_turn(&node->work, stream)) {
        run->is_done[node->place] = 1;
        run->n_left--;
    }
    return run->n_left == 0;
}
