/* Graphs: made, instantiated, launched, destroyed. */
#include "tools/sim/runtime/core/thread.h"

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphCreate(pGraph, flags));
    return simrt_leave(error);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphDestroy(graph));
    return simrt_leave(error);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphGetNodes(graph, nodes, numNodes));
    return simrt_leave(error);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
    return simrt_leave(error);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags) {
    return cudaGraphInstantiate(pGraphExec, graph, flags);
}

static cudaError_t instantiate(const struct simrt_driver *cu, cudaGraphExec_t *executable,
                               cudaGraph_t graph, cudaGraphInstantiateParams *params) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !params)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        CUDA_GRAPH_INSTANTIATE_PARAMS asked = {.flags = params->flags,
                                               .hUploadStream = params->uploadStream};
        error = simrt_from_cu(cu->cuGraphInstantiateWithParams(executable, graph, &asked));
        params->errNode_out = asked.hErrNode_out;
        params->result_out = (cudaGraphInstantiateResult)asked.result_out;
    }
    return simrt_leave(error);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *instantiateParams) {
    return instantiate(&simrt_legacy, pGraphExec, graph, instantiateParams);
}

cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *instantiateParams) {
    return instantiate(&simrt_per_thread, pGraphExec, graph, instantiateParams);
}

static cudaError_t upload(const struct simrt_driver *cu, cudaGraphExec_t executable,
                          cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuGraphUpload(executable, stream));
    return simrt_leave(error);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
    return upload(&simrt_legacy, graphExec, stream);
}

cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t graphExec, cudaStream_t stream) {
    return upload(&simrt_per_thread, graphExec, stream);
}

static cudaError_t launch(const struct simrt_driver *cu, cudaGraphExec_t executable,
                          cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuGraphLaunch(executable, stream));
    return simrt_leave(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
    return launch(&simrt_legacy, graphExec, stream);
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t graphExec, cudaStream_t stream) {
    return launch(&simrt_per_thread, graphExec, stream);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphExecDestroy(graphExec));
    return simrt_leave(error);
}
