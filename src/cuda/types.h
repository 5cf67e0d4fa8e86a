/*
 * The driver's types, and the names of the tables of real functions.  A header that only passes a
 * table includes this.  A source that calls through one includes cuda/table.h, and is compiled anew
 * when symbols.def changes.
 */
#ifndef CUSHIM_CUDA_TYPES_H
#define CUSHIM_CUDA_TYPES_H

/* With these every exported name is declared, old revisions and per-thread variants too, and none
 * is an alias. */
#define __CUDA_API_VERSION_INTERNAL
#ifndef CUDA_ENABLE_DEPRECATED
#define CUDA_ENABLE_DEPRECATED
#endif
#include <cuda.h>
#include <cuda_runtime_api.h>
/* The header that declares them is of a package of its own. */
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

struct cushim_cuda;   /* the driver's functions that the preload and src/memory call */
struct cushim_cudart; /* the runtime's that the preload calls */

#endif
