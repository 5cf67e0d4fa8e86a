#include "companion/graph/graph_node_memory.h"

#include <stdlib.h>

#include "companion/capture/known_captures.h"
#include "companion/graph/graph.h"

/* ---- finding ---- */

static void forget(struct cushim_graph_node_memory *left, CUdeviceptr address) {
    for (size_t i = 0; i < left->n; i++) {
        if (left->addresses[i] == address)
            left->addresses[i--] = left->addresses[--left->n];
    }
}

/* Add the memory of allocation nodes, then remove that of free nodes. */
static enum cushim_status look_at(struct cushim_scope *scope, CUgraphNode node,
                                  CUgraphNodeType wanted, struct cushim_graph_node_memory *left) {
    CUgraphNodeType type;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUdeviceptr freed;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphNodeGetType, node, &type));
    if (type != wanted)
        return CUSHIM_OK;
    if (wanted == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphMemAllocNodeGetParams, node, &params));
        left->addresses[left->n++] = params.dptr;
        return CUSHIM_OK;
    }
    CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphMemFreeNodeGetParams, node, &freed));
    forget(left, freed);
    return CUSHIM_OK;
}

enum cushim_status cushim_graph_node_memory_find(struct cushim_scope *scope, CUgraph graph,
                                                 struct cushim_graph_node_memory *left) {
    CUgraphNode *nodes;
    size_t n = 0;
    if (!CUSHIM_DRIVER(cuGraphMemAllocNodeGetParams) || !CUSHIM_DRIVER(cuGraphMemFreeNodeGetParams))
        return CUSHIM_OK;
    enum cushim_status status = cushim_graph_nodes(scope, graph, &nodes, &n);
    left->addresses = malloc((n + 1) * sizeof *left->addresses);
    if (status == CUSHIM_OK && !left->addresses)
        status = cushim_scope_fail(scope, CUSHIM_NOMEM, "nodes=%zu", n);
    for (size_t i = 0; i < 2 * n && status == CUSHIM_OK; i++)
        status = look_at(scope, nodes[i % n],
                         i < n ? CU_GRAPH_NODE_TYPE_MEM_ALLOC : CU_GRAPH_NODE_TYPE_MEM_FREE, left);
    free(nodes);
    if (status != CUSHIM_OK)
        cushim_graph_node_memory_finish(left);
    return status;
}

/* ---- launches ---- */

void cushim_graph_node_memory_note(struct cushim_graph_node_memory *left,
                                   const struct cushim_stream_use *use) {
    struct cushim_stream_object *before = left->stream;
    left->is_launched = true;
    left->handle = use->handle;
    left->thread = pthread_self();
    if (before == use->object)
        return;
    left->stream = cushim_object_keep(use->object);
    cushim_object_release(before);
}

/* Whether work can be queued on the stream of the last launch.  Our own streams are kept.  A
 * wrapped stream may end at any time once its wrapper is gone. */
static bool can_follow(const struct cushim_graph_node_memory *left) {
    if (left->handle == CU_STREAM_PER_THREAD && !pthread_equal(left->thread, pthread_self()))
        return false;
    if (left->stream && left->stream->is_wrapped && atomic_load(&left->stream->object.is_closed))
        return false;
    return CUSHIM_DRIVER(cuMemFreeAsync) && !cushim_stream_capture_id(left->handle);
}

void cushim_graph_node_memory_free(struct cushim_scope *scope,
                                   struct cushim_graph_node_memory *left) {
    if (!left->is_launched || !left->n)
        return;
    bool follows = can_follow(left);
    if (!follows &&
        (cushim_capture_count(scope->context) || CUSHIM_DRIVER(cuCtxSynchronize)() != CUDA_SUCCESS))
        return;
    for (size_t i = 0; i < left->n; i++) {
        if (follows)
            CUSHIM_DRIVER(cuMemFreeAsync)(left->addresses[i], left->handle);
        else
            CUSHIM_DRIVER(cuMemFree_v2)(left->addresses[i]);
    }
}

void cushim_graph_node_memory_finish(struct cushim_graph_node_memory *left) {
    free(left->addresses);
    cushim_object_release(left->stream);
    *left = (struct cushim_graph_node_memory){.n = 0};
}
