/*
 * Hooks of mapped memory (entry/mapped_memory.h): the driver serves it, and it is counted for as
 * long as it lives.
 */
#include "cuda/patchable.h"
#include "cuda/table.h"
#include "preload/entry/mapped_memory.h"
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
