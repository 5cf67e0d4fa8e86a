/* The program's queries of an address. */
#include "tools/sim/driver/core/abi.h"
#include "block.h"
#include "tools/sim/driver/core/calls.h"

#include <string.h>

/* Copy the answer if there is one; `data` has room for it. */
static CUresult answer(void *data, const void *value, size_t n_bytes) {
    memcpy(data, value, n_bytes);
    return CUDA_SUCCESS;
}

static CUresult answer_unsigned(void *data, unsigned value) {
    return answer(data, &value, sizeof value);
}

static CUresult answer_pointer(void *data, const void *value) {
    return answer(data, &value, sizeof value);
}

/* Booleans of this interface are written as one byte, because callers pass a bool or an int at 0.
 */
static CUresult answer_bool(void *data, bool value) {
    unsigned char byte = value;
    return answer(data, &byte, 1);
}

static bool is_pinned(const struct sim_block *block) {
    return block->kind == SIM_BLOCK_HOST || block->kind == SIM_BLOCK_REGISTERED ||
           block->is_on_host;
}

static CUresult get(void *data, CUpointer_attribute attribute, CUdeviceptr address,
                    const struct sim_block *block) {
    bool is_host = sim_block_is_host(block);
    size_t n_bytes = block->n_bytes;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        if (block->is_on_host)
            return CUDA_ERROR_INVALID_VALUE;
        return answer_pointer(data, block->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return answer_unsigned(data, is_pinned(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return answer(data, &address, sizeof address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host && !block->is_on_host)
            return CUDA_ERROR_INVALID_VALUE;
        return answer(data, &address, sizeof address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return answer_bool(data, block->has_sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return answer(data, &block->buffer_id, sizeof block->buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return answer_bool(data, block->kind == SIM_BLOCK_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
        int ordinal = block->is_on_host ? CU_DEVICE_CPU : block->device->ordinal;
        return answer(data, &ordinal, sizeof ordinal);
    }
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return answer_bool(data, block->kind == SIM_BLOCK_DEVICE);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return answer_pointer(data, block->address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return answer(data, &n_bytes, sizeof n_bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return answer_bool(data, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: {
        unsigned long long types =
            block->kind == SIM_BLOCK_MAPPED ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
        return answer(data, &types, sizeof types);
    }
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return answer_bool(data, false);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return answer_unsigned(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return answer_pointer(data, block->pool);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return answer(data, &block->buffer_id, sizeof block->buffer_id);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult get_one(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    const struct sim_block *block = sim_block_find(address);
    if (!data || !block)
        return CUDA_ERROR_INVALID_VALUE;
    return get(data, attribute, address, block);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    SIM_ENTER(cuPointerGetAttribute);
    return sim_leave(get_one(data, attribute, ptr));
}

/* The size of an attribute's answer; 0: no such attribute. */
static size_t bytes_of(CUpointer_attribute attribute) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return 8;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return 1;
    default:
        return 0;
    }
}

/* An unknown pointer is a success: every attribute is 0, the device CU_DEVICE_INVALID. */
static CUresult get_many(unsigned n, const CUpointer_attribute *attributes, void **data,
                         CUdeviceptr address) {
    const struct sim_block *block = sim_block_find(address);
    if (n == 0 || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        size_t n_bytes = bytes_of(attributes[i]);
        int no_device = CU_DEVICE_INVALID;
        if (n_bytes == 0 || !data[i])
            return CUDA_ERROR_INVALID_VALUE;
        memset(data[i], 0, n_bytes);
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            memcpy(data[i], &no_device, sizeof no_device);
        if (block)
            get(data[i], attributes[i], address, block); /* an attribute that it lacks stays 0 */
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr) {
    SIM_ENTER(cuPointerGetAttributes);
    return sim_leave(get_many(numAttributes, attributes, data, ptr));
}

static CUresult set(const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    struct sim_block *block = sim_block_find(address);
    if (!value || !block || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    block->has_sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    SIM_ENTER(cuPointerSetAttribute);
    return sim_leave(set(value, attribute, ptr));
}
