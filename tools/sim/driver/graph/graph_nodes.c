/* Nodes that the program adds to a graph by hand. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "graph.h"
#include "graph_work.h"

#include <string.h>

/* A node of a work after others; takes the work. */
static CUresult add(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t n,
                    struct sim_work *work) {
    struct sim_graph *graph;
    struct sim_nodes after;
    CUresult result = out ? sim_graph_of_handle(handle, &graph) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = sim_nodes_of_handles(graph, dependencies, n, &after);
    if (result != CUDA_SUCCESS) {
        sim_work_finish(work);
        return result;
    }
    *out = (CUgraphNode)sim_graph_add(graph, work, &after);
    sim_nodes_finish(&after);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                             const CUgraphNode *dependencies, size_t numDependencies) {
    SIM_ENTER(cuGraphAddEmptyNode);
    struct sim_work work = {.kind = SIM_WORK_EMPTY};
    return sim_leave(add(phGraphNode, hGraph, dependencies, numDependencies, &work));
}

static CUresult add_kernel(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                           size_t n, const CUDA_KERNEL_NODE_PARAMS *params) {
    struct sim_work work;
    SIM_TRY(sim_node_work_of_kernel(params, &work));
    return add(out, graph, dependencies, n, &work);
}

/* Both revisions of the parameters begin alike. */
CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    SIM_ENTER(cuGraphAddKernelNode);
    CUDA_KERNEL_NODE_PARAMS params = {0};
    if (nodeParams)
        memcpy(&params, nodeParams, sizeof *nodeParams);
    return sim_leave(add_kernel(phGraphNode, hGraph, dependencies, numDependencies,
                                nodeParams ? &params : NULL));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphAddKernelNode_v2);
    return sim_leave(add_kernel(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    SIM_ENTER(cuGraphAddMemcpyNode);
    struct sim_work work;
    CUresult result = sim_node_work_of_copy(copyParams, ctx, &work);
    return sim_leave(result ? result
                            : add(phGraphNode, hGraph, dependencies, numDependencies, &work));
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
    SIM_ENTER(cuGraphAddMemsetNode);
    struct sim_work work;
    CUresult result = sim_node_work_of_set(memsetParams, ctx, &work);
    return sim_leave(result ? result
                            : add(phGraphNode, hGraph, dependencies, numDependencies, &work));
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphAddHostNode);
    struct sim_work work;
    CUresult result = sim_node_work_of_host(nodeParams, &work);
    return sim_leave(result ? result
                            : add(phGraphNode, hGraph, dependencies, numDependencies, &work));
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphAddBatchMemOpNode);
    struct sim_work work;
    CUresult result = sim_node_work_of_words(nodeParams, &work);
    return sim_leave(result ? result
                            : add(phGraphNode, hGraph, dependencies, numDependencies, &work));
}

static CUresult add_any(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t n,
                        CUgraphNodeParams *params) {
    struct sim_work work;
    SIM_TRY(sim_node_work(params, &work));
    SIM_TRY(add(out, graph, dependencies, n, &work));
    if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        params->conditional.phGraph_out = (CUgraph *)work.as.conditional.bodies;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphAddNode);
    return sim_leave(add_any(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphAddNode_v2);
    (void)dependencyData;
    return sim_leave(add_any(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphAddNode_v3);
    (void)dependencyData;
    return sim_leave(add_any(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

static CUresult add_child(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                          size_t n, CUgraph child) {
    struct sim_work work;
    SIM_TRY(sim_node_work_of_child(child, &work));
    return add(out, graph, dependencies, n, &work);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  CUgraph childGraph) {
    SIM_ENTER(cuGraphAddChildGraphNode);
    return sim_leave(add_child(phGraphNode, hGraph, dependencies, numDependencies, childGraph));
}

static CUresult get_child(CUgraphNode handle, CUgraph *out) {
    struct sim_node *node;
    SIM_TRY(sim_node_of_handle(handle, &node));
    if (!out || node->work.kind != SIM_WORK_CHILD)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)node->work.as.child;
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
    SIM_ENTER(cuGraphChildGraphNodeGetGraph);
    return sim_leave(get_child(hNode, phGraph));
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
    SIM_ENTER(cuGraphDestroyNode);
    struct sim_node *node;
    CUresult result = sim_node_of_handle(hNode, &node);
    if (result == CUDA_SUCCESS)
        sim_graph_remove(node);
    return sim_leave(result);
}

/* ---- edges ---- */

static CUresult add_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                          size_t n) {
    struct sim_graph *graph;
    SIM_TRY(sim_graph_of_handle(handle, &graph));
    if (n && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        struct sim_node *first, *second;
        SIM_TRY(sim_node_of_handle(from[i], &first));
        SIM_TRY(sim_node_of_handle(to[i], &second));
        if (first->graph != graph || second->graph != graph || first == second)
            return CUDA_ERROR_INVALID_VALUE;
        if (!sim_nodes_add(&second->after, first))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t numDependencies) {
    SIM_ENTER(cuGraphAddDependencies);
    return sim_leave(add_edges(hGraph, from, to, numDependencies));
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies) {
    SIM_ENTER(cuGraphAddDependencies_v2);
    (void)edgeData;
    return sim_leave(add_edges(hGraph, from, to, numDependencies));
}
