#include "graph_work.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/copy/copy_box.h"
#include "tools/sim/driver/copy/set.h"
#include "tools/sim/driver/module/launch.h"
#include "tools/sim/driver/stream/stream_words.h"
#include "graph.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The device that will do a node; NULL: no context says it. */
static const struct sim_device *device_of(CUcontext handle) {
    struct sim_context *context;
    return sim_context_of_handle(handle, &context) == CUDA_SUCCESS ? context->device : NULL;
}

CUresult sim_node_work_of_copy(const CUDA_MEMCPY3D *shape, CUcontext context,
                               struct sim_work *work) {
    struct sim_copy copy;
    if (!shape)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_copy_box_of_3d(shape, &copy));
    if (copy.box.width_bytes == 0 || copy.box.height == 0 || copy.box.depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_copy_judge(&copy, device_of(context)));
    *work = (struct sim_work){.kind = SIM_WORK_COPY, .as.copy = copy.box};
    return CUDA_SUCCESS;
}

CUresult sim_node_work_of_set(const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context,
                              struct sim_work *work) {
    if (!params || params->width == 0 || params->height == 0 ||
        (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_set_work set = {.dst = (char *)(uintptr_t)params->dst,
                               .pitch = params->pitch,
                               .value = params->value,
                               .element_bytes = params->elementSize,
                               .width = params->width,
                               .height = params->height};
    SIM_TRY(sim_set_judge(&set, device_of(context)));
    *work = (struct sim_work){.kind = SIM_WORK_SET, .as.set = set};
    return CUDA_SUCCESS;
}

CUresult sim_node_work_of_host(const CUDA_HOST_NODE_PARAMS *params, struct sim_work *work) {
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sim_work){.kind = SIM_WORK_HOST, .as.host = {params->fn, params->userData}};
    return CUDA_SUCCESS;
}

CUresult sim_node_work_of_kernel(const CUDA_KERNEL_NODE_PARAMS *params, struct sim_work *work) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_shape shape = {
        .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
        .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
        .shared_bytes = params->sharedMemBytes};
    CUfunction function = params->func ? params->func : (CUfunction)params->kern;
    return sim_launch_work(function, &shape, params->kernelParams, params->extra,
                           device_of(params->ctx), work);
}

CUresult sim_node_work_of_child(CUgraph handle, struct sim_work *work) {
    struct sim_graph *child;
    SIM_TRY(sim_graph_of_handle(handle, &child));
    *work = (struct sim_work){.kind = SIM_WORK_CHILD, .as.child = sim_graph_clone(child)};
    return work->as.child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * A handle of a condition has its number above and the value of every launch below, because no
 * kernel sets one here.  So a loop, which would never end, makes one round.
 */
static CUresult make_condition(CUgraphConditionalHandle *out, CUgraph handle, unsigned value,
                               unsigned flags) {
    static uint32_t n_made; /* under the lock */
    struct sim_graph *graph;
    if (!out || flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_graph_of_handle(handle, &graph));
    *out = (CUgraphConditionalHandle)++n_made << 32 | (flags ? value : 0);
    return CUDA_SUCCESS;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
                                        CUcontext ctx, unsigned int defaultLaunchValue,
                                        unsigned int flags) {
    SIM_ENTER(cuGraphConditionalHandleCreate);
    (void)ctx;
    return sim_leave(make_condition(pHandle_out, hGraph, defaultLaunchValue, flags));
}

/* Which body the value of a condition runs; the count of bodies: none. */
static unsigned choose(const CUDA_CONDITIONAL_NODE_PARAMS *params) {
    uint32_t value = (uint32_t)params->handle;
    if (params->type == CU_GRAPH_COND_TYPE_SWITCH)
        return value < params->size ? value : params->size;
    return value ? 0 : 1;
}

static CUresult conditional_work(const CUDA_CONDITIONAL_NODE_PARAMS *params,
                                 struct sim_work *work) {
    unsigned most = params->type == CU_GRAPH_COND_TYPE_IF      ? 2
                    : params->type == CU_GRAPH_COND_TYPE_WHILE ? 1
                                                               : UINT_MAX;
    if (!(params->handle >> 32) || !params->size || params->size > most ||
        params->type > CU_GRAPH_COND_TYPE_SWITCH)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sim_work){.kind = SIM_WORK_CONDITIONAL,
                              .as.conditional = {.n = params->size, .chosen = choose(params)}};
    work->as.conditional.bodies = calloc(params->size, sizeof(struct sim_graph *));
    bool is_whole = work->as.conditional.bodies != NULL;
    for (unsigned i = 0; i < params->size && is_whole; i++)
        is_whole = (work->as.conditional.bodies[i] = sim_graph_create()) != NULL;
    if (is_whole)
        return CUDA_SUCCESS;
    sim_work_finish(work);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_node_work_of_words(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params,
                                struct sim_work *work) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_words_work(params->paramArray, params->count, params->flags, device_of(params->ctx),
                          work);
}

CUresult sim_node_work(const CUgraphNodeParams *params, struct sim_work *work) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMSET_NODE_PARAMS_v2 *set = &params->memset;
    const CUDA_MEMSET_NODE_PARAMS old_set = {set->dst,         set->pitch, set->value,
                                             set->elementSize, set->width, set->height};
    const CUDA_HOST_NODE_PARAMS old_host = {params->host.fn, params->host.userData};
    CUDA_KERNEL_NODE_PARAMS kernel;
    memcpy(&kernel, &params->kernel, sizeof kernel); /* the third revision is the second */
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_node_work_of_copy(&params->memcpy.copyParams, params->memcpy.copyCtx, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return sim_node_work_of_set(&old_set, set->ctx, work);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sim_node_work_of_host(&old_host, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sim_words_work(params->memOp.paramArray, params->memOp.count, params->memOp.flags,
                              device_of(params->memOp.ctx), work);
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_node_work_of_kernel(&kernel, work);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return sim_node_work_of_child(params->graph.graph, work);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return conditional_work(&params->conditional, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *work = (struct sim_work){.kind = SIM_WORK_EMPTY};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
