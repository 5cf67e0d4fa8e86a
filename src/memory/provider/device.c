#include "memory/provider/provider.h"

#include "cuda/table.h"
#include "memory/state/heap_state.h"

static CUresult device_obtain(struct cushim_mem_heap *pool, size_t n_bytes, uint64_t *base) {
    CUdeviceptr address = 0;
    CUresult answer = pool->cuda->cuMemAlloc_v2(&address, n_bytes);
    *base = address;
    return answer;
}

static CUresult device_release(struct cushim_mem_heap *pool, uint64_t base, size_t n_bytes) {
    (void)n_bytes;
    return pool->cuda->cuMemFree_v2(base);
}

const struct cushim_mem_provider cushim_mem_provider_device = {
    .name = "device",
    .obtain = device_obtain,
    .release = device_release,
    .grain_bytes = CUSHIM_MEM_NATIVE_PAGE_BYTES,
    .as_asked_bytes = CUSHIM_MEM_SLAB_LIMIT_BYTES,
};
