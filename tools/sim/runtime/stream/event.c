/* Events. */
#include "tools/sim/runtime/core/thread.h"

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuEventCreate(event, flags));
    return simrt_leave(error);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuEventDestroy_v2(event));
    return simrt_leave(error);
}

static cudaError_t record(const struct simrt_driver *cu, cudaEvent_t event, cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuEventRecord(event, stream));
    return simrt_leave(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return record(&simrt_legacy, event, stream);
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
    return record(&simrt_per_thread, event, stream);
}

static cudaError_t record_with_flags(const struct simrt_driver *cu, cudaEvent_t event,
                                     cudaStream_t stream, unsigned flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuEventRecordWithFlags(event, stream, flags));
    return simrt_leave(error);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    return record_with_flags(&simrt_legacy, event, stream, flags);
}

cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
                                          unsigned int flags) {
    return record_with_flags(&simrt_per_thread, event, stream, flags);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuEventQuery(event));
    return simrt_leave(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuEventSynchronize(event));
    return simrt_leave(error);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuEventElapsedTime(ms, start, end));
    return simrt_leave(error);
}
