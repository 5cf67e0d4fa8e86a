/*
 * The driver's functions: every exported name declared, old revisions and per-thread variants too,
 * and none an alias.
 */
#ifndef CUSHIM_CUDA_DRIVER_H
#define CUSHIM_CUDA_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL
#ifndef CUDA_ENABLE_DEPRECATED
#define CUDA_ENABLE_DEPRECATED
#endif
#include <cuda.h>

/* The header that declares them is of a package of its own. */
CUresult cuProfilerInitialize(const char *config, const char *output, unsigned mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
/* Later than the oldest headers that cushim is built with. */
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned sync_mode);
CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data,
                                  unsigned sync_mode);
CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t n_dependencies,
                           CUgraphNodeParams *params);
CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params);

#endif
