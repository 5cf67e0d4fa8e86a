#include "memory/provider/provider.h"

#include <stdatomic.h>

#include "base/bits.h"
#include "cuda/table.h"
#include "memory/layout/pagemap.h"

/* ---- plain device memory ---- */

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

/*
 * ---- managed memory, a driver allocation a block ----
 *
 * Up to 1 MiB the driver cuts allocations out of pages that they share, at 512 bytes; above, each
 * has 2 MiB pages of its own (measured).  So no less than that is asked for: addresses cost
 * nothing, and memory comes with the first touch.
 */

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

const struct cushim_mem_provider cushim_mem_provider_managed = {
    .name = "managed",
    .obtain = managed_obtain,
    .release = device_release,
    .grain_bytes = CUSHIM_MEM_LARGE_GRAIN_BYTES,
    .least_bytes = CUSHIM_MEM_MANAGED_LEAST_BYTES,
};

/*
 * ---- pinned host memory ----
 *
 * From 2 MiB up the driver gives whole 2 MiB pages (measured); a driver that gives addresses which
 * the page map cannot hold is asked no more, and such memory is served natively.
 */

static bool is_fit(uint64_t base) {
    return cushim_is_aligned(base, CUSHIM_MEM_SPOT_BYTES) && base >> CUSHIM_MEM_LOG2_ADDRESS == 0;
}

static CUresult pinned_obtain(const struct cushim_mem_provider_client *client, size_t n_bytes,
                              uint64_t *base) {
    static atomic_bool is_unfit;
    struct cushim_cuda *cuda = client->cuda;
    void *address = NULL;
    if (!cuda->cuMemHostAlloc || !cuda->cuMemFreeHost ||
        atomic_load_explicit(&is_unfit, memory_order_relaxed))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult answer = cuda->cuMemHostAlloc(&address, n_bytes, client->flags);
    *base = (uint64_t)(uintptr_t)address;
    if (answer != CUDA_SUCCESS || is_fit(*base))
        return answer;
    atomic_store(&is_unfit, true);
    cuda->cuMemFreeHost(address);
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult pinned_release(const struct cushim_mem_provider_client *client, uint64_t base,
                               size_t n_bytes) {
    (void)n_bytes;
    return client->cuda->cuMemFreeHost((void *)(uintptr_t)base);
}

const struct cushim_mem_provider cushim_mem_provider_pinned = {
    .name = "pinned",
    .obtain = pinned_obtain,
    .release = pinned_release,
    .grain_bytes = CUSHIM_MEM_LARGE_GRAIN_BYTES,
};
