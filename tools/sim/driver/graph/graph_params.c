/* Parameters of existing nodes, of a graph and of an executable one. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "graph.h"
#include "graph_run.h"
#include "graph_work.h"

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

/* The same for later launches. */
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
    CUresult result = sim_node_work_of_host(nodeParams, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphExecHostNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work_of_host(nodeParams, &work);
    return sim_leave(result ? result : set_in_exec(hGraphExec, hNode, &work));
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
    SIM_ENTER(cuGraphMemcpyNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work_of_copy(nodeParams, NULL, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    SIM_ENTER(cuGraphExecMemcpyNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work_of_copy(copyParams, ctx, &work);
    return sim_leave(result ? result : set_in_exec(hGraphExec, hNode, &work));
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphMemsetNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work_of_set(nodeParams, NULL, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                        CUcontext ctx) {
    SIM_ENTER(cuGraphExecMemsetNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work_of_set(memsetParams, ctx, &work);
    return sim_leave(result ? result : set_in_exec(hGraphExec, hNode, &work));
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphBatchMemOpNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work_of_words(nodeParams, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
    SIM_ENTER(cuGraphExecBatchMemOpNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work_of_words(nodeParams, &work);
    return sim_leave(result ? result : set_in_exec(hGraphExec, hNode, &work));
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work(nodeParams, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphNodeSetParams_v2);
    struct sim_work work;
    CUresult result = sim_node_work(nodeParams, &work);
    return sim_leave(result ? result : set(hNode, &work));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams) {
    SIM_ENTER(cuGraphExecNodeSetParams);
    struct sim_work work;
    CUresult result = sim_node_work(nodeParams, &work);
    return sim_leave(result ? result : set_in_exec(hGraphExec, hNode, &work));
}
