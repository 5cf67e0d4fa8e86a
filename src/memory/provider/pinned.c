/*
 * Pinned host memory.  From 2 MiB up the driver gives whole 2 MiB pages (measured); a driver that
 * gives addresses which the page map cannot hold is asked no more, and such memory is served
 * natively.
 */
#include "cuda/table.h"
#include "memory/provider/provider.h"

#include <stdatomic.h>

#include "base/bits.h"
#include "memory/layout/pagemap.h"

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
