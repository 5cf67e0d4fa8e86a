/* Hooks of kernel launches (interposition.md C14).  They are noted, because a free has to bring out
 * what a kernel prints. They do nothing else, because launches are by far the most frequent calls
 * of most programs. */
#include "memory/fence/record.h"
#include "preload/hooks/hook.h"

static inline CUresult launched(CUresult answer) {
    if (answer == CUDA_SUCCESS)
        cushim_mem_launches_note();
    return answer;
}

HOOKS_PTSZ(cuLaunchKernel,
           TAKES(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                 CUstream stream, void **params, void **extra),
           return launched(REAL(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                shared_bytes, stream, params, extra)))

HOOK(cuLaunchKernelEx,
     TAKES(const CUlaunchConfig *config, CUfunction function, void **params, void **extra),
     return launched(REAL(config, function, params, extra)))
HOOK(cuLaunchKernelEx_ptsz,
     TAKES(const CUlaunchConfig *config, CUfunction function, void **params, void **extra),
     return launched(REAL(config, function, params, extra)))

HOOKS_PTSZ(cuLaunchCooperativeKernel,
           TAKES(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                 CUstream stream, void **params),
           return launched(REAL(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                shared_bytes, stream, params)))
