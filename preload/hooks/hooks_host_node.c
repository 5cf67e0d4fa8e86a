/*
 * Hooks of host nodes: the driver gets thunks, the program sees its own functions (interposition.md
 * C11).  What the driver shows is translated, whether a capture or these calls made the node.
 */
#include "preload/entry/host_function.h"
#include "preload/hooks/hook.h"

/* The parameters for the driver: `ours`, or the program's if there is nothing to wrap. */
static const CUDA_HOST_NODE_PARAMS *wrap(const CUDA_HOST_NODE_PARAMS *params,
                                         CUDA_HOST_NODE_PARAMS *ours) {
    if (!params || !cushim_process_is_on())
        return params;
    *ours = *params;
    ours->fn = cushim_host_function_wrap(params->fn);
    return ours;
}

HOOK(cuGraphHostNodeGetParams, TAKES(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params),
     ON_SUCCESS(REAL(node, params), params->fn = cushim_host_function_unwrap(params->fn)))

HOOK(cuGraphAddHostNode,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n_dependencies,
           const CUDA_HOST_NODE_PARAMS *params),
     return REAL(node, graph, dependencies, n_dependencies,
                 wrap(params, &(CUDA_HOST_NODE_PARAMS){0})))
HOOK(cuGraphHostNodeSetParams, TAKES(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
     return REAL(node, wrap(params, &(CUDA_HOST_NODE_PARAMS){0})))
HOOK(cuGraphExecHostNodeSetParams,
     TAKES(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
     return REAL(exec, node, wrap(params, &(CUDA_HOST_NODE_PARAMS){0})))
