/* Graphs that are instantiated with parameters; the other calls of graphs are rows of names.def. */
#include "tools/sim/runtime/core/thread.h"

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

SIMRT_BOTH(cudaGraphInstantiateWithParams, _ptsz,
           TAKES(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                 cudaGraphInstantiateParams *instantiateParams),
           instantiate(cu, pGraphExec, graph, instantiateParams))
