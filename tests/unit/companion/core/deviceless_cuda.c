#include "cuda/types.h"
/* A driver that is whole and sees no device: each entry that loading asks for says so. */

CUresult cushim_test_no_device(void);

CUresult cushim_test_no_device(void) {
    return CUDA_ERROR_NO_DEVICE;
}

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
#define SAYS_SO(abi)                                                                               \
    __typeof__(abi) abi __attribute__((visibility("default"), alias("cushim_test_no_device")));
SAYS_SO(cuInit)
SAYS_SO(cuDriverGetVersion)
SAYS_SO(cuDeviceGetCount)
SAYS_SO(cuDeviceGetAttribute)
SAYS_SO(cuCtxGetCurrent)
SAYS_SO(cuCtxSetCurrent)
SAYS_SO(cuCtxPopCurrent_v2)
SAYS_SO(cuCtxSynchronize)
SAYS_SO(cuCtxDestroy_v2)
SAYS_SO(cuCtxGetDevice)
SAYS_SO(cuDevicePrimaryCtxRetain)
SAYS_SO(cuMemAlloc_v2)
SAYS_SO(cuMemFree_v2)
SAYS_SO(cuMemcpyHtoD_v2)
SAYS_SO(cuMemcpyDtoH_v2)
SAYS_SO(cuGetErrorName)
SAYS_SO(cuGetErrorString)
