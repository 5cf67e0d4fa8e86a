/*
 * The driver's interface as we implement it: every exported name declared, old revisions and
 * per-thread variants too, none an alias, and each exported from this library.  A wrong signature
 * is a compile error.
 */
#ifndef CUSHIM_SIM_ABI_H
#define CUSHIM_SIM_ABI_H

#define __CUDA_API_VERSION_INTERNAL
#ifndef CUDA_ENABLE_DEPRECATED
#define CUDA_ENABLE_DEPRECATED
#endif
#pragma GCC visibility push(default)
#include <cuda.h>
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
#pragma GCC visibility pop

/* Early return: a result that is not success goes to the caller at once. */
#define SIM_TRY(expr)                                                                              \
    do {                                                                                           \
        CUresult try_result_ = (expr);                                                             \
        if (try_result_ != CUDA_SUCCESS)                                                           \
            return try_result_;                                                                    \
    } while (0)

#endif
