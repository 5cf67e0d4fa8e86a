/*
 * Hooks of host nodes: the driver is handed thunks, the program sees its own functions (HOOKS.md
 * C11).  What the driver shows is translated whoever made the node: a capture, or these.
 */
#include "preload/engine.h"
#include "preload/host_function.h"

/* The parameters for the driver. */
static CUDA_HOST_NODE_PARAMS wrap(const CUDA_HOST_NODE_PARAMS *params) {
    CUDA_HOST_NODE_PARAMS ours = *params;
    if (cushim_engine_is_on())
        ours.fn = cushim_host_function_wrap(params->fn);
    return ours;
}

CUSHIM_EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t n_dependencies,
                                          const CUDA_HOST_NODE_PARAMS *params) {
    CUSHIM_ENTER(cuGraphAddHostNode)
    if (!params)
        return cuda->cuGraphAddHostNode(node, graph, dependencies, n_dependencies, params);
    CUDA_HOST_NODE_PARAMS ours = wrap(params);
    return cuda->cuGraphAddHostNode(node, graph, dependencies, n_dependencies, &ours);
}

CUSHIM_EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params) {
    CUSHIM_ENTER(cuGraphHostNodeGetParams)
    CUresult answer = cuda->cuGraphHostNodeGetParams(node, params);
    if (answer == CUDA_SUCCESS)
        params->fn = cushim_host_function_unwrap(params->fn);
    return answer;
}

CUSHIM_EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode node,
                                                const CUDA_HOST_NODE_PARAMS *params) {
    CUSHIM_ENTER(cuGraphHostNodeSetParams)
    if (!params)
        return cuda->cuGraphHostNodeSetParams(node, params);
    CUDA_HOST_NODE_PARAMS ours = wrap(params);
    return cuda->cuGraphHostNodeSetParams(node, &ours);
}

CUSHIM_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                    const CUDA_HOST_NODE_PARAMS *params) {
    CUSHIM_ENTER(cuGraphExecHostNodeSetParams)
    if (!params)
        return cuda->cuGraphExecHostNodeSetParams(exec, node, params);
    CUDA_HOST_NODE_PARAMS ours = wrap(params);
    return cuda->cuGraphExecHostNodeSetParams(exec, node, &ours);
}

/* ---- the calls for nodes of any kind ---- */

/* What to hand to the driver: `ours` for a host node, else what the program gave. */
static CUgraphNodeParams *wrap_any(CUgraphNodeParams *params, CUgraphNodeParams *ours) {
    if (!params || params->type != CU_GRAPH_NODE_TYPE_HOST || !cushim_engine_is_on())
        return params;
    *ours = *params;
    ours->host.fn = cushim_host_function_wrap(params->host.fn);
    return ours;
}

CUSHIM_EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t n_dependencies,
                                      CUgraphNodeParams *params) {
    CUSHIM_ENTER(cuGraphAddNode)
    CUgraphNodeParams ours;
    return cuda->cuGraphAddNode(node, graph, dependencies, n_dependencies, wrap_any(params, &ours));
}

CUSHIM_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph,
                                         const CUgraphNode *dependencies,
                                         const CUgraphEdgeData *edges, size_t n_dependencies,
                                         CUgraphNodeParams *params) {
    CUSHIM_ENTER(cuGraphAddNode_v2)
    CUgraphNodeParams ours;
    return cuda->cuGraphAddNode_v2(node, graph, dependencies, edges, n_dependencies,
                                   wrap_any(params, &ours));
}

CUSHIM_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params) {
    CUSHIM_ENTER(cuGraphNodeSetParams)
    CUgraphNodeParams ours;
    return cuda->cuGraphNodeSetParams(node, wrap_any(params, &ours));
}

CUSHIM_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                CUgraphNodeParams *params) {
    CUSHIM_ENTER(cuGraphExecNodeSetParams)
    CUgraphNodeParams ours;
    return cuda->cuGraphExecNodeSetParams(exec, node, wrap_any(params, &ours));
}
