/* Streams, and queries of them. */
#include "tools/sim/runtime/core/thread.h"

cudaError_t cudaStreamCreate(cudaStream_t *pStream) {
    return cudaStreamCreateWithFlags(pStream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuStreamCreate(pStream, flags));
    return simrt_leave(error);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuStreamCreateWithPriority(pStream, flags, priority));
    return simrt_leave(error);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuStreamDestroy_v2(stream));
    return simrt_leave(error);
}

static cudaError_t synchronize(const struct simrt_driver *cu, cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamSynchronize(stream));
    return simrt_leave(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return synchronize(&simrt_legacy, stream);
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
    return synchronize(&simrt_per_thread, stream);
}

static cudaError_t query(const struct simrt_driver *cu, cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamQuery(stream));
    return simrt_leave(error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return query(&simrt_legacy, stream);
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
    return query(&simrt_per_thread, stream);
}

static cudaError_t wait_event(const struct simrt_driver *cu, cudaStream_t stream, cudaEvent_t event,
                              unsigned flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamWaitEvent(stream, event, flags));
    return simrt_leave(error);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    return wait_event(&simrt_legacy, stream, event, flags);
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    return wait_event(&simrt_per_thread, stream, event, flags);
}

static cudaError_t get_flags(const struct simrt_driver *cu, cudaStream_t stream, unsigned *flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamGetFlags(stream, flags));
    return simrt_leave(error);
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags) {
    return get_flags(&simrt_legacy, hStream, flags);
}

cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t hStream, unsigned int *flags) {
    return get_flags(&simrt_per_thread, hStream, flags);
}

static cudaError_t get_priority(const struct simrt_driver *cu, cudaStream_t stream, int *priority) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamGetPriority(stream, priority));
    return simrt_leave(error);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority) {
    return get_priority(&simrt_legacy, hStream, priority);
}

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t hStream, int *priority) {
    return get_priority(&simrt_per_thread, hStream, priority);
}

static cudaError_t get_id(const struct simrt_driver *cu, cudaStream_t stream,
                          unsigned long long *id) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamGetId(stream, id));
    return simrt_leave(error);
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId) {
    return get_id(&simrt_legacy, hStream, streamId);
}

cudaError_t cudaStreamGetId_ptsz(cudaStream_t hStream, unsigned long long *streamId) {
    return get_id(&simrt_per_thread, hStream, streamId);
}
