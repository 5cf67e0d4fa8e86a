/*
 * Managed memory, a driver allocation a block.
 *
 * Up to 1 MiB the driver cuts allocations out of pages that they share, at 512 bytes; above, each
 * has 2 MiB pages of its own (measured).  So no less than that is asked for: addresses cost
 * nothing, and memory comes with the first touch.
 */
#include "cuda/table.h"
#include "memory/provider/provider.h"

/* Segments, beyond which small ones are left to the driver, which packs them. */
enum { MOST_SMALL = 4096 };

static CUresult managed_obtain(const struct cushim_mem_provider_client *client, size_t n_bytes,
                               uint64_t *base) {
    CUdeviceptr address = 0;
    bool is_crowded = n_bytes < CUSHIM_MEM_MANAGED_LEAST_BYTES && client->n_segments >= MOST_SMALL;
    if (!client->cuda->cuMemAllocManaged || is_crowded)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult answer = client->cuda->cuMemAllocManaged(
        &address, cushim_mem_provider_reach(&cushim_mem_provider_managed, n_bytes), client->flags);
    *base = address;
    return answer;
}

static CUresult managed_release(const struct cushim_mem_provider_client *client, uint64_t base,
                                size_t n_bytes) {
    (void)n_bytes;
    return client->cuda->cuMemFree_v2(base);
}

const struct cushim_mem_provider cushim_mem_provider_managed = {
    .name = "managed",
    .obtain = managed_obtain,
    .release = managed_release,
    .grain_bytes = CUSHIM_MEM_LARGE_GRAIN_BYTES,
    .least_bytes = CUSHIM_MEM_MANAGED_LEAST_BYTES,
};
