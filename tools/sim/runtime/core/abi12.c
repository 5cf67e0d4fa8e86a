/*
 * What CUDA 12's runtime has and CUDA 13's does not: older signatures, and structs of another size.
 * Compiled into libcudart.so.12 only.
 */
#include "thread.h"

#include <string.h>

/* A function that is exported under a name to which the headers give another signature. */
#define OLD(name, parameters)                                                                      \
    cudaError_t old_##name parameters __asm__(#name);                                              \
    cudaError_t old_##name parameters

#pragma GCC visibility push(default)

/* ---- structs of another size ---- */

struct pointer_attributes {
    enum cudaMemoryType type;
    int device;
    void *device_pointer, *host_pointer;
};

OLD(cudaPointerGetAttributes, (struct pointer_attributes * attributes, const void *ptr)) {
    struct cudaPointerAttributes found;
    cudaError_t error = cudaPointerGetAttributes(attributes ? &found : NULL, ptr);
    if (error == cudaSuccess)
        memcpy(attributes, &found, sizeof *attributes);
    return error;
}

/* Those of external memory end before the reserved words. */
OLD(cudaImportExternalMemory, (cudaExternalMemory_t * memory, const void *description)) {
    struct cudaExternalMemoryHandleDesc longer = {0};
    if (!description)
        return simrt_leave(cudaErrorInvalidValue);
    memcpy(&longer, description, offsetof(struct cudaExternalMemoryHandleDesc, reserved));
    return cudaImportExternalMemory(memory, &longer);
}

OLD(cudaExternalMemoryGetMappedBuffer,
    (void **address, cudaExternalMemory_t memory, const void *description)) {
    struct cudaExternalMemoryBufferDesc longer = {0};
    if (!description)
        return simrt_leave(cudaErrorInvalidValue);
    memcpy(&longer, description, offsetof(struct cudaExternalMemoryBufferDesc, reserved));
    return cudaExternalMemoryGetMappedBuffer(address, memory, &longer);
}

/*
 * The properties are CUDA 13's with fields between: a run of fields that both have is copied to its
 * place in CUDA 12's.  Fields that CUDA 13 dropped are 0.
 */
enum { PROPERTIES_BYTES = 1032, OLD_PROPERTIES_BYTES = 728 };

static const struct {
    size_t first, end; /* in CUDA 13's */
    size_t to;         /* in CUDA 12's */
} runs[] = {
#define RUN(first, behind, to)                                                                     \
    { offsetof(struct cudaDeviceProp, first), offsetof(struct cudaDeviceProp, behind), to }
    RUN(name, multiProcessorCount, 0),
    RUN(multiProcessorCount, integrated, 388),
    RUN(integrated, maxTexture1D, 396),
    RUN(maxTexture1D, maxTexture2D, 408),
    RUN(maxTexture2D, memoryBusWidth, 420),
    RUN(memoryBusWidth, sharedMemPerMultiprocessor, 612),
    RUN(sharedMemPerMultiprocessor, pageableMemoryAccess, 640),
    RUN(pageableMemoryAccess, sharedMemPerBlockOptin, 672),
    RUN(sharedMemPerBlockOptin, deviceNumaConfig, 696),
#undef RUN
};

static cudaError_t get_properties(char *properties, size_t n_bytes, int device) {
    struct cudaDeviceProp found;
    char answer[PROPERTIES_BYTES] = {0};
    cudaError_t error = cudaGetDeviceProperties(properties ? &found : NULL, device);
    if (error != cudaSuccess)
        return error;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        memcpy(answer + runs[i].to, (const char *)&found + runs[i].first,
               runs[i].end - runs[i].first);
    memcpy(properties, answer, n_bytes);
    return cudaSuccess;
}

OLD(cudaGetDeviceProperties_v2, (void *properties, int device)) {
    return get_properties(properties, PROPERTIES_BYTES, device);
}

/* For programs of CUDA 11, whose struct ends earlier. */
OLD(cudaGetDeviceProperties, (void *properties, int device)) {
    return get_properties(properties, OLD_PROPERTIES_BYTES, device);
}

/* ---- older signatures ---- */

/* A device by its number, or the host by -1. */
static struct cudaMemLocation location_of(int device) {
    return (struct cudaMemLocation){.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost
                                                                      : cudaMemLocationTypeDevice,
                                    .id = device == cudaCpuDeviceId ? 0 : device};
}

OLD(cudaMemAdvise,
    (const void *address, size_t n_bytes, enum cudaMemoryAdvise advice, int device)) {
    return cudaMemAdvise(address, n_bytes, advice, location_of(device));
}

OLD(cudaMemPrefetchAsync, (const void *address, size_t n_bytes, int device, cudaStream_t stream)) {
    return cudaMemPrefetchAsync(address, n_bytes, location_of(device), 0, stream);
}

OLD(cudaMemPrefetchAsync_ptsz,
    (const void *address, size_t n_bytes, int device, cudaStream_t stream)) {
    return cudaMemPrefetchAsync_ptsz(address, n_bytes, location_of(device), 0, stream);
}

OLD(cudaGraphAddNode, (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after,
                       size_t n, struct cudaGraphNodeParams *params)) {
    return cudaGraphAddNode(node, graph, after, NULL, n, params);
}

OLD(cudaGraphAddDependencies,
    (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t n)) {
    return cudaGraphAddDependencies(graph, from, to, NULL, n);
}

OLD(cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *n)) {
    return cudaGraphGetEdges(graph, from, to, NULL, n);
}

OLD(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *n)) {
    return cudaGraphNodeGetDependencies(node, nodes, NULL, n);
}

OLD(cudaGraphNodeGetDependentNodes, (cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *n)) {
    return cudaGraphNodeGetDependentNodes(node, nodes, NULL, n);
}

OLD(cudaGraphRemoveDependencies,
    (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t n)) {
    return cudaGraphRemoveDependencies(graph, from, to, NULL, n);
}

OLD(cudaStreamGetCaptureInfo,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id)) {
    return cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
}

OLD(cudaStreamGetCaptureInfo_ptsz,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id)) {
    return cudaStreamGetCaptureInfo_ptsz(stream, status, id, NULL, NULL, NULL, NULL);
}

OLD(cudaStreamGetCaptureInfo_v2,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
     cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *n)) {
    return cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, NULL, n);
}

OLD(cudaStreamGetCaptureInfo_v2_ptsz,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
     cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *n)) {
    return cudaStreamGetCaptureInfo_ptsz(stream, status, id, graph, nodes, NULL, n);
}

OLD(cudaStreamUpdateCaptureDependencies,
    (cudaStream_t stream, cudaGraphNode_t *nodes, size_t n, unsigned flags)) {
    return cudaStreamUpdateCaptureDependencies(stream, nodes, NULL, n, flags);
}

OLD(cudaStreamUpdateCaptureDependencies_ptsz,
    (cudaStream_t stream, cudaGraphNode_t *nodes, size_t n, unsigned flags)) {
    return cudaStreamUpdateCaptureDependencies_ptsz(stream, nodes, NULL, n, flags);
}

/* failed is the refused operation; the newer call does not say which one it was. */
OLD(cudaMemcpyBatchAsync,
    (void **to, void **from, size_t *sizes, size_t n, struct cudaMemcpyAttributes *attributes,
     size_t *first, size_t n_attributes, size_t *failed, cudaStream_t stream)) {
    return (void)failed, cudaMemcpyBatchAsync((void *const *)to, (const void *const *)from, sizes,
                                              n, attributes, first, n_attributes, stream);
}

OLD(cudaMemcpyBatchAsync_ptsz,
    (void **to, void **from, size_t *sizes, size_t n, struct cudaMemcpyAttributes *attributes,
     size_t *first, size_t n_attributes, size_t *failed, cudaStream_t stream)) {
    return (void)failed,
           cudaMemcpyBatchAsync_ptsz((void *const *)to, (const void *const *)from, sizes, n,
                                     attributes, first, n_attributes, stream);
}

OLD(cudaMemcpy3DBatchAsync, (size_t n, struct cudaMemcpy3DBatchOp *list, size_t *failed,
                             unsigned long long flags, cudaStream_t stream)) {
    return (void)failed, cudaMemcpy3DBatchAsync(n, list, flags, stream);
}

OLD(cudaMemcpy3DBatchAsync_ptsz, (size_t n, struct cudaMemcpy3DBatchOp *list, size_t *failed,
                                  unsigned long long flags, cudaStream_t stream)) {
    return (void)failed, cudaMemcpy3DBatchAsync_ptsz(n, list, flags, stream);
}

OLD(cudaEventElapsedTime_v2, (float *ms, cudaEvent_t start, cudaEvent_t end)) {
    return cudaEventElapsedTime(ms, start, end);
}

/* ---- names of CUDA 2 ---- */

OLD(cudaThreadExit, (void)) {
    return cudaDeviceReset();
}

OLD(cudaThreadSynchronize, (void)) {
    return cudaDeviceSynchronize();
}

OLD(cudaThreadSetLimit, (enum cudaLimit limit, size_t value)) {
    return cudaDeviceSetLimit(limit, value);
}

OLD(cudaThreadGetLimit, (size_t * value, enum cudaLimit limit)) {
    return cudaDeviceGetLimit(value, limit);
}

OLD(cudaThreadGetCacheConfig, (enum cudaFuncCache * config)) {
    return cudaDeviceGetCacheConfig(config);
}

OLD(cudaThreadSetCacheConfig, (enum cudaFuncCache config)) {
    return cudaDeviceSetCacheConfig(config);
}

/* Doubles are doubles since compute capability 1.3. */
OLD(cudaSetDoubleForDevice, (double *value)) {
    return (void)value, cudaSuccess;
}

OLD(cudaSetDoubleForHost, (double *value)) {
    return (void)value, cudaSuccess;
}

/* ---- refused ---- */

OLD(cudaLaunchCooperativeKernelMultiDevice, (void *list, unsigned n, unsigned flags)) {
    return (void)list, (void)n, (void)flags, simrt_leave(cudaErrorNotSupported);
}

OLD(cudaSignalExternalSemaphoresAsync,
    (const cudaExternalSemaphore_t *list, const void *params, unsigned n, cudaStream_t stream)) {
    return cudaSignalExternalSemaphoresAsync(list, params, n, stream);
}

OLD(cudaSignalExternalSemaphoresAsync_ptsz,
    (const cudaExternalSemaphore_t *list, const void *params, unsigned n, cudaStream_t stream)) {
    return cudaSignalExternalSemaphoresAsync_ptsz(list, params, n, stream);
}

OLD(cudaWaitExternalSemaphoresAsync,
    (const cudaExternalSemaphore_t *list, const void *params, unsigned n, cudaStream_t stream)) {
    return cudaWaitExternalSemaphoresAsync(list, params, n, stream);
}

OLD(cudaWaitExternalSemaphoresAsync_ptsz,
    (const cudaExternalSemaphore_t *list, const void *params, unsigned n, cudaStream_t stream)) {
    return cudaWaitExternalSemaphoresAsync_ptsz(list, params, n, stream);
}

#pragma GCC visibility pop
