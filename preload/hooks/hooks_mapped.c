/*
 * Hooks of mapped memory (entry/mapped_memory.h): it is counted for as long as it lives, and pooled
 * if it fills its reservation.
 */
#include "cuda/patchable.h"
#include "cuda/table.h"
#include "preload/entry/entry.h"
#include "preload/entry/mapped_memory.h"
#include "preload/entry/sight.h"
#include "preload/state/process.h"

CUSHIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t n_bytes,
                                   const CUmemAllocationProp *properties,
                                   unsigned long long flags) {
    CUSHIM_ENTER(cuMemCreate)
    return cushim_mapped_memory_create(cuda, handle, n_bytes, properties, flags);
}

CUSHIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUSHIM_ENTER(cuMemRelease)
    return cushim_process_is_on() ? cushim_mapped_memory_release(cuda, handle)
                                  : cuda->cuMemRelease(handle);
}

CUSHIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                                   void *address) {
    CUSHIM_ENTER(cuMemRetainAllocationHandle)
    return cushim_process_is_on() ? cushim_mapped_memory_retain(cuda, handle, address)
                                  : cuda->cuMemRetainAllocationHandle(handle, address);
}

CUSHIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                      void *shared,
                                                      CUmemAllocationHandleType type) {
    CUSHIM_ENTER(cuMemImportFromShareableHandle)
    return cushim_process_is_on() ? cushim_mapped_memory_import(cuda, handle, shared, type)
                                  : cuda->cuMemImportFromShareableHandle(handle, shared, type);
}

/* Another interface made it. */
CUSHIM_EXPORT CUresult cuImportExternalMemory(CUexternalMemory *memory,
                                              const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle) {
    CUSHIM_ENTER(cuImportExternalMemory)
    CUresult answer = cuda->cuImportExternalMemory(memory, handle);
    return answer == CUDA_SUCCESS ? cushim_entry_note(cuda, CUSHIM_KIND_IMPORTED, answer,
                                                      (uintptr_t)*memory, handle->size)
                                  : answer;
}

CUSHIM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
    CUSHIM_ENTER(cuDestroyExternalMemory)
    struct cushim_foreign foreign;
    bool was_known = cushim_entry_forget((uintptr_t)memory, &foreign);
    CUresult answer = cuda->cuDestroyExternalMemory(memory);
    return was_known ? cushim_entry_forgot(true, &foreign, (uintptr_t)memory, answer) : answer;
}

CUSHIM_PATCHABLE(cuMemMap)
CUSHIM_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t n_bytes, size_t offset,
                                CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUSHIM_ENTER(cuMemMap)
    return cushim_process_is_on()
               ? cushim_mapped_memory_map(cuda, address, n_bytes, offset, handle, flags)
               : cuda->cuMemMap(address, n_bytes, offset, handle, flags);
}

CUSHIM_PATCHABLE(cuMemUnmap)
CUSHIM_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t n_bytes) {
    CUSHIM_ENTER(cuMemUnmap)
    return cushim_process_is_on() ? cushim_mapped_memory_unmap(cuda, address, n_bytes)
                                  : cuda->cuMemUnmap(address, n_bytes);
}

CUSHIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t n_bytes, size_t align_bytes,
                                           CUdeviceptr hint, unsigned long long flags) {
    CUSHIM_ENTER(cuMemAddressReserve)
    return cushim_process_is_on()
               ? cushim_mapped_memory_reserve(cuda, address, n_bytes, align_bytes, hint, flags)
               : cuda->cuMemAddressReserve(address, n_bytes, align_bytes, hint, flags);
}

CUSHIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t n_bytes) {
    CUSHIM_ENTER(cuMemAddressFree)
    return cushim_process_is_on() ? cushim_mapped_memory_unreserve(cuda, address, n_bytes)
                                  : cuda->cuMemAddressFree(address, n_bytes);
}

CUSHIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t n_bytes,
                                      const CUmemAccessDesc *access, size_t n) {
    CUSHIM_ENTER(cuMemSetAccess)
    return cushim_process_is_on()
               ? cushim_mapped_memory_set_access(cuda, address, n_bytes, access, n)
               : cuda->cuMemSetAccess(address, n_bytes, access, n);
}

/* ---- calls about a part of it ---- */

/* The call's answer if the driver refuses what comes before it. */
#define FIRST(call)                                                                                \
    if (cushim_process_is_on()) {                                                                  \
        CUresult answer = call;                                                                    \
        if (answer != CUDA_SUCCESS)                                                                \
            return answer;                                                                         \
    }

CUSHIM_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                      CUdeviceptr address) {
    CUSHIM_ENTER(cuMemGetAccess)
    FIRST(cushim_mapped_memory_ask_at(cuda, address))
    return cuda->cuMemGetAccess(flags, location, address);
}

CUSHIM_EXPORT CUresult cuMemExportToShareableHandle(void *shared,
                                                    CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
    CUSHIM_ENTER(cuMemExportToShareableHandle)
    CUmemAllocationProp properties;
    if (cushim_process_is_on() && cushim_mapped_memory_is_spilled(handle, &properties))
        return cushim_sight_refuse_handle(handle, "lies in host memory (CUSHIM_SPILL)");
    FIRST(cushim_mapped_memory_share(cuda, handle))
    return cuda->cuMemExportToShareableHandle(shared, handle, type, flags);
}

CUSHIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                              CUmemGenericAllocationHandle handle) {
    CUSHIM_ENTER(cuMemGetAllocationPropertiesFromHandle)
    if (properties && cushim_process_is_on() && cushim_mapped_memory_is_spilled(handle, properties))
        return CUDA_SUCCESS;
    return cuda->cuMemGetAllocationPropertiesFromHandle(properties, handle);
}

CUSHIM_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast,
                                          size_t multicast_offset,
                                          CUmemGenericAllocationHandle handle, size_t offset,
                                          size_t n_bytes, unsigned long long flags) {
    CUSHIM_ENTER(cuMulticastBindMem)
    FIRST(cushim_mapped_memory_share(cuda, handle))
    return cuda->cuMulticastBindMem(multicast, multicast_offset, handle, offset, n_bytes, flags);
}

CUSHIM_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset,
                                           CUdeviceptr address, size_t n_bytes,
                                           unsigned long long flags) {
    CUSHIM_ENTER(cuMulticastBindAddr)
    FIRST(cushim_mapped_memory_share_at(cuda, address, n_bytes))
    return cuda->cuMulticastBindAddr(multicast, offset, address, n_bytes, flags);
}

static CUresult map_array(struct cushim_cuda *cuda, __typeof__(&cuMemMapArrayAsync) real,
                          CUarrayMapInfo *maps, unsigned n, CUstream stream) {
    for (unsigned i = 0; maps && i < n; i++)
        FIRST(cushim_mapped_memory_share(cuda, maps[i].memHandle.memHandle))
    return real(maps, n, stream);
}

CUSHIM_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *maps, unsigned n, CUstream stream) {
    CUSHIM_ENTER(cuMemMapArrayAsync)
    return map_array(cuda, cuda->cuMemMapArrayAsync, maps, n, stream);
}

CUSHIM_EXPORT CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *maps, unsigned n, CUstream stream) {
    CUSHIM_ENTER(cuMemMapArrayAsync_ptsz)
    return map_array(cuda, cuda->cuMemMapArrayAsync_ptsz, maps, n, stream);
}
