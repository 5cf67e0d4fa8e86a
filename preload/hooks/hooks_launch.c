/* Hooks of kernel launches (interposition.md C14).  They are noted, because a free has to bring out
 * what a kernel prints. They do nothing else, because launches are by far the most frequent calls
 * of most programs. */
#include "cuda/table.h"
#include "memory/fence/record.h"
#include "preload/state/process.h"
#include "preload/resolve/export.h"

static inline CUresult launched(CUresult answer) {
    if (answer == CUDA_SUCCESS)
        cushim_mem_launches_note();
    return answer;
}

CUSHIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                      unsigned grid_z, unsigned block_x, unsigned block_y,
                                      unsigned block_z, unsigned shared_bytes, CUstream stream,
                                      void **params, void **extra) {
    CUSHIM_ENTER(cuLaunchKernel)
    return launched(cuda->cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y,
                                         block_z, shared_bytes, stream, params, extra));
}

CUSHIM_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                           unsigned grid_z, unsigned block_x, unsigned block_y,
                                           unsigned block_z, unsigned shared_bytes, CUstream stream,
                                           void **params, void **extra) {
    CUSHIM_ENTER(cuLaunchKernel_ptsz)
    return launched(cuda->cuLaunchKernel_ptsz(function, grid_x, grid_y, grid_z, block_x, block_y,
                                              block_z, shared_bytes, stream, params, extra));
}

CUSHIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                        void **params, void **extra) {
    CUSHIM_ENTER(cuLaunchKernelEx)
    return launched(cuda->cuLaunchKernelEx(config, function, params, extra));
}

CUSHIM_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                             void **params, void **extra) {
    CUSHIM_ENTER(cuLaunchKernelEx_ptsz)
    return launched(cuda->cuLaunchKernelEx_ptsz(config, function, params, extra));
}

CUSHIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                                 unsigned grid_y, unsigned grid_z, unsigned block_x,
                                                 unsigned block_y, unsigned block_z,
                                                 unsigned shared_bytes, CUstream stream,
                                                 void **params) {
    CUSHIM_ENTER(cuLaunchCooperativeKernel)
    return launched(cuda->cuLaunchCooperativeKernel(
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params));
}

CUSHIM_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x,
                                                      unsigned grid_y, unsigned grid_z,
                                                      unsigned block_x, unsigned block_y,
                                                      unsigned block_z, unsigned shared_bytes,
                                                      CUstream stream, void **params) {
    CUSHIM_ENTER(cuLaunchCooperativeKernel_ptsz)
    return launched(cuda->cuLaunchCooperativeKernel_ptsz(
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params));
}
