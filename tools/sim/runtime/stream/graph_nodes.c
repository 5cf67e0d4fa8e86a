/*
 * Nodes of graphs whose parameters differ between runtime and driver: kernels, copies, and memory
 * of the graph.  All go through the driver's one call for nodes of any kind; the other kinds are
 * rows of names.def.
 */
#include "tools/sim/runtime/core/registry.h"
#include "tools/sim/runtime/core/thread.h"
#include "tools/sim/runtime/memory/copy_box.h"
#include "tools/sim/runtime/memory/symbol.h"

#include <string.h>

_Static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams),
               "one layout but for kernels and copies");

/* ---- parameters; each enters the runtime ---- */

static cudaError_t kernel_params(CUgraphNodeParams *to, const struct cudaKernelNodeParams *from) {
    cudaError_t error = simrt_enter();
    *to = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_KERNEL};
    if (error == cudaSuccess && !from)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return error;
    to->kernel.gridDimX = from->gridDim.x;
    to->kernel.gridDimY = from->gridDim.y;
    to->kernel.gridDimZ = from->gridDim.z;
    to->kernel.blockDimX = from->blockDim.x;
    to->kernel.blockDimY = from->blockDim.y;
    to->kernel.blockDimZ = from->blockDim.z;
    to->kernel.sharedMemBytes = from->sharedMemBytes;
    to->kernel.kernelParams = from->kernelParams;
    to->kernel.extra = from->extra;
    return simrt_registry_resolve(from->func, &to->kernel.func);
}

static cudaError_t box_params(CUgraphNodeParams *to, const struct cudaMemcpy3DParms *from) {
    cudaError_t error = simrt_enter();
    *to = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    return error != cudaSuccess ? error : simrt_describe_box(&to->memcpy.copyParams, from);
}

static cudaError_t line_params(CUgraphNodeParams *to, void *dst, const void *src, size_t count,
                               enum cudaMemcpyKind kind) {
    const struct cudaMemcpy3DParms line = {
        .dstPtr = {.ptr = dst, .pitch = count, .ysize = 1},
        .srcPtr = {.ptr = (void *)src, .pitch = count, .ysize = 1},
        .extent = {count, 1, 1},
        .kind = kind};
    return box_params(to, &line);
}

static cudaError_t to_symbol_params(CUgraphNodeParams *to, const void *symbol, const void *src,
                                    size_t count, size_t offset, enum cudaMemcpyKind kind) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? line_params(to, part, src, count, kind) : error;
}

static cudaError_t from_symbol_params(CUgraphNodeParams *to, void *dst, const void *symbol,
                                      size_t count, size_t offset, enum cudaMemcpyKind kind) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? line_params(to, dst, part, count, kind) : error;
}

static cudaError_t any_params(CUgraphNodeParams *to, const struct cudaGraphNodeParams *from) {
    if (!from)
        return cudaErrorInvalidValue;
    const struct cudaKernelNodeParamsV2 *kernel = &from->kernel;
    const struct cudaKernelNodeParams old_kernel = {.func = kernel->func,
                                                    .gridDim = kernel->gridDim,
                                                    .blockDim = kernel->blockDim,
                                                    .sharedMemBytes = kernel->sharedMemBytes,
                                                    .kernelParams = kernel->kernelParams,
                                                    .extra = kernel->extra};
    switch (from->type) {
    case cudaGraphNodeTypeKernel:
        return kernel_params(to, &old_kernel);
    case cudaGraphNodeTypeMemcpy:
        return box_params(to, &from->memcpy.copyParams);
    default:
        memcpy(to, from, sizeof *to);
        return simrt_enter();
    }
}

/* ---- what is done with them ---- */

/* `to` was filled with `error`; it keeps what the driver answers in it. */
static cudaError_t add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                       const cudaGraphEdgeData *edges, size_t n, CUgraphNodeParams *to,
                       cudaError_t error) {
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphAddNode_v2(
            node, graph, after, (const CUgraphEdgeData *)edges, n, to));
    return simrt_leave(error);
}

static cudaError_t set(cudaGraphNode_t node, CUgraphNodeParams *to, cudaError_t error) {
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphNodeSetParams(node, to));
    return simrt_leave(error);
}

static cudaError_t set_in_exec(cudaGraphExec_t exec, cudaGraphNode_t node, CUgraphNodeParams *to,
                               cudaError_t error) {
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuGraphExecNodeSetParams(exec, node, to));
    return simrt_leave(error);
}

/* The three calls of one kind of node, whose own parameters come last in each. */
#define NODE(add_abi, set_abi, set_in_exec_abi, own_parameters, own_params)                        \
    cudaError_t add_abi(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,                            \
                        const cudaGraphNode_t *pDependencies, size_t numDependencies,              \
                        own_parameters) {                                                          \
        CUgraphNodeParams to;                                                                      \
        cudaError_t error = own_params;                                                            \
        return add(pGraphNode, graph, pDependencies, NULL, numDependencies, &to, error);           \
    }                                                                                              \
    cudaError_t set_abi(cudaGraphNode_t node, own_parameters) {                                    \
        CUgraphNodeParams to;                                                                      \
        cudaError_t error = own_params;                                                            \
        return set(node, &to, error);                                                              \
    }                                                                                              \
    cudaError_t set_in_exec_abi(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,                  \
                                own_parameters) {                                                  \
        CUgraphNodeParams to;                                                                      \
        cudaError_t error = own_params;                                                            \
        return set_in_exec(hGraphExec, node, &to, error);                                          \
    }
#define OWN(...) __VA_ARGS__

NODE(cudaGraphAddKernelNode, cudaGraphKernelNodeSetParams, cudaGraphExecKernelNodeSetParams,
     OWN(const struct cudaKernelNodeParams *pNodeParams), kernel_params(&to, pNodeParams))
NODE(cudaGraphAddMemcpyNode, cudaGraphMemcpyNodeSetParams, cudaGraphExecMemcpyNodeSetParams,
     OWN(const struct cudaMemcpy3DParms *pNodeParams), box_params(&to, pNodeParams))
NODE(cudaGraphAddMemcpyNode1D, cudaGraphMemcpyNodeSetParams1D, cudaGraphExecMemcpyNodeSetParams1D,
     OWN(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
     line_params(&to, dst, src, count, kind))
NODE(cudaGraphAddMemcpyNodeToSymbol, cudaGraphMemcpyNodeSetParamsToSymbol,
     cudaGraphExecMemcpyNodeSetParamsToSymbol,
     OWN(const void *symbol, const void *src, size_t count, size_t offset,
         enum cudaMemcpyKind kind),
     to_symbol_params(&to, symbol, src, count, offset, kind))
NODE(cudaGraphAddMemcpyNodeFromSymbol, cudaGraphMemcpyNodeSetParamsFromSymbol,
     cudaGraphExecMemcpyNodeSetParamsFromSymbol,
     OWN(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
     from_symbol_params(&to, dst, symbol, count, offset, kind))

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                     struct cudaMemAllocNodeParams *nodeParams) {
    CUgraphNodeParams to = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    if (!nodeParams)
        return simrt_leave(cudaErrorInvalidValue);
    memcpy(&to.alloc, nodeParams, sizeof *nodeParams);
    cudaError_t error =
        add(pGraphNode, graph, pDependencies, NULL, numDependencies, &to, simrt_enter());
    nodeParams->dptr = (void *)to.alloc.dptr;
    return error;
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                    const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                    void *dptr) {
    CUgraphNodeParams to = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = (CUdeviceptr)dptr};
    return add(pGraphNode, graph, pDependencies, NULL, numDependencies, &to, simrt_enter());
}

/* The bodies of a conditional node, and an allocation's address, come back in the parameters. */
cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                             const cudaGraphNode_t *pDependencies,
                             const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                             struct cudaGraphNodeParams *nodeParams) {
    CUgraphNodeParams to;
    cudaError_t error = any_params(&to, nodeParams);
    error = add(pGraphNode, graph, pDependencies, dependencyData, numDependencies, &to, error);
    if (error == cudaSuccess && nodeParams->type == cudaGraphNodeTypeConditional)
        nodeParams->conditional.phGraph_out = to.conditional.phGraph_out;
    if (error == cudaSuccess && nodeParams->type == cudaGraphNodeTypeMemAlloc)
        nodeParams->alloc.dptr = (void *)to.alloc.dptr;
    return error;
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams) {
    CUgraphNodeParams to;
    cudaError_t error = any_params(&to, nodeParams);
    return set(node, &to, error);
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       struct cudaGraphNodeParams *nodeParams) {
    CUgraphNodeParams to;
    cudaError_t error = any_params(&to, nodeParams);
    return set_in_exec(graphExec, node, &to, error);
}
