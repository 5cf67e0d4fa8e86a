/* Graphs as the program uses them whole: making, looking into, instantiating, launching. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "graph.h"
#include "graph_memory.h"
#include "graph_run.h"
#include "tools/sim/driver/stream/stream.h"

#include <string.h>

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
    SIM_ENTER(cuGraphCreate);
    if (!phGraph || flags)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *phGraph = (CUgraph)sim_graph_create();
    return sim_leave(*phGraph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult destroy(CUgraph handle) {
    struct sim_graph *graph;
    SIM_TRY(sim_graph_of_handle(handle, &graph));
    if (graph->is_child)
        return CUDA_ERROR_INVALID_VALUE;
    if (graph->is_captured_into)
        return CUDA_ERROR_ILLEGAL_STATE;
    sim_graph_unref(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph) {
    SIM_ENTER(cuGraphDestroy);
    return sim_leave(destroy(hGraph));
}

static CUresult clone_graph(CUgraph *out, CUgraph handle) {
    struct sim_graph *graph;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_graph_of_handle(handle, &graph));
    *out = (CUgraph)sim_graph_clone(graph);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
    SIM_ENTER(cuGraphClone);
    return sim_leave(clone_graph(phGraphClone, originalGraph));
}

/* ---- looking into one ---- */

static CUresult get_type(CUgraphNode handle, CUgraphNodeType *out) {
    static const CUgraphNodeType types[] = {
        [SIM_WORK_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
        [SIM_WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SIM_WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [SIM_WORK_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
        [SIM_WORK_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [SIM_WORK_CALLBACK] = CU_GRAPH_NODE_TYPE_HOST,
        [SIM_WORK_WRITE_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SIM_WORK_WAIT_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SIM_WORK_WORDS] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SIM_WORK_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        [SIM_WORK_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
        [SIM_WORK_FREE_NODE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
        [SIM_WORK_CHILD] = CU_GRAPH_NODE_TYPE_GRAPH,
        [SIM_WORK_CONDITIONAL] = CU_GRAPH_NODE_TYPE_CONDITIONAL,
        [SIM_WORK_RUN] = CU_GRAPH_NODE_TYPE_GRAPH,
    };
    struct sim_node *node;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_node_of_handle(handle, &node));
    *out = types[node->work.kind];
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
    SIM_ENTER(cuGraphNodeGetType);
    return sim_leave(get_type(hNode, type));
}

/* Nodes that `wants` accepts: as many as there is room for, or only their number. */
static CUresult list(const struct sim_nodes *nodes, bool (*wants)(const struct sim_node *),
                     CUgraphNode *out, size_t *n) {
    size_t n_found = 0;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < nodes->n; i++) {
        if (!wants(nodes->nodes[i]))
            continue;
        if (out && n_found < *n)
            out[n_found] = (CUgraphNode)nodes->nodes[i];
        n_found++;
    }
    for (size_t i = n_found; out && i < *n; i++)
        out[i] = NULL;
    if (!out || n_found < *n)
        *n = n_found;
    return CUDA_SUCCESS;
}

static bool is_any(const struct sim_node *node) {
    (void)node;
    return true;
}

static bool is_root(const struct sim_node *node) {
    return node->after.n == 0;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
    SIM_ENTER(cuGraphGetNodes);
    struct sim_graph *graph;
    CUresult result = sim_graph_of_handle(hGraph, &graph);
    return sim_leave(result ? result : list(&graph->nodes, is_any, nodes, numNodes));
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
    SIM_ENTER(cuGraphGetRootNodes);
    struct sim_graph *graph;
    CUresult result = sim_graph_of_handle(hGraph, &graph);
    return sim_leave(result ? result : list(&graph->nodes, is_root, rootNodes, numRootNodes));
}

static CUresult get_dependencies(CUgraphNode handle, CUgraphNode *out, size_t *n) {
    struct sim_node *node;
    SIM_TRY(sim_node_of_handle(handle, &node));
    return list(&node->after, is_any, out, n);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                    size_t *numDependencies) {
    SIM_ENTER(cuGraphNodeGetDependencies);
    return sim_leave(get_dependencies(hNode, dependencies, numDependencies));
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies) {
    SIM_ENTER(cuGraphNodeGetDependencies_v2);
    if (edgeData && numDependencies)
        memset(edgeData, 0, *numDependencies * sizeof *edgeData);
    return sim_leave(get_dependencies(hNode, dependencies, numDependencies));
}

static CUresult get_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *n) {
    struct sim_graph *graph;
    size_t n_found = 0;
    SIM_TRY(sim_graph_of_handle(handle, &graph));
    if (!n || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < graph->nodes.n; i++) {
        struct sim_node *node = graph->nodes.nodes[i];
        for (size_t k = 0; k < node->after.n; k++, n_found++) {
            if (from && n_found < *n) {
                from[n_found] = (CUgraphNode)node->after.nodes[k];
                to[n_found] = (CUgraphNode)node;
            }
        }
    }
    if (!from || n_found < *n)
        *n = n_found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges) {
    SIM_ENTER(cuGraphGetEdges);
    return sim_leave(get_edges(hGraph, from, to, numEdges));
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edgeData, size_t *numEdges) {
    SIM_ENTER(cuGraphGetEdges_v2);
    if (edgeData && numEdges)
        memset(edgeData, 0, *numEdges * sizeof *edgeData);
    return sim_leave(get_edges(hGraph, from, to, numEdges));
}

/* ---- executable graphs ---- */

static CUresult instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags) {
    struct sim_graph *graph;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_graph_of_handle(handle, &graph));
    if (graph->is_captured_into)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_exec *exec = sim_exec_create(graph, flags);
    *out = (CUgraphExec)exec;
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The two oldest forms report where and why; here there is only the result to report. */
static CUresult instantiate_old(CUgraphExec *out, CUgraph handle, CUgraphNode *error_node,
                                char *log, size_t n_log_bytes) {
    if (error_node)
        *error_node = NULL;
    if (log && n_log_bytes)
        *log = 0;
    return instantiate(out, handle, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize) {
    SIM_ENTER(cuGraphInstantiate);
    return sim_leave(instantiate_old(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                               char *logBuffer, size_t bufferSize) {
    SIM_ENTER(cuGraphInstantiate_v2);
    return sim_leave(instantiate_old(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags) {
    SIM_ENTER(cuGraphInstantiateWithFlags);
    return sim_leave(instantiate(phGraphExec, hGraph, flags));
}

static CUresult instantiate_params(CUgraphExec *out, CUgraph handle,
                                   CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(out, handle, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

SIM_BOTH(cuGraphInstantiateWithParams, _ptsz,
         TAKES(CUgraphExec *phGraphExec, CUgraph hGraph,
               CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
         instantiate_params(phGraphExec, hGraph, instantiateParams))

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    SIM_ENTER(cuGraphExecDestroy);
    struct sim_exec *exec;
    CUresult result = sim_exec_of_handle(hGraphExec, &exec);
    if (result == CUDA_SUCCESS)
        sim_exec_destroy(exec);
    return sim_leave(result);
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
    SIM_ENTER(cuGraphExecGetFlags);
    struct sim_exec *exec;
    CUresult result = sim_exec_of_handle(hGraphExec, &exec);
    if (result == CUDA_SUCCESS && !flags)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *flags = exec->flags;
    return sim_leave(result);
}

static CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResult *why) {
    struct sim_exec *exec;
    struct sim_graph *graph;
    SIM_TRY(sim_exec_of_handle(handle, &exec));
    SIM_TRY(sim_graph_of_handle(graph_handle, &graph));
    bool is_updated = sim_exec_update(exec, graph);
    *why = is_updated ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return is_updated ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out) {
    SIM_ENTER(cuGraphExecUpdate);
    if (!updateResult_out)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (hErrorNode_out)
        *hErrorNode_out = NULL;
    return sim_leave(update(hGraphExec, hGraph, updateResult_out));
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo) {
    SIM_ENTER(cuGraphExecUpdate_v2);
    if (!resultInfo)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *resultInfo = (CUgraphExecUpdateResultInfo){.errorNode = NULL};
    return sim_leave(update(hGraphExec, hGraph, &resultInfo->result));
}

/* A launch in a capturing stream becomes a child of the captured graph. */
static CUresult launch(CUgraphExec handle, CUstream stream_handle, CUstream default_stream) {
    struct sim_exec *exec;
    struct sim_stream *stream;
    struct sim_work work;
    SIM_TRY(sim_exec_of_handle(handle, &exec));
    SIM_TRY(sim_stream_of_handle(stream_handle, default_stream, &stream));
    if (stream->capture) {
        work = (struct sim_work){.kind = SIM_WORK_CHILD, .as.child = sim_graph_clone(exec->graph)};
        if (!work.as.child)
            return CUDA_ERROR_OUT_OF_MEMORY;
        return sim_stream_enqueue(stream, &work, NULL);
    }
    SIM_TRY(sim_graph_memory_may_launch(
        exec->graph, exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    if (!sim_graph_run_create(exec, &work))
        return CUDA_ERROR_OUT_OF_MEMORY;
    SIM_TRY(sim_stream_enqueue(stream, &work, NULL));
    return sim_graph_memory_launched(exec->graph, stream);
}

SIM_BOTH(cuGraphLaunch, _ptsz, TAKES(CUgraphExec hGraphExec, CUstream hStream),
         launch(hGraphExec, hStream, default_stream))

/* Nothing is loaded before a launch. */
static CUresult upload(CUgraphExec handle, CUstream stream_handle, CUstream default_stream) {
    struct sim_exec *exec;
    struct sim_stream *stream;
    SIM_TRY(sim_exec_of_handle(handle, &exec));
    return sim_stream_of_handle(stream_handle, default_stream, &stream);
}

SIM_BOTH(cuGraphUpload, _ptsz, TAKES(CUgraphExec hGraphExec, CUstream hStream),
         upload(hGraphExec, hStream, default_stream))
