/* Where segments of pools come from: the allocator's own sources, the driver's answer kept. */
#include "companion/pool/pool_heap.h"

static _Thread_local CUresult answer __attribute__((tls_model("initial-exec")));

CUresult cushim_pool_provider_answer(void) {
    return answer;
}

static CUresult obtain_device(const struct cushim_mem_provider_client *client, size_t n_bytes,
                              uint64_t *base) {
    return answer = cushim_mem_provider_device.obtain(client, n_bytes, base);
}

static CUresult release_device(const struct cushim_mem_provider_client *client, uint64_t base,
                               size_t n_bytes) {
    return cushim_mem_provider_device.release(client, base, n_bytes);
}

static CUresult obtain_managed(const struct cushim_mem_provider_client *client, size_t n_bytes,
                               uint64_t *base) {
    return answer = cushim_mem_provider_managed.obtain(client, n_bytes, base);
}

static CUresult release_managed(const struct cushim_mem_provider_client *client, uint64_t base,
                                size_t n_bytes) {
    return cushim_mem_provider_managed.release(client, base, n_bytes);
}

static CUresult obtain_pinned(const struct cushim_mem_provider_client *client, size_t n_bytes,
                              uint64_t *base) {
    return answer = cushim_mem_provider_pinned.obtain(client, n_bytes, base);
}

static CUresult release_pinned(const struct cushim_mem_provider_client *client, uint64_t base,
                               size_t n_bytes) {
    return cushim_mem_provider_pinned.release(client, base, n_bytes);
}

_Static_assert((int)CUSHIM_MEM_DEVICE == CUSHIM_MEMORY_DEVICE &&
                   (int)CUSHIM_MEM_MANAGED == CUSHIM_MEMORY_MANAGED &&
                   (int)CUSHIM_MEM_PINNED == CUSHIM_MEMORY_PINNED &&
                   CUSHIM_POOL_N_KINDS == CUSHIM_MEMORY_PINNED + 1,
               "the first kinds of the public header are those of pools");

const struct cushim_mem_provider cushim_pool_providers[CUSHIM_POOL_N_KINDS] = {
    [CUSHIM_MEM_DEVICE] = {.name = "device", .obtain = obtain_device, .release = release_device},
    [CUSHIM_MEM_MANAGED] = {.name = "managed",
                            .obtain = obtain_managed,
                            .release = release_managed,
                            .grain_bytes = CUSHIM_MEM_LARGE_GRAIN_BYTES,
                            .least_bytes = CUSHIM_MEM_MANAGED_LEAST_BYTES},
    [CUSHIM_MEM_PINNED] = {.name = "pinned",
                           .obtain = obtain_pinned,
                           .release = release_pinned,
                           .grain_bytes = CUSHIM_MEM_LARGE_GRAIN_BYTES},
};

const unsigned cushim_pool_provider_flags[CUSHIM_POOL_N_KINDS] = {
    [CUSHIM_MEM_MANAGED] = CU_MEM_ATTACH_GLOBAL,
    [CUSHIM_MEM_PINNED] = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
};
