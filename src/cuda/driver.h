/*
 * The driver's functions: every exported name is declared, with old revisions and per-thread
 * variants, and none is an alias.
 */
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#ifndef CUDA_ENABLE_DEPRECATED
#define CUDA_ENABLE_DEPRECATED
#endif
#include <cuda.h>

/* Another package has the header that declares them. */
CUresult cuProfilerInitialize(const char *config, const char *output, unsigned mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
/* Newer than the oldest headers with which cushim can be built. */
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned sync_mode);
CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data,
                                  unsigned sync_mode);
CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t n_dependencies,
                           CUgraphNodeParams *params);
CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params);
