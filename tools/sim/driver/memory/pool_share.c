/*
 * A pool that another process imports by a descriptor, and memory of it that is shown there.
 *
 * The descriptor is a file with the pool's device and a key.  The bytes that show an allocation are
 * those of a handle (ipc.h), which only a process with the key can read.  The importer allocates
 * nothing from the pool, and frees imported memory as its own.
 */
#include "tools/sim/driver/core/abi.h"
#include "ipc.h"
#include "pool.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

_Static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(CUipcMemHandle), "one size of names");

static const char MAGIC[8] = "cushimp";

struct record {
    char magic[8];
    int32_t ordinal;
    uint32_t key;
};

static bool is_descriptor(CUmemAllocationHandleType type, unsigned long long flags) {
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0;
}

/* So that pointers of other pools or processes are not taken for this pool's. */
static bool give_key(struct sim_pool *pool) {
    while (pool->key == 0) {
        if (getrandom(&pool->key, sizeof pool->key, 0) != sizeof pool->key)
            return false;
    }
    return true;
}

static CUresult export_pool(void *out, CUmemoryPool handle, CUmemAllocationHandleType type,
                            unsigned long long flags) {
    struct sim_pool *pool;
    SIM_TRY(sim_pool_of_handle(handle, &pool));
    if (!out || !is_descriptor(type, flags) || !pool->is_shareable)
        return CUDA_ERROR_INVALID_VALUE;
    if (!give_key(pool))
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct record record = {.ordinal = pool->device->ordinal, .key = pool->key};
    memcpy(record.magic, MAGIC, sizeof MAGIC);
    int fd = memfd_create("cushim software device pool", MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (pwrite(fd, &record, sizeof record, 0) != sizeof record) {
        close(fd);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
    SIM_ENTER(cuMemPoolExportToShareableHandle);
    return sim_leave(export_pool(handle_out, pool, handleType, flags));
}

static CUresult import_pool(CUmemoryPool *out, void *handle, CUmemAllocationHandleType type,
                            unsigned long long flags) {
    struct record record;
    if (!out || !is_descriptor(type, flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (pread((int)(intptr_t)handle, &record, sizeof record, 0) != sizeof record ||
        memcmp(record.magic, MAGIC, sizeof MAGIC) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *device = sim_device_at(record.ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_pool *pool = sim_pool_create(device);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->is_imported = true;
    pool->key = record.key;
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
    SIM_ENTER(cuMemPoolImportFromShareableHandle);
    return sim_leave(import_pool(pool_out, handle, handleType, flags));
}

static CUresult export_pointer(CUmemPoolPtrExportData *out, CUdeviceptr address) {
    struct sim_block *block = sim_block_find(address);
    CUipcMemHandle name;
    if (!out || !block || block->kind != SIM_BLOCK_ASYNC || !block->pool ||
        !block->pool->is_shareable)
        return CUDA_ERROR_INVALID_VALUE;
    if (!give_key(block->pool))
        return CUDA_ERROR_OPERATING_SYSTEM;
    SIM_TRY(sim_ipc_name(&name, block, block->pool->key));
    memcpy(out, &name, sizeof name);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
    SIM_ENTER(cuMemPoolExportPointer);
    return sim_leave(export_pointer(shareData_out, ptr));
}

static CUresult import_pointer(CUdeviceptr *out, CUmemoryPool handle,
                               const CUmemPoolPtrExportData *data) {
    struct sim_context *context;
    struct sim_pool *pool;
    struct sim_block *block;
    CUipcMemHandle name;
    SIM_TRY(sim_context_current(&context));
    SIM_TRY(sim_pool_of_handle(handle, &pool));
    if (!out || !data || !pool->is_imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->device != context->device)
        return CUDA_ERROR_NOT_SUPPORTED; /* a device's memory is mapped by its own contexts */
    memcpy(&name, data, sizeof name);
    SIM_TRY(sim_ipc_note(&block, context->root, &name, pool->key));
    block->pool = pool;
    *out = (CUdeviceptr)(uintptr_t)block->address;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData *shareData) {
    SIM_ENTER(cuMemPoolImportPointer);
    return sim_leave(import_pointer(ptr_out, pool, shareData));
}
