#include "graph.h"

#include "tools/sim/driver/core/handle.h"

#include <stdint.h>
#include <stdlib.h>

static bool has(const struct sim_nodes *list, const struct sim_node *node) {
    for (size_t i = 0; i < list->n; i++) {
        if (list->nodes[i] == node)
            return true;
    }
    return false;
}

static bool append(struct sim_nodes *list, struct sim_node *node) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 4;
        struct sim_node **grown = realloc(list->nodes, cap * sizeof(struct sim_node *));
        if (!grown)
            return false;
        list->nodes = grown;
        list->cap = cap;
    }
    list->nodes[list->n++] = node;
    return true;
}

bool sim_nodes_add(struct sim_nodes *list, struct sim_node *node) {
    return has(list, node) || append(list, node);
}

bool sim_nodes_copy(struct sim_nodes *list, const struct sim_nodes *from) {
    for (size_t i = 0; i < from->n; i++) {
        if (!sim_nodes_add(list, from->nodes[i]))
            return false;
    }
    return true;
}

void sim_nodes_finish(struct sim_nodes *list) {
    free(list->nodes);
    *list = (struct sim_nodes){NULL, 0, 0};
}

struct sim_graph *sim_graph_create(void) {
    struct sim_graph *graph = calloc(1, sizeof *graph);
    if (graph && !sim_handle_add(graph, SIM_HANDLE_GRAPH)) {
        free(graph);
        return NULL;
    }
    if (graph)
        graph->n_refs = 1;
    return graph;
}

struct sim_graph *sim_graph_ref(struct sim_graph *graph) {
    graph->n_refs++;
    return graph;
}

static void destroy_node(struct sim_node *node) {
    sim_handle_remove(node);
    sim_work_finish(&node->work);
    sim_nodes_finish(&node->after);
    free(node);
}

void sim_graph_unref(struct sim_graph *graph) {
    if (!graph || --graph->n_refs != 0)
        return;
    sim_handle_remove(graph);
    for (size_t i = 0; i < graph->nodes.n; i++)
        destroy_node(graph->nodes.nodes[i]);
    sim_nodes_finish(&graph->nodes);
    sim_user_rows_finish(&graph->objects);
    free(graph);
}

struct sim_node *sim_graph_add(struct sim_graph *graph, struct sim_work *work,
                               const struct sim_nodes *after) {
    struct sim_node *node = calloc(1, sizeof *node);
    if (!node) {
        sim_work_finish(work);
        return NULL;
    }
    node->graph = graph;
    node->work = *work;
    node->place = graph->nodes.n;
    if (!sim_handle_add(node, SIM_HANDLE_NODE) || !sim_nodes_copy(&node->after, after) ||
        !append(&graph->nodes, node)) {
        destroy_node(node);
        return NULL;
    }
    if (work->kind == SIM_WORK_CHILD)
        work->as.child->is_child = true;
    for (unsigned i = 0; work->kind == SIM_WORK_CONDITIONAL && i < work->as.conditional.n; i++)
        work->as.conditional.bodies[i]->is_child = true;
    return node;
}

static void drop(struct sim_nodes *list, const struct sim_node *node) {
    for (size_t i = 0; i < list->n; i++) {
        if (list->nodes[i] == node) {
            for (list->n--; i < list->n; i++)
                list->nodes[i] = list->nodes[i + 1];
        }
    }
}

void sim_graph_remove(struct sim_node *node) {
    struct sim_graph *graph = node->graph;
    drop(&graph->nodes, node);
    for (size_t i = 0; i < graph->nodes.n; i++) {
        graph->nodes.nodes[i]->place = i;
        drop(&graph->nodes.nodes[i]->after, node);
    }
    destroy_node(node);
}

struct sim_graph *sim_graph_clone(const struct sim_graph *graph) {
    struct sim_graph *copy = sim_graph_create();
    if (!copy)
        return NULL;
    if (!sim_user_rows_copy(&copy->objects, &graph->objects))
        goto error_copy;
    for (size_t i = 0; i < graph->nodes.n; i++) {
        struct sim_work work;
        struct sim_nodes none = {NULL, 0, 0};
        if (!sim_work_clone(&work, &graph->nodes.nodes[i]->work))
            goto error_copy;
        struct sim_node *node = sim_graph_add(copy, &work, &none);
        if (!node)
            goto error_copy;
        node->origin = graph->nodes.nodes[i]->origin;
    }
    /* Edges last, because one added by hand may point forward. */
    for (size_t i = 0; i < graph->nodes.n; i++) {
        const struct sim_nodes *after = &graph->nodes.nodes[i]->after;
        for (size_t k = 0; k < after->n; k++) {
            if (!append(&copy->nodes.nodes[i]->after, copy->nodes.nodes[after->nodes[k]->place]))
                goto error_copy;
        }
    }
    return copy;

error_copy:
    sim_graph_unref(copy);
    return NULL;
}

/* A walk backwards over the edges; `seen` is by place. */
static bool reaches(const struct sim_nodes *from, const struct sim_node *node, uint8_t *seen) {
    for (size_t i = 0; i < from->n; i++) {
        struct sim_node *at = from->nodes[i];
        if (at == node)
            return true;
        if (seen[at->place])
            continue;
        seen[at->place] = 1;
        if (reaches(&at->after, node, seen))
            return true;
    }
    return false;
}

bool sim_node_is_before(const struct sim_node *node, const struct sim_nodes *from) {
    uint8_t *seen = calloc(node->graph->nodes.n, 1);
    if (!seen)
        return false;
    bool is_before = reaches(from, node, seen);
    free(seen);
    return is_before;
}

CUresult sim_graph_of_handle(CUgraph handle, struct sim_graph **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_graph *)handle;
    return CUDA_SUCCESS;
}

CUresult sim_node_of_handle(CUgraphNode handle, struct sim_node **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_node *)handle;
    return CUDA_SUCCESS;
}

CUresult sim_nodes_of_handles(const struct sim_graph *graph, const CUgraphNode *handles, size_t n,
                              struct sim_nodes *out) {
    *out = (struct sim_nodes){NULL, 0, 0};
    if (n && !handles)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        struct sim_node *node;
        CUresult result = sim_node_of_handle(handles[i], &node);
        if (result == CUDA_SUCCESS && node->graph != graph)
            result = CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_SUCCESS && !sim_nodes_add(out, node))
            result = CUDA_ERROR_OUT_OF_MEMORY;
        if (result != CUDA_SUCCESS) {
            sim_nodes_finish(out);
            return result;
        }
    }
    return CUDA_SUCCESS;
}
