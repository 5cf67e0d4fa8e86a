/* Memory and events of other processes; handles have the driver's layout. */
#include "tools/sim/runtime/core/thread.h"

#include <string.h>

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle),
               "one layout of memory handles");
_Static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle), "one of event handles");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr) {
    CUipcMemHandle answer;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !handle)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuIpcGetMemHandle(&answer, (CUdeviceptr)devPtr));
    if (error == cudaSuccess)
        memcpy(handle, &answer, sizeof answer);
    return simrt_leave(error);
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags) {
    CUipcMemHandle asked;
    CUdeviceptr address = 0;
    memcpy(&asked, &handle, sizeof asked);
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !devPtr)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuIpcOpenMemHandle_v2(&address, asked, flags));
    if (error == cudaSuccess)
        *devPtr = (void *)address;
    return simrt_leave(error);
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    CUipcEventHandle answer;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !handle)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuIpcGetEventHandle(&answer, event));
    if (error == cudaSuccess)
        memcpy(handle, &answer, sizeof answer);
    return simrt_leave(error);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    CUipcEventHandle asked;
    memcpy(&asked, &handle, sizeof asked);
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuIpcOpenEventHandle(event, asked));
    return simrt_leave(error);
}
