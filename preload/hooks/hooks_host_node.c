/*
 * Hooks of host nodes: the driver gets thunks, the program sees its own functions (interposition.md
 * C11).  What the driver shows is translated, whether a capture or these calls made the node.
 */
#include "cuda/table.h"
#include "preload/state/process.h"
#include "preload/entry/host_function.h"

/* The parameters for the driver: `ours`, or the program's if there is nothing to wrap. */
static const CUDA_HOST_NODE_PARAMS *wrap(const CUDA_HOST_NODE_PARAMS *params,
                                         CUDA_HOST_NODE_PARAMS *ours) {
    if (!params || !cushim_process_is_on())
        return params;
    *ours = *params;
    ours->fn = cushim_host_function_wrap(params->fn);
    return ours;
}

CUSHIM_EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t n_dependencies,
                                          const CUDA_HOST_NODE_PARAMS *params) {
    CUSHIM_ENTER(cuGraphAddHostNode)
    CUDA_HOST_NODE_PARAMS ours;
    return cuda->cuGraphAddHostNode(node, graph, dependencies, n_dependencies, wrap(params, &ours));
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
    CUDA_HOST_NODE_PARAMS ours;
    return cuda->cuGraphHostNodeSetParams(node, wrap(params, &ours));
}

CUSHIM_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                    const CUDA_HOST_NODE_PARAMS *params) {
    CUSHIM_ENTER(cuGraphExecHostNodeSetParams)
    CUDA_HOST_NODE_PARAMS ours;
    return cuda->cuGraphExecHostNodeSetParams(exec, node, wrap(params, &ours));
}
