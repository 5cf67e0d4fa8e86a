/* Parameters of nodes that are there already: of a graph, and of an executable one. */
#include "abi.h"
#include "calls.h"
#include "graph.h"
#include "graph_run.h"

static CUresult host_work(const CUDA_HOST_NODE_PARAMS *params, struct sim_work *work) {
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sim_work){.kind = SIM_WORK_HOST, .as.host = {params->fn, params->userData}};
    return CUDA_SUCCESS;
}

/* Takes the work. */
static CUresult set(CUgraphNode handle, struct sim_work *work) {
    struct sim_node *node;
    CUresult result = sim_node_of_handle(handle, &node);
    if (result == CUDA_SUCCESS && node->work.kind != work->kind)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
        sim_work_finish(work);
        return result;
    }
    sim_work_finish(&node->work);
    node->work = *work;
    return CUDA_SUCCESS;
}

/* The same for launches to come. */
static CUresult set_in_exec(CUgraphExec exec_handle, CUgraphNode handle, struct sim_work *work) {
    struct sim_exec *exec;
    struct sim_node *node;
    CUresult result = sim_exec_of_handle(exec_handle, &exec);
    if (result == CUDA_SUCCESS)
        result = sim_node_of_handle(handle, &node);
    if (result == CUDA_SUCCESS)
        return sim_exec_set(exec, node, work);
    sim_work_finish(work);
    return result;
}

static CUresult get_host(CUgraphNode handle, CUDA_HOST_NODE_PARAMS *params) {
    struct sim_node *node;
    SIM_TRY(sim_node_of_handle(handle, &node));
    if (!params || node->work.kind != SIM_WORK_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_HOST_NODE_PARAMS){node->work.as.host.fn, node->work.as.host.data};
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphHostNodeGetParams);
    return sim_leave(get_host(hNode, nodeParams));
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphHostNodeSetParams);
    struct sim_work work;
    CUresult result = host_work(nodeParams, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphExecHostNodeSetParams);
    struct sim_work work;
    CUresult result = host_work(nodeParams, &work);
    return sim_leave(result ? result : set_in_exec(hGraphExec, hNode, &work));
}

/* ---- the calls for nodes of any kind, of which host nodes alone are here ---- */

static CUresult any_work(const CUgraphNodeParams *params, struct sim_work *work) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type != CU_GRAPH_NODE_TYPE_HOST)
        return CUDA_ERROR_NOT_SUPPORTED;
    const CUDA_HOST_NODE_PARAMS host = {params->host.fn, params->host.userData};
    return host_work(&host, work);
}

static CUresult add_any(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t n,
                        const CUgraphNodeParams *params) {
    struct sim_work work;
    SIM_TRY(any_work(params, &work));
    return sim_node_add(out, handle, dependencies, n, &work);
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

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphNodeSetParams);
    struct sim_work work;
    CUresult result = any_work(nodeParams, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphExecNodeSetParams);
    struct sim_work work;
    CUresult result = any_work(nodeParams, &work);
    return sim_leave(result ? result : set_in_exec(hGraphExec, hNode, &work));
}
