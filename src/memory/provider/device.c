/* The provider of plain device memory: cuMemAlloc and cuMemFree. */
#include "memory/provider/provider.h"

#include "cuda/table.h"

static CUresult device_obtain(const struct cushim_mem_provider_client *client, size_t n_bytes,
                              uint64_t *base) {
    CUdeviceptr address = 0;
    CUresult answer = client->cuda->cuMemAlloc_v2(&address, n_bytes);
    *base = address;
    return answer;
}

static CUresult device_release(const struct cushim_mem_provider_client *client, uint64_t base,
                               size_t n_bytes) {
    (void)n_bytes;
    return client->cuda->cuMemFree_v2(base);
}

const struct cushim_mem_provider cushim_mem_provider_device = {
    .name = "device",
    .obtain = device_obtain,
    .release = device_release,
    .grain_bytes = CUSHIM_MEM_NATIVE_PAGE_BYTES,
    .as_asked_bytes = CUSHIM_MEM_SLAB_LIMIT_BYTES,
};
