/* Nodes that the program adds to a graph by hand. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "graph.h"
#include "graph_work.h"
#include "tools/sim/driver/module/launch.h"

/* The device of the current context; NULL: there is none. */
static const struct sim_device *current_device(void) {
    struct sim_context *context;
    return sim_context_of_handle(NULL, &context) == CUDA_SUCCESS ? context->device : NULL;
}

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

/* Both revisions of the parameters begin alike. */
static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS_v1 *params, CUfunction function,
                            struct sim_work *work) {
    const struct sim_shape shape = {
        .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
        .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
        .shared_bytes = params->sharedMemBytes};
    return sim_launch_work(function, &shape, params->kernelParams, params->extra, current_device(),
                           work);
}

static CUresult add_kernel(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                           size_t n, const CUDA_KERNEL_NODE_PARAMS_v1 *params,
                           CUfunction function) {
    struct sim_work work;
    SIM_TRY(kernel_work(params, function, &work));
    return add(out, graph, dependencies, n, &work);
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    SIM_ENTER(cuGraphAddKernelNode);
    if (!nodeParams)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(add_kernel(phGraphNode, hGraph, dependencies, numDependencies, nodeParams,
                                nodeParams->func));
}

static CUDA_KERNEL_NODE_PARAMS_v1 old_params(const CUDA_KERNEL_NODE_PARAMS *params) {
    return (CUDA_KERNEL_NODE_PARAMS_v1){.func =
                                            params->func ? params->func : (CUfunction)params->kern,
                                        .gridDimX = params->gridDimX,
                                        .gridDimY = params->gridDimY,
                                        .gridDimZ = params->gridDimZ,
                                        .blockDimX = params->blockDimX,
                                        .blockDimY = params->blockDimY,
                                        .blockDimZ = params->blockDimZ,
                                        .sharedMemBytes = params->sharedMemBytes,
                                        .kernelParams = params->kernelParams,
                                        .extra = params->extra};
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphAddKernelNode_v2);
    if (!nodeParams)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const CUDA_KERNEL_NODE_PARAMS_v1 params = old_params(nodeParams);
    return sim_leave(
        add_kernel(phGraphNode, hGraph, dependencies, numDependencies, &params, params.func));
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
                        const CUgraphNodeParams *params) {
    struct sim_work work;
    SIM_TRY(sim_node_work(params, &work));
    return add(out, graph, dependencies, n, &work);
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

static CUresult add_child(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                          size_t n, CUgraph child_handle) {
    struct sim_graph *child;
    SIM_TRY(sim_graph_of_handle(child_handle, &child));
    struct sim_work work = {.kind = SIM_WORK_CHILD, .as.child = sim_graph_clone(child)};
    if (!work.as.child)
        return CUDA_ERROR_OUT_OF_MEMORY;
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
