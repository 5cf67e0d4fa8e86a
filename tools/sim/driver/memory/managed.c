/*
 * Managed memory, and hints about it.  Host and devices see the same bytes, so a hint changes
 * nothing. It is checked like the real ones, and takes its place in its stream.
 */
#include "tools/sim/driver/core/abi.h"
#include "cuda/patchable.h"
#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/stream/stream.h"

#include <string.h>

static CUresult alloc(CUdeviceptr *out, size_t n_bytes, unsigned flags) {
    struct sim_context *context;
    struct sim_block *block;
    SIM_TRY(sim_context_current(&context));
    if (!out || n_bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_obtain_host(SIM_BLOCK_MANAGED, context, n_bytes, flags, &block));
    *out = (CUdeviceptr)(uintptr_t)block->address;
    return CUDA_SUCCESS;
}

CUSHIM_PATCHABLE(cuMemAllocManaged)
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    SIM_ENTER(cuMemAllocManaged);
    return sim_leave(alloc(dptr, bytesize, flags));
}

static CUresult judge(CUdeviceptr address, size_t n_bytes) {
    struct sim_block *block;
    if (n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_judge(address, n_bytes, NULL, &block));
    return block && block->kind == SIM_BLOCK_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult judge_location(CUmemLocation location) {
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && !sim_device_at(location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

/* CU_DEVICE_CPU, or a device. */
static CUresult judge_device(CUdevice device) {
    return device == CU_DEVICE_CPU || sim_device_at(device) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult advise(CUdeviceptr address, size_t n_bytes, CUmem_advise advice, CUresult place) {
    SIM_TRY(place);
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    return judge(address, n_bytes);
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    SIM_ENTER(cuMemAdvise);
    return sim_leave(advise(devPtr, count, advice, judge_device(device)));
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location) {
    SIM_ENTER(cuMemAdvise_v2);
    return sim_leave(advise(devPtr, count, advice, judge_location(location)));
}

/* A hint takes its place in the stream and does nothing there. */
static CUresult enqueue_hint(CUstream handle, CUstream default_stream) {
    struct sim_stream *stream;
    struct sim_work work = {.kind = SIM_WORK_EMPTY};
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    return sim_stream_enqueue(stream, &work, NULL);
}

static CUresult prefetch(CUdeviceptr address, size_t n_bytes, CUresult place, CUstream stream,
                         CUstream default_stream) {
    SIM_TRY(place);
    SIM_TRY(judge(address, n_bytes));
    return enqueue_hint(stream, default_stream);
}

SIM_BOTH(cuMemPrefetchAsync, _ptsz,
         TAKES(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream),
         prefetch(devPtr, count, judge_device(dstDevice), hStream, default_stream))

SIM_BOTH(cuMemPrefetchAsync_v2, _ptsz,
         TAKES(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
               CUstream hStream),
         ((void)flags, prefetch(devPtr, count, judge_location(location), hStream, default_stream)))

/* Many ranges at once; `locations` may be NULL for a discard. */
static CUresult batch(const CUdeviceptr *addresses, const size_t *sizes, size_t n,
                      const CUmemLocation *locations, size_t n_locations, CUstream stream,
                      CUstream default_stream) {
    if (!addresses || !sizes || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        SIM_TRY(judge(addresses[i], sizes[i]));
    for (size_t i = 0; i < n_locations; i++)
        SIM_TRY(locations ? judge_location(locations[i]) : CUDA_ERROR_INVALID_VALUE);
    return enqueue_hint(stream, default_stream);
}

/* With a discard first or without: hints do nothing. */
#define PREFETCH_BATCH(abi)                                                                        \
    SIM_BOTH(abi, _ptsz,                                                                           \
             TAKES(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,   \
                   size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,      \
                   CUstream hStream),                                                              \
             ((void)prefetchLocIdxs, (void)flags,                                                  \
              batch(dptrs, sizes, count, prefetchLocs, numPrefetchLocs, hStream, default_stream)))

PREFETCH_BATCH(cuMemPrefetchBatchAsync)
PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync)

SIM_BOTH(cuMemDiscardBatchAsync, _ptsz,
         TAKES(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags,
               CUstream hStream),
         ((void)flags, batch(dptrs, sizes, count, NULL, 0, hStream, default_stream)))

/* A whole allocation: of its length, or of length 0. */
static CUresult attach(CUdeviceptr address, size_t n_bytes, unsigned flags, CUstream stream,
                       CUstream default_stream) {
    SIM_TRY(judge(address, 1));
    if (n_bytes && n_bytes != sim_block_find(address)->n_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue_hint(stream, default_stream);
}

SIM_BOTH(cuStreamAttachMemAsync, _ptsz,
         TAKES(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags),
         attach(dptr, length, flags, hStream, default_stream))

/* No hint is kept, so each attribute has its initial value. */
static CUresult range_attribute(void *data, size_t n_bytes, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t count) {
    if (!data || n_bytes < sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(judge(address, count));
    int none = CU_DEVICE_INVALID;
    memset(data, 0, n_bytes);
    if (attribute != CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)
        memcpy(data, &none, sizeof none);
    return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count) {
    SIM_ENTER(cuMemRangeGetAttribute);
    return sim_leave(range_attribute(data, dataSize, attribute, devPtr, count));
}

static CUresult range_attributes(void **data, const size_t *sizes,
                                 const CUmem_range_attribute *attributes, size_t n,
                                 CUdeviceptr address, size_t count) {
    if (!data || !sizes || !attributes || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        SIM_TRY(range_attribute(data[i], sizes[i], attributes[i], address, count));
    return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
    SIM_ENTER(cuMemRangeGetAttributes);
    return sim_leave(range_attributes(data, dataSizes, attributes, numAttributes, devPtr, count));
}
