#include "memory/provider/provider.h"

#include "base/log.h"
#include "cuda/table.h"
#include "memory/layout/block.h"

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
 * has 2 MiB pages of its own (measured).  So we never ask for less than that: addresses cost
 * nothing, and memory comes with the first touch.
 */

/* With more segments than this the driver serves small blocks itself, because it packs them. */
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
 * From 2 MiB up the driver gives whole 2 MiB pages (measured); If a driver gives addresses that the
 * page map cannot hold, we ask it no more, and the driver serves such memory.
 */

static CUresult pinned_obtain(const struct cushim_mem_provider_client *client, size_t n_bytes,
                              uint64_t *base) {
    static atomic_bool is_unfit;
    struct cushim_cuda *cuda = client->cuda;
    void *address = NULL;
    if (!cuda->cuMemHostAlloc || !cuda->cuMemFreeHost || load_relaxed(&is_unfit))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult answer = cuda->cuMemHostAlloc(&address, n_bytes, client->flags);
    *base = (uint64_t)(uintptr_t)address;
    if (answer != CUDA_SUCCESS ||
        (cushim_is_aligned(*base, CUSHIM_MEM_SPOT_BYTES) && *base >> CUSHIM_MEM_LOG2_ADDRESS == 0))
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

/* ---- mapped device memory (cuMemCreate, cuMemMap) ---- */

enum {
    /* of every device so far; a device with a larger one has no such memory here */
    GRAIN_BYTES = CUSHIM_MEM_NATIVE_PAGE_BYTES,
    MOST_DEVICES = 64 /* to which one call gives access; with more devices there is no such memory
                       * here */
};

enum verdict { UNASKED, FITS, DOES_NOT };

/* Answers of the driver.  All writers of a word write the same value, and obtain comes after a
 * verdict. */
static atomic_int verdicts[MOST_DEVICES], n_visible;

static CUmemAllocationProp properties_of(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

/* Of host memory near the device. */
static CUmemAllocationProp host_properties_of(struct cushim_cuda *cuda, int device) {
    CUmemAllocationProp prop = properties_of(device);
    int node;
    bool is_told =
        cuda->cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS;
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    prop.location.id = is_told && node > 0 ? node : 0;
    return prop;
}

static bool can_map(struct cushim_cuda *cuda, int device, const CUmemAllocationProp *prop) {
    int is_supported = 0;
    size_t grain_bytes = 0;
    return cuda->cuMemAddressReserve && cuda->cuMemAddressFree && cuda->cuMemCreate &&
           cuda->cuMemRelease && cuda->cuMemMap && cuda->cuMemUnmap && cuda->cuMemSetAccess &&
           cuda->cuMemGetAllocationGranularity && cuda->cuDeviceGetAttribute &&
           cuda->cuDeviceGetAttribute(&is_supported,
                                      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                      device) == CUDA_SUCCESS &&
           is_supported &&
           cuda->cuMemGetAllocationGranularity(&grain_bytes, prop,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           grain_bytes <= GRAIN_BYTES;
}

/* Without cushim a copy reaches the memory of every device, whichever device is current. */
static bool is_reached_by_all(struct cushim_cuda *cuda, int device, int n) {
    for (int from = 0; from < n; from++) {
        int is_reached = from == device;
        if (!is_reached &&
            (!cuda->cuDeviceCanAccessPeer ||
             cuda->cuDeviceCanAccessPeer(&is_reached, from, device) != CUDA_SUCCESS ||
             !is_reached)) {
            log_warn("pool",
                     "device %d cannot map memory, which device %d could not reach: "
                     "CUSHIM_BACKEND is native there",
                     device, from);
            return false;
        }
    }
    return true;
}

static bool count_visible(struct cushim_cuda *cuda) {
    int n = 0;
    if (!cuda->cuDeviceGetCount || cuda->cuDeviceGetCount(&n) != CUDA_SUCCESS || n > MOST_DEVICES)
        return false;
    store_relaxed(&n_visible, n);
    return true;
}

static bool judge(struct cushim_cuda *cuda, int device) {
    CUmemAllocationProp prop = properties_of(device);
    if (!can_map(cuda, device, &prop) || !count_visible(cuda)) {
        log_warn("pool", "device %d cannot map memory: CUSHIM_BACKEND is native there", device);
        return false;
    }
    return is_reached_by_all(cuda, device, load_relaxed(&n_visible));
}

bool cushim_mem_provider_vmm_fits(struct cushim_cuda *cuda, int device) {
    if (device < 0 || device >= MOST_DEVICES)
        return false;
    int verdict = load_relaxed(&verdicts[device]);
    if (verdict == UNASKED) {
        verdict = judge(cuda, device) ? FITS : DOES_NOT;
        store_relaxed(&verdicts[device], verdict);
    }
    return verdict == FITS;
}

static CUresult let_all_in(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes) {
    CUmemAccessDesc access[MOST_DEVICES];
    int n = load_relaxed(&n_visible);
    for (int device = 0; device < n; device++) {
        access[device] = (CUmemAccessDesc){
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
    }
    return cuda->cuMemSetAccess(address, n_bytes, access, (size_t)n);
}

/* Map physical memory at a reserved address; only the mapping keeps it. */
static CUresult back(struct cushim_cuda *cuda, const CUmemAllocationProp *prop, CUdeviceptr address,
                     size_t n_bytes) {
    CUmemGenericAllocationHandle handle;
    CUresult answer = cuda->cuMemCreate(&handle, n_bytes, prop, 0);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemMap(address, n_bytes, 0, handle, 0);
    cuda->cuMemRelease(handle);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = let_all_in(cuda, address, n_bytes);
    if (answer != CUDA_SUCCESS)
        cuda->cuMemUnmap(address, n_bytes);
    return answer;
}

static CUresult obtain_of(struct cushim_cuda *cuda, const CUmemAllocationProp *prop, size_t n_bytes,
                          uint64_t *base) {
    CUdeviceptr address = 0;
    n_bytes = cushim_rounded(n_bytes, GRAIN_BYTES);
    CUresult answer = cuda->cuMemAddressReserve(&address, n_bytes, GRAIN_BYTES, 0, 0);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = back(cuda, prop, address, n_bytes);
    if (answer != CUDA_SUCCESS)
        cuda->cuMemAddressFree(address, n_bytes);
    *base = address;
    return answer;
}

static CUresult vmm_obtain(const struct cushim_mem_provider_client *client, size_t n_bytes,
                           uint64_t *base) {
    CUmemAllocationProp prop = properties_of(client->device);
    return obtain_of(client->cuda, &prop, n_bytes, base);
}

static CUresult vmm_release(const struct cushim_mem_provider_client *client, uint64_t base,
                            size_t n_bytes) {
    n_bytes = cushim_rounded(n_bytes, GRAIN_BYTES);
    CUresult answer = client->cuda->cuMemUnmap(base, n_bytes);
    if (answer == CUDA_SUCCESS) /* a range that stays reserved does no harm */
        client->cuda->cuMemAddressFree(base, n_bytes);
    return answer;
}

const struct cushim_mem_provider cushim_mem_provider_vmm = {
    .name = "vmm",
    .obtain = vmm_obtain,
    .release = vmm_release,
    .is_prompt = true,
    .outlives_context = true,
    .grain_bytes = GRAIN_BYTES,
};

/* ---- memory of the host in place of the device's ---- */

static bool can_spill(struct cushim_cuda *cuda, int device, CUmemAllocationProp *prop) {
    static atomic_bool is_said;
    bool may_ask = cuda->cuDeviceGetAttribute;
    if (may_ask)
        *prop = host_properties_of(cuda, device);
    if (may_ask && can_map(cuda, device, prop) && count_visible(cuda))
        return true;
    if (!atomic_exchange(&is_said, true))
        log_error("spill", "device %d cannot map host memory: nothing is spilled", device);
    return false;
}

static CUresult spill_obtain(const struct cushim_mem_provider_client *client, size_t n_bytes,
                             uint64_t *base) {
    CUmemAllocationProp prop;
    return can_spill(client->cuda, client->device, &prop)
               ? obtain_of(client->cuda, &prop, n_bytes, base)
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cushim_mem_provider_spill_create(struct cushim_cuda *cuda, int device, size_t n_bytes,
                                          CUmemGenericAllocationHandle *handle) {
    CUmemAllocationProp prop;
    return can_spill(cuda, device, &prop) ? cuda->cuMemCreate(handle, n_bytes, &prop, 0)
                                          : CUDA_ERROR_NOT_SUPPORTED;
}

const struct cushim_mem_provider cushim_mem_provider_spill = {
    .name = "spill",
    .obtain = spill_obtain,
    .release = vmm_release,
    .is_prompt = true,
    .outlives_context = true,
    .grain_bytes = GRAIN_BYTES,
};
