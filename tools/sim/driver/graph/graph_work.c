#include "graph_work.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/copy/copy_box.h"
#include "tools/sim/driver/copy/set.h"
#include "tools/sim/driver/stream/stream_words.h"

/* Whose device will do a node; NULL: no context says it. */
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
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *work = (struct sim_work){.kind = SIM_WORK_EMPTY};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
