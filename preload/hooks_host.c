/*
 * Hooks of managed and pinned memory and of hints about it: forwarded and counted.  Their pools
 * come with a later issue; the hints are what will keep a managed block out of its cache.
 */
#include "preload/door.h"

CUSHIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t n_bytes, unsigned flags) {
    CUSHIM_ENTER(cuMemAllocManaged)
    CUresult answer = cuda->cuMemAllocManaged(address, n_bytes, flags);
    if (cushim_door_should_retry(answer))
        answer = cuda->cuMemAllocManaged(address, n_bytes, flags);
    if (!cushim_engine_is_on() || !cushim_engine.options.managed)
        return answer;
    return cushim_door_note(cuda, CUSHIM_KIND_MANAGED, answer,
                            answer == CUDA_SUCCESS ? *address : 0, n_bytes);
}

static CUresult note_pinned(struct cushim_cuda *cuda, CUresult answer, void **address,
                            size_t n_bytes) {
    if (!cushim_engine_is_on() || !cushim_engine.options.pinned)
        return answer;
    return cushim_door_note(cuda, CUSHIM_KIND_PINNED, answer,
                            answer == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*address : 0, n_bytes);
}

CUSHIM_EXPORT CUresult cuMemHostAlloc(void **address, size_t n_bytes, unsigned flags) {
    CUSHIM_ENTER(cuMemHostAlloc)
    return note_pinned(cuda, cuda->cuMemHostAlloc(address, n_bytes, flags), address, n_bytes);
}

CUSHIM_EXPORT CUresult cuMemAllocHost_v2(void **address, size_t n_bytes) {
    CUSHIM_ENTER(cuMemAllocHost_v2)
    return note_pinned(cuda, cuda->cuMemAllocHost_v2(address, n_bytes), address, n_bytes);
}

CUSHIM_EXPORT CUresult cuMemFreeHost(void *address) {
    struct cushim_native native;
    uint64_t key = (uint64_t)(uintptr_t)address;
    CUSHIM_ENTER(cuMemFreeHost)
    if (!cushim_engine_is_on() || !cushim_engine.options.pinned)
        return cuda->cuMemFreeHost(address);
    bool was_known = cushim_door_forget(key, &native);
    return cushim_door_forgot(was_known, &native, key, cuda->cuMemFreeHost(address));
}

CUSHIM_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t n_bytes, CUmem_advise advice,
                                   CUdevice device) {
    CUSHIM_ENTER(cuMemAdvise)
    return cuda->cuMemAdvise(address, n_bytes, advice, device);
}

CUSHIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t n_bytes, CUmem_advise advice,
                                      CUmemLocation location) {
    CUSHIM_ENTER(cuMemAdvise_v2)
    return cuda->cuMemAdvise_v2(address, n_bytes, advice, location);
}

CUSHIM_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t n_bytes, CUdevice device,
                                          CUstream stream) {
    CUSHIM_ENTER(cuMemPrefetchAsync)
    return cuda->cuMemPrefetchAsync(address, n_bytes, device, stream);
}

CUSHIM_EXPORT CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t n_bytes, CUdevice device,
                                               CUstream stream) {
    CUSHIM_ENTER(cuMemPrefetchAsync_ptsz)
    return cuda->cuMemPrefetchAsync_ptsz(address, n_bytes, device, stream);
}

CUSHIM_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t n_bytes,
                                             CUmemLocation location, unsigned flags,
                                             CUstream stream) {
    CUSHIM_ENTER(cuMemPrefetchAsync_v2)
    return cuda->cuMemPrefetchAsync_v2(address, n_bytes, location, flags, stream);
}

CUSHIM_EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t n_bytes,
                                                  CUmemLocation location, unsigned flags,
                                                  CUstream stream) {
    CUSHIM_ENTER(cuMemPrefetchAsync_v2_ptsz)
    return cuda->cuMemPrefetchAsync_v2_ptsz(address, n_bytes, location, flags, stream);
}

CUSHIM_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t n,
                                               CUmemLocation *locations, size_t *location_indices,
                                               size_t n_locations, unsigned long long flags,
                                               CUstream stream) {
    CUSHIM_ENTER(cuMemPrefetchBatchAsync)
    return cuda->cuMemPrefetchBatchAsync(addresses, sizes, n, locations, location_indices,
                                         n_locations, flags, stream);
}

CUSHIM_EXPORT CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *addresses, size_t *sizes, size_t n,
                                                    CUmemLocation *locations,
                                                    size_t *location_indices, size_t n_locations,
                                                    unsigned long long flags, CUstream stream) {
    CUSHIM_ENTER(cuMemPrefetchBatchAsync_ptsz)
    return cuda->cuMemPrefetchBatchAsync_ptsz(addresses, sizes, n, locations, location_indices,
                                              n_locations, flags, stream);
}

CUSHIM_EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t n,
                                              unsigned long long flags, CUstream stream) {
    CUSHIM_ENTER(cuMemDiscardBatchAsync)
    return cuda->cuMemDiscardBatchAsync(addresses, sizes, n, flags, stream);
}

CUSHIM_EXPORT CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *addresses, size_t *sizes, size_t n,
                                                   unsigned long long flags, CUstream stream) {
    CUSHIM_ENTER(cuMemDiscardBatchAsync_ptsz)
    return cuda->cuMemDiscardBatchAsync_ptsz(addresses, sizes, n, flags, stream);
}

CUSHIM_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(
    CUdeviceptr *addresses, size_t *sizes, size_t n, CUmemLocation *locations,
    size_t *location_indices, size_t n_locations, unsigned long long flags, CUstream stream) {
    CUSHIM_ENTER(cuMemDiscardAndPrefetchBatchAsync)
    return cuda->cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, n, locations, location_indices,
                                                   n_locations, flags, stream);
}

CUSHIM_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(
    CUdeviceptr *addresses, size_t *sizes, size_t n, CUmemLocation *locations,
    size_t *location_indices, size_t n_locations, unsigned long long flags, CUstream stream) {
    CUSHIM_ENTER(cuMemDiscardAndPrefetchBatchAsync_ptsz)
    return cuda->cuMemDiscardAndPrefetchBatchAsync_ptsz(
        addresses, sizes, n, locations, location_indices, n_locations, flags, stream);
}

CUSHIM_EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t n_bytes,
                                              unsigned flags) {
    CUSHIM_ENTER(cuStreamAttachMemAsync)
    return cuda->cuStreamAttachMemAsync(stream, address, n_bytes, flags);
}

CUSHIM_EXPORT CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address,
                                                   size_t n_bytes, unsigned flags) {
    CUSHIM_ENTER(cuStreamAttachMemAsync_ptsz)
    return cuda->cuStreamAttachMemAsync_ptsz(stream, address, n_bytes, flags);
}
