/*
 * Hooks of nodes that copy, set, or write and wait for words: made by hand, or given other
 * parameters (interposition.md C10).  They are checked when they are described, as the driver does.
 * Nothing sees what a graph does with memory that is freed later.
 *
 * The calls for nodes of any type also serve host nodes (C11; preload/hooks/hooks_host_node.c).
 */
#include "preload/entry/copy_check.h"
#include "preload/entry/graph_memory.h"
#include "preload/entry/host_function.h"
#include "preload/entry/word.h"
#include "preload/hooks/hook.h"

static bool admits_copy(const CUDA_MEMCPY3D *shape) {
    struct cushim_copy copy;
    return !cushim_copy_describe_3d(shape, NULL, true, &copy) || cushim_copy_admits(&copy);
}

static bool admits_set(CUdeviceptr to, size_t pitch_bytes, size_t element_bytes, size_t width,
                       size_t height) {
    size_t row_bytes;
    if (__builtin_mul_overflow(width, element_bytes, &row_bytes))
        row_bytes = SIZE_MAX;
    size_t span_bytes = cushim_copy_span(row_bytes, height, 1, pitch_bytes, 0);
    const struct cushim_copy set = {CUSHIM_SET, .to = {to, span_bytes}};
    return cushim_copy_admits(&set);
}

static bool admits_old_set(const CUDA_MEMSET_NODE_PARAMS *set) {
    return !set || admits_set(set->dst, set->pitch, set->elementSize, set->width, set->height);
}

static bool admits_words(const CUstreamBatchMemOpParams *operations, unsigned n) {
    struct cushim_copy word;
    for (unsigned i = 0; operations && i < n; i++) {
        if (cushim_word_describe(&operations[i], NULL, &word) && !cushim_copy_admits(&word))
            return false;
    }
    return true;
}

static bool admits_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch) {
    return !batch || admits_words(batch->paramArray, batch->count);
}

/* A node of any type. */
static bool admits(const CUgraphNodeParams *params) {
    const CUDA_MEMSET_NODE_PARAMS_v2 *set;
    if (!params)
        return true;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return admits_copy(&params->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        set = &params->memset;
        return admits_set(set->dst, set->pitch, set->elementSize, set->width, set->height);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return admits_words(params->memOp.paramArray, params->memOp.count);
    default: /* no address, or one that the driver judges, as in batched copies */
        return true;
    }
}

/* ---- nodes of one type ---- */

HOOK(cuGraphAddMemcpyNode,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n_dependencies,
           const CUDA_MEMCPY3D *shape, CUcontext context),
     REFUSE_UNLESS(admits_copy(shape),
                   REAL(node, graph, dependencies, n_dependencies, shape, context)))
HOOK(cuGraphMemcpyNodeSetParams, TAKES(CUgraphNode node, const CUDA_MEMCPY3D *shape),
     REFUSE_UNLESS(admits_copy(shape), REAL(node, shape)))
HOOK(cuGraphExecMemcpyNodeSetParams,
     TAKES(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *shape, CUcontext context),
     REFUSE_UNLESS(admits_copy(shape), REAL(exec, node, shape, context)))

HOOK(cuGraphAddMemsetNode,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n_dependencies,
           const CUDA_MEMSET_NODE_PARAMS *set, CUcontext context),
     REFUSE_UNLESS(admits_old_set(set),
                   REAL(node, graph, dependencies, n_dependencies, set, context)))
HOOK(cuGraphMemsetNodeSetParams, TAKES(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set),
     REFUSE_UNLESS(admits_old_set(set), REAL(node, set)))
HOOK(cuGraphExecMemsetNodeSetParams,
     TAKES(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set,
           CUcontext context),
     REFUSE_UNLESS(admits_old_set(set), REAL(exec, node, set, context)))

HOOK(cuGraphAddBatchMemOpNode,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n_dependencies,
           const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch),
     REFUSE_UNLESS(admits_batch(batch), REAL(node, graph, dependencies, n_dependencies, batch)))
HOOK(cuGraphBatchMemOpNodeSetParams,
     TAKES(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch),
     REFUSE_UNLESS(admits_batch(batch), REAL(node, batch)))
HOOK(cuGraphExecBatchMemOpNodeSetParams,
     TAKES(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch),
     REFUSE_UNLESS(admits_batch(batch), REAL(exec, node, batch)))

/* ---- nodes of any type; what the driver writes into the parameters is the program's ---- */

/* The parameters for the driver: `ours` for a host node (C11), otherwise the program's. */
static CUgraphNodeParams *wrap(CUgraphNodeParams *params, CUgraphNodeParams *ours) {
    if (!params || params->type != CU_GRAPH_NODE_TYPE_HOST || !cushim_process_is_on())
        return params;
    *ours = *params;
    ours->host.fn = cushim_host_function_wrap(params->host.fn);
    return ours;
}

/* After a node was made. */
static CUresult note(const CUgraphNodeParams *params, CUresult answer) {
    if (answer == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        cushim_process_is_on())
        cushim_graph_memory_note(params->alloc.poolProps.location.id, params->alloc.dptr);
    return answer;
}

#define SET(call)                                                                                  \
    CUgraphNodeParams ours;                                                                        \
    REFUSE_UNLESS(admits(params), call)
#define ADD(call)                                                                                  \
    CUgraphNodeParams ours;                                                                        \
    REFUSE_UNLESS(admits(params), note(params, call))

HOOK(cuGraphAddNode,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n_dependencies,
           CUgraphNodeParams *params),
     ADD(REAL(node, graph, dependencies, n_dependencies, wrap(params, &ours))))
HOOK(cuGraphAddNode_v2,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
           const CUgraphEdgeData *edges, size_t n_dependencies, CUgraphNodeParams *params),
     ADD(REAL(node, graph, dependencies, edges, n_dependencies, wrap(params, &ours))))
HOOK(cuGraphAddNode_v3,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
           const CUgraphEdgeData *edges, size_t n_dependencies, CUgraphNodeParams *params),
     ADD(REAL(node, graph, dependencies, edges, n_dependencies, wrap(params, &ours))))

HOOK(cuGraphNodeSetParams, TAKES(CUgraphNode node, CUgraphNodeParams *params),
     SET(REAL(node, wrap(params, &ours))))
HOOK(cuGraphNodeSetParams_v2, TAKES(CUgraphNode node, CUgraphNodeParams *params),
     SET(REAL(node, wrap(params, &ours))))
HOOK(cuGraphExecNodeSetParams, TAKES(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params),
     SET(REAL(exec, node, wrap(params, &ours))))
