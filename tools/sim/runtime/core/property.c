/*
 * The properties of a device.  The large struct of cudaGetDeviceProperties is filled from the
 * driver's attributes: one row of the table below for each field.  Fields without a row are 0.
 */
#include "primary.h"
#include "thread.h"

#include <stddef.h>
#include <string.h>

/* The place of an attribute's value: fields are int, or wide (size_t). */
struct row {
    CUdevice_attribute attribute;
    size_t offset;
    size_t n_bytes;
};

#define FIELD(field) offsetof(struct cudaDeviceProp, field)
#define SIZE(field)  sizeof(((struct cudaDeviceProp *)NULL)->field)

static const struct row rows[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, FIELD(sharedMemPerBlock),
     SIZE(sharedMemPerBlock)},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, FIELD(regsPerBlock), SIZE(regsPerBlock)},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, FIELD(warpSize), SIZE(warpSize)},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, FIELD(memPitch), SIZE(memPitch)},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, FIELD(maxThreadsPerBlock),
     SIZE(maxThreadsPerBlock)},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, FIELD(maxThreadsDim[0]), sizeof(int)},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, FIELD(maxThreadsDim[1]), sizeof(int)},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, FIELD(maxThreadsDim[2]), sizeof(int)},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, FIELD(maxGridSize[0]), sizeof(int)},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, FIELD(maxGridSize[1]), sizeof(int)},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, FIELD(maxGridSize[2]), sizeof(int)},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, FIELD(totalConstMem), SIZE(totalConstMem)},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, FIELD(major), SIZE(major)},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, FIELD(minor), SIZE(minor)},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, FIELD(textureAlignment), SIZE(textureAlignment)},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, FIELD(multiProcessorCount),
     SIZE(multiProcessorCount)},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, FIELD(integrated), SIZE(integrated)},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, FIELD(canMapHostMemory), SIZE(canMapHostMemory)},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, FIELD(concurrentKernels), SIZE(concurrentKernels)},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, FIELD(ECCEnabled), SIZE(ECCEnabled)},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, FIELD(pciBusID), SIZE(pciBusID)},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, FIELD(pciDeviceID), SIZE(pciDeviceID)},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, FIELD(pciDomainID), SIZE(pciDomainID)},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, FIELD(asyncEngineCount), SIZE(asyncEngineCount)},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, FIELD(unifiedAddressing), SIZE(unifiedAddressing)},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, FIELD(memoryBusWidth), SIZE(memoryBusWidth)},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, FIELD(l2CacheSize), SIZE(l2CacheSize)},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, FIELD(maxThreadsPerMultiProcessor),
     SIZE(maxThreadsPerMultiProcessor)},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, FIELD(streamPrioritiesSupported),
     SIZE(streamPrioritiesSupported)},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, FIELD(sharedMemPerMultiprocessor),
     SIZE(sharedMemPerMultiprocessor)},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, FIELD(regsPerMultiprocessor),
     SIZE(regsPerMultiprocessor)},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, FIELD(managedMemory), SIZE(managedMemory)},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, FIELD(pageableMemoryAccess),
     SIZE(pageableMemoryAccess)},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, FIELD(concurrentManagedAccess),
     SIZE(concurrentManagedAccess)},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
     FIELD(canUseHostPointerForRegisteredMem), SIZE(canUseHostPointerForRegisteredMem)},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, FIELD(cooperativeLaunch), SIZE(cooperativeLaunch)},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, FIELD(memoryPoolsSupported),
     SIZE(memoryPoolsSupported)},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, FIELD(hostRegisterSupported),
     SIZE(hostRegisterSupported)},
};

/* If this driver does not know an attribute, its field stays 0. */
static void fill(struct cudaDeviceProp *prop, const struct row *row, CUdevice device) {
    int value = 0;
    if (simrt_legacy.cuDeviceGetAttribute(&value, row->attribute, device) != CUDA_SUCCESS)
        return;
    size_t wide = (size_t)value;
    const void *source = row->n_bytes == sizeof wide ? (const void *)&wide : (const void *)&value;
    memcpy((char *)prop + row->offset, source, row->n_bytes);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    CUdevice handle = 0;
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess && !prop)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_primary_check(device);
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDeviceGet(&handle, device));
    if (error != cudaSuccess)
        return simrt_leave(error);

    memset(prop, 0, sizeof *prop);
    CUresult result = simrt_legacy.cuDeviceGetName(prop->name, sizeof prop->name, handle);
    if (result == CUDA_SUCCESS)
        result = simrt_legacy.cuDeviceTotalMem_v2(&prop->totalGlobalMem, handle);
    if (result == CUDA_SUCCESS)
        result = simrt_legacy.cuDeviceGetUuid_v2(&prop->uuid, handle);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fill(prop, &rows[i], handle);
    return simrt_leave(simrt_from_cu(result));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess)
        error = simrt_primary_check(device);
    if (error == cudaSuccess)
        error = simrt_from_cu(
            simrt_legacy.cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device));
    return simrt_leave(error);
}
