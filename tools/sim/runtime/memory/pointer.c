/* The properties of a pointer.  Unknown pointers are no error: they are host memory that CUDA does
 * not know. */
#include "tools/sim/runtime/core/thread.h"

#include <string.h>

static enum cudaMemoryType type_of(unsigned memory_type, unsigned is_managed) {
    if (is_managed)
        return cudaMemoryTypeManaged;
    if (memory_type == CU_MEMORYTYPE_HOST)
        return cudaMemoryTypeHost;
    return memory_type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !attributes)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return simrt_leave(error);

    unsigned memory_type = 0, is_managed = 0;
    int device = cudaInvalidDeviceId;
    CUdeviceptr device_address = 0;
    void *host_address = NULL;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,
    };
    void *values[] = {&memory_type, &is_managed, &device, &device_address, &host_address};
    error = simrt_from_cu(simrt_legacy.cuPointerGetAttributes(sizeof names / sizeof *names, names,
                                                              values, (CUdeviceptr)ptr));
    if (error != cudaSuccess)
        return simrt_leave(error);

    memset(attributes, 0, sizeof *attributes);
    attributes->type = type_of(memory_type, is_managed);
    if (attributes->type == cudaMemoryTypeUnregistered) {
        attributes->device = cudaInvalidDeviceId;
        attributes->hostPointer = (void *)ptr;
    } else {
        attributes->device = device;
        attributes->devicePointer = (void *)device_address;
        attributes->hostPointer = host_address;
    }
    return cudaSuccess;
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f) {
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
