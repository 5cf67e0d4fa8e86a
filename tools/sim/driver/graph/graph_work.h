/* The work of a node, from the program's parameters: checked, with its addresses. */
#pragma once

#include "tools/sim/driver/stream/work.h"

CUresult sim_node_work_of_copy(const CUDA_MEMCPY3D *shape, CUcontext context,
                               struct sim_work *work);
CUresult sim_node_work_of_set(const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context,
                              struct sim_work *work);
CUresult sim_node_work_of_host(const CUDA_HOST_NODE_PARAMS *params, struct sim_work *work);
CUresult sim_node_work_of_kernel(const CUDA_KERNEL_NODE_PARAMS *params, struct sim_work *work);
CUresult sim_node_work_of_child(CUgraph child, struct sim_work *work);
CUresult sim_node_work_of_words(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct sim_work *work);

/* A node of any of these types, or an empty one. */
CUresult sim_node_work(const CUgraphNodeParams *params, struct sim_work *work);
