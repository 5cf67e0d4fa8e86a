/*
 * Hooks of mapped memory (entry/mapped_memory.h): it is counted for as long as it lives, and pooled
 * if it fills its reservation.
 */
#include "cuda/patchable.h"
#include "preload/entry/entry.h"
#include "preload/entry/mapped_memory.h"
#include "preload/entry/sight.h"
#include "preload/hooks/hook.h"

/* What a hook does that we serve, unless cushim is off. */
#define SERVE(ours, call) return cushim_process_is_on() ? ours : call

HOOK(cuMemCreate,
     TAKES(CUmemGenericAllocationHandle *handle, size_t n_bytes,
           const CUmemAllocationProp *properties, unsigned long long flags),
     return cushim_mapped_memory_create(cuda, handle, n_bytes, properties, flags))
HOOK(cuMemRelease, TAKES(CUmemGenericAllocationHandle handle),
     SERVE(cushim_mapped_memory_release(cuda, handle), REAL(handle)))
HOOK(cuMemRetainAllocationHandle, TAKES(CUmemGenericAllocationHandle *handle, void *address),
     SERVE(cushim_mapped_memory_retain(cuda, handle, address), REAL(handle, address)))
HOOK(cuMemImportFromShareableHandle,
     TAKES(CUmemGenericAllocationHandle *handle, void *shared, CUmemAllocationHandleType type),
     SERVE(cushim_mapped_memory_import(cuda, handle, shared, type), REAL(handle, shared, type)))
CUSHIM_PATCHABLE(cuMemMap)
HOOK(cuMemMap,
     TAKES(CUdeviceptr address, size_t n_bytes, size_t offset, CUmemGenericAllocationHandle handle,
           unsigned long long flags),
     SERVE(cushim_mapped_memory_map(cuda, address, n_bytes, offset, handle, flags),
           REAL(address, n_bytes, offset, handle, flags)))
CUSHIM_PATCHABLE(cuMemUnmap)
HOOK(cuMemUnmap, TAKES(CUdeviceptr address, size_t n_bytes),
     SERVE(cushim_mapped_memory_unmap(cuda, address, n_bytes), REAL(address, n_bytes)))
HOOK(cuMemAddressReserve,
     TAKES(CUdeviceptr *address, size_t n_bytes, size_t align_bytes, CUdeviceptr hint,
           unsigned long long flags),
     SERVE(cushim_mapped_memory_reserve(cuda, address, n_bytes, align_bytes, hint, flags),
           REAL(address, n_bytes, align_bytes, hint, flags)))
HOOK(cuMemAddressFree, TAKES(CUdeviceptr address, size_t n_bytes),
     SERVE(cushim_mapped_memory_unreserve(cuda, address, n_bytes), REAL(address, n_bytes)))
HOOK(cuMemSetAccess,
     TAKES(CUdeviceptr address, size_t n_bytes, const CUmemAccessDesc *access, size_t n),
     SERVE(cushim_mapped_memory_set_access(cuda, address, n_bytes, access, n),
           REAL(address, n_bytes, access, n)))

/* Another interface made it. */
HOOK(cuImportExternalMemory,
     TAKES(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle),
     ON_SUCCESS(REAL(memory, handle), cushim_entry_note(cuda, CUSHIM_KIND_IMPORTED, CUDA_SUCCESS,
                                                        (uintptr_t)*memory, handle->size)))
HOOK(cuDestroyExternalMemory, TAKES(CUexternalMemory memory),
     CUSHIM_ENTRY_DESTROY((uintptr_t)memory, REAL(memory)))

/* ---- calls about a part of it ---- */

/* The answer of `first` if the driver refuses that, which comes before the call. */
#define AFTER(first, call)                                                                         \
    CUresult answer = cushim_process_is_on() ? first : CUDA_SUCCESS;                               \
    return answer == CUDA_SUCCESS ? call : answer

HOOK(cuMemGetAccess,
     TAKES(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address),
     AFTER(cushim_mapped_memory_ask_at(cuda, address), REAL(flags, location, address)))
HOOK(cuMulticastBindMem,
     TAKES(CUmemGenericAllocationHandle multicast, size_t multicast_offset,
           CUmemGenericAllocationHandle handle, size_t offset, size_t n_bytes,
           unsigned long long flags),
     AFTER(cushim_mapped_memory_share(cuda, handle),
           REAL(multicast, multicast_offset, handle, offset, n_bytes, flags)))
HOOK(cuMulticastBindAddr,
     TAKES(CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address,
           size_t n_bytes, unsigned long long flags),
     AFTER(cushim_mapped_memory_share_at(cuda, address, n_bytes),
           REAL(multicast, offset, address, n_bytes, flags)))

CUSHIM_EXPORT CUresult cuMemExportToShareableHandle(void *shared,
                                                    CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
    CUSHIM_ENTER(cuMemExportToShareableHandle)
    CUmemAllocationProp properties;
    if (cushim_process_is_on() && cushim_mapped_memory_is_spilled(handle, &properties))
        return cushim_sight_refuse_handle(handle, "lies in host memory (CUSHIM_SPILL)");
    AFTER(cushim_mapped_memory_share(cuda, handle),
          cuda->cuMemExportToShareableHandle(shared, handle, type, flags));
}

HOOK(cuMemGetAllocationPropertiesFromHandle,
     TAKES(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle),
     return properties && cushim_process_is_on() &&
                    cushim_mapped_memory_is_spilled(handle, properties)
                ? CUDA_SUCCESS
                : REAL(properties, handle))

static CUresult share_all(struct cushim_cuda *cuda, const CUarrayMapInfo *maps, unsigned n) {
    CUresult answer = CUDA_SUCCESS;
    for (unsigned i = 0; maps && i < n && answer == CUDA_SUCCESS; i++)
        answer = cushim_mapped_memory_share(cuda, maps[i].memHandle.memHandle);
    return answer;
}

HOOKS_PTSZ(cuMemMapArrayAsync, TAKES(CUarrayMapInfo *maps, unsigned n, CUstream stream),
           AFTER(share_all(cuda, maps, n), REAL(maps, n, stream)))
