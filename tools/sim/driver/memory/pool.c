#include "pool.h"

#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/context/device.h"
#include "tools/sim/driver/core/handle.h"

#include <stdlib.h>
#include <string.h>

static struct sim_pool *pools;

struct sim_pool *sim_pool_create(struct sim_device *device) {
    struct sim_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    if (!sim_handle_add(pool, SIM_HANDLE_POOL)) {
        free(pool);
        return NULL;
    }
    pool->device = device;
    pool->next = pools;
    pools = pool;
    pool->attributes[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
    pool->attributes[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
    pool->attributes[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
    return pool;
}

/* ---- the pages ---- */

/* At least this many bytes stay reserved; false: nothing was given back. */
static bool trim(struct sim_pool *pool, uint64_t keep_bytes) {
    uint64_t n_kept = keep_bytes / SIM_PAGE_BYTES + (keep_bytes % SIM_PAGE_BYTES != 0);
    size_t n = pool->n_pages > n_kept ? pool->n_pages - (size_t)n_kept : 0;
    if (n > pool->n_idle_pages)
        n = pool->n_idle_pages;
    pool->n_pages -= n;
    pool->n_idle_pages -= n;
    sim_device_refund(pool->device, n);
    return n > 0;
}

bool sim_pool_charge(struct sim_pool *pool, size_t n_pages) {
    size_t n_idle = n_pages < pool->n_idle_pages ? n_pages : pool->n_idle_pages;
    pool->n_idle_pages -= n_idle;
    if (!sim_device_charge(pool->device, n_pages - n_idle)) {
        pool->n_idle_pages += n_idle;
        return false;
    }
    pool->n_pages += n_pages - n_idle;
    return true;
}

void sim_pool_refund(struct sim_pool *pool, size_t n_pages) {
    pool->n_idle_pages += n_pages;
    if (pool->is_destroyed)
        trim(pool, 0);
}

void sim_pools_trim(void) {
    for (struct sim_pool *pool = pools; pool; pool = pool->next)
        trim(pool, pool->attributes[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD]);
}

bool sim_pools_empty(const struct sim_device *device) {
    bool was_idle = false;
    for (struct sim_pool *pool = pools; pool; pool = pool->next) {
        if (pool->device == device && trim(pool, 0))
            was_idle = true;
    }
    return was_idle;
}

static uint64_t used_bytes_of(const struct sim_pool *pool) {
    size_t n_bytes, n_blocks;
    sim_blocks_of_pool(pool, &n_bytes, &n_blocks);
    return n_bytes;
}

static uint64_t reserved_bytes_of(const struct sim_pool *pool) {
    return pool->n_pages * SIM_PAGE_BYTES;
}

void sim_pool_note_use(struct sim_pool *pool) {
    uint64_t used = used_bytes_of(pool), reserved = reserved_bytes_of(pool);
    if (used > pool->high_used_bytes)
        pool->high_used_bytes = used;
    if (reserved > pool->high_reserved_bytes)
        pool->high_reserved_bytes = reserved;
}

/* ---- calls ---- */

CUresult sim_pool_of_handle(CUmemoryPool handle, struct sim_pool **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_pool *)handle;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemoryPool *out, const CUmemPoolProps *props) {
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_device *device = sim_device_at(props->location.id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_pool *pool = sim_pool_create(device);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->is_shareable = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    SIM_ENTER(cuMemPoolCreate);
    return sim_leave(create(pool, poolProps));
}

/* Its blocks stay, and so does the object, because blocks point to it. */
static CUresult destroy(CUmemoryPool handle) {
    struct sim_pool *pool;
    SIM_TRY(sim_pool_of_handle(handle, &pool));
    if (pool == pool->device->default_pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool == pool->device->pool)
        pool->device->pool = pool->device->default_pool;
    sim_handle_remove(pool);
    struct sim_pool **at = &pools;
    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    pool->is_destroyed = true;
    trim(pool, 0);
    size_t n_bytes, n_blocks;
    sim_blocks_of_pool(pool, &n_bytes, &n_blocks);
    if (n_blocks == 0)
        free(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    SIM_ENTER(cuMemPoolDestroy);
    return sim_leave(destroy(pool));
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    SIM_ENTER(cuMemPoolTrimTo);
    struct sim_pool *found;
    CUresult result = sim_pool_of_handle(pool, &found);
    if (result == CUDA_SUCCESS)
        trim(found, minBytesToKeep);
    return sim_leave(result);
}

/* The reuse switches are ints, the others 64-bit numbers. */
static size_t bytes_of(CUmemPool_attribute attribute) {
    if (attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
        (int)attribute >= SIM_N_POOL_ATTRIBUTES)
        return 0;
    return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? sizeof(int)
                                                                          : sizeof(uint64_t);
}

/* Reset the marks of highest use; no other attribute of the memory can be set. */
static CUresult reset_high(struct sim_pool *pool, CUmemPool_attribute attribute,
                           const uint64_t *value) {
    if (*value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        pool->high_used_bytes = used_bytes_of(pool);
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        pool->high_reserved_bytes = reserved_bytes_of(pool);
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                              const void *value) {
    struct sim_pool *pool;
    SIM_TRY(sim_pool_of_handle(handle, &pool));
    size_t n_bytes = bytes_of(attribute);
    if (!value || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute > CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        return reset_high(pool, attribute, value);
    pool->attributes[attribute] = 0;
    memcpy(&pool->attributes[attribute], value, n_bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    SIM_ENTER(cuMemPoolSetAttribute);
    return sim_leave(set_attribute(pool, attr, value));
}

static uint64_t number_of(const struct sim_pool *pool, CUmemPool_attribute attribute) {
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return reserved_bytes_of(pool);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return pool->high_reserved_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return used_bytes_of(pool);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return pool->high_used_bytes;
    default:
        return pool->attributes[attribute];
    }
}

static CUresult get_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    struct sim_pool *pool;
    SIM_TRY(sim_pool_of_handle(handle, &pool));
    size_t n_bytes = bytes_of(attribute);
    if (!value || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t number = number_of(pool, attribute);
    memcpy(value, &number, n_bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    SIM_ENTER(cuMemPoolGetAttribute);
    return sim_leave(get_attribute(pool, attr, value));
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
    SIM_ENTER(cuMemPoolSetAccess);
    struct sim_pool *found;
    if (!map && count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(sim_pool_of_handle(pool, &found));
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                            CUmemLocation *location) {
    SIM_ENTER(cuMemPoolGetAccess);
    struct sim_pool *found;
    if (!flags || !location)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = sim_pool_of_handle(memPool, &found);
    if (result == CUDA_SUCCESS)
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return sim_leave(result);
}

/* ---- which pool a device uses ---- */

static CUresult get_pool(CUmemoryPool *out, CUdevice ordinal, bool wants_default) {
    const struct sim_device *device = sim_device_at(ordinal);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (CUmemoryPool)(wants_default ? device->default_pool : device->pool);
    return CUDA_SUCCESS;
}

static CUresult set_pool(CUdevice ordinal, CUmemoryPool handle) {
    struct sim_device *device = sim_device_at(ordinal);
    struct sim_pool *pool;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    SIM_TRY(sim_pool_of_handle(handle, &pool));
    if (pool->device != device || pool->is_imported)
        return CUDA_ERROR_INVALID_VALUE;
    device->pool = pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
    SIM_ENTER(cuDeviceGetMemPool);
    return sim_leave(get_pool(pool, dev, false));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    SIM_ENTER(cuDeviceGetDefaultMemPool);
    return sim_leave(get_pool(pool_out, dev, true));
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    SIM_ENTER(cuDeviceSetMemPool);
    return sim_leave(set_pool(dev, pool));
}

/* The newer names ask by location; pools of host memory are not supported. */
static CUresult judge_location(const CUmemLocation *location, CUmemAllocationType type) {
    if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type) {
    SIM_ENTER(cuMemGetDefaultMemPool);
    CUresult result = judge_location(location, type);
    return sim_leave(result ? result : get_pool(pool_out, location->id, true));
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
    SIM_ENTER(cuMemGetMemPool);
    CUresult result = judge_location(location, type);
    return sim_leave(result ? result : get_pool(pool, location->id, false));
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    SIM_ENTER(cuMemSetMemPool);
    CUresult result = judge_location(location, type);
    return sim_leave(result ? result : set_pool(location->id, pool));
}
