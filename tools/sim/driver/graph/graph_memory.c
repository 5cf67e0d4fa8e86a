#include "graph_memory.h"

#include "tools/sim/driver/memory/async.h"
#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/stream/stream.h"

#include <stddef.h>

/* ---- launches ---- */

/* The node of a kind for an address; NULL: there is none. */
static const struct sim_node *find(const struct sim_graph *graph, enum sim_work_kind kind,
                                   CUdeviceptr address) {
    for (size_t i = 0; i < graph->nodes.n; i++) {
        const struct sim_work *work = &graph->nodes.nodes[i]->work;
        if (work->kind == kind && work->as.address == address)
            return graph->nodes.nodes[i];
    }
    return NULL;
}

/* The block that a node's launch leaves behind; NULL: it leaves nothing. */
static struct sim_block *left_by(const struct sim_graph *graph, const struct sim_node *node) {
    const struct sim_work *work = &node->work;
    if (work->kind != SIM_WORK_ALLOC || find(graph, SIM_WORK_FREE_NODE, work->as.address))
        return NULL;
    return sim_block_find_any(work->as.address);
}

CUresult sim_graph_memory_may_launch(const struct sim_graph *graph, bool is_auto_free) {
    for (size_t i = 0; i < graph->nodes.n && !is_auto_free; i++) {
        const struct sim_block *block = left_by(graph, graph->nodes.nodes[i]);
        if (block && block->is_unfreed)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Free what another graph left. */
static CUresult free_behind(const struct sim_graph *graph, const struct sim_work *work,
                            struct sim_stream *stream) {
    struct sim_block *block =
        work->kind == SIM_WORK_FREE_NODE && !find(graph, SIM_WORK_ALLOC, work->as.address)
            ? sim_block_find_any(work->as.address)
            : NULL;
    if (!block || !block->is_unfreed)
        return CUDA_SUCCESS;
    struct sim_work release = {.kind = SIM_WORK_FREE, .as.address = work->as.address};
    block->is_unfreed = false;
    return sim_stream_enqueue(stream, &release, NULL);
}

CUresult sim_graph_memory_launched(const struct sim_graph *graph, struct sim_stream *stream) {
    for (size_t i = 0; i < graph->nodes.n; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        struct sim_block *block = left_by(graph, node);
        if (block && !block->is_unfreed) {
            block->is_unfreed = true;
            sim_async_retain(node->work.as.address);
        }
        SIM_TRY(free_behind(graph, &node->work, stream));
    }
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

static CUresult get_attribute(int ordinal, CUgraphMem_attribute attribute, cuuint64_t *value) {
    const struct sim_device *device = sim_device_at(ordinal);
    bool only_unfreed = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ||
                        attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || attribute < CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ||
        attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    for (struct sim_block *block = sim_block_next(NULL); block; block = sim_block_next(block)) {
        if (block->kind == SIM_BLOCK_ASYNC && !block->pool && block->device == device &&
            (block->is_unfreed || !only_unfreed))
            *value += block->n_bytes;
    }
    return CUDA_SUCCESS;
}

/* The high-water mark is the present value, because no history is kept. */
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
    SIM_ENTER(cuDeviceGetGraphMemAttribute);
    return sim_leave(get_attribute(device, attr, value));
}

/* A program may only reset a high-water mark, which is the present value in any case. */
static CUresult set_attribute(int ordinal, CUgraphMem_attribute attribute,
                              const cuuint64_t *value) {
    if (!sim_device_at(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    bool is_high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                   attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    return is_high && value && *value == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
    SIM_ENTER(cuDeviceSetGraphMemAttribute);
    return sim_leave(set_attribute(device, attr, value));
}

/* Memory of graphs goes with them; no more is kept. */
CUresult cuDeviceGraphMemTrim(CUdevice device) {
    SIM_ENTER(cuDeviceGraphMemTrim);
    return sim_leave(sim_device_at(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}

/* For a captured node, nothing is known of its pool but that it is the device's memory. */
static CUresult get_alloc(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    struct sim_node *node;
    SIM_TRY(sim_node_of_handle(handle, &node));
    if (!params || node->work.kind != SIM_WORK_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_block *block = sim_block_find_any(node->work.as.address);
    *params = (CUDA_MEM_ALLOC_NODE_PARAMS){.bytesize = block ? block->n_bytes : 0,
                                           .dptr = node->work.as.address};
    params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
    SIM_ENTER(cuGraphMemAllocNodeGetParams);
    return sim_leave(get_alloc(hNode, params_out));
}

static CUresult get_free(CUgraphNode handle, CUdeviceptr *address) {
    struct sim_node *node;
    SIM_TRY(sim_node_of_handle(handle, &node));
    if (!address || node->work.kind != SIM_WORK_FREE_NODE)
        return CUDA_ERROR_INVALID_VALUE;
    *address = node->work.as.address;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
    SIM_ENTER(cuGraphMemFreeNodeGetParams);
    return sim_leave(get_free(hNode, dptr_out));
}
