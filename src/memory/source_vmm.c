#include "memory/source_vmm.h"

#include "memory/pool.h"

enum {
    GRAIN_BYTES = 2 << 20
}; /* of every device so far; where it is larger there is no VMM here */

bool cushim_mem_source_vmm_is_there(struct cushim_cuda *cuda, int device) {
    int is_supported = 0;
    size_t grain_bytes = 0;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    return cuda->cuMemAddressReserve && cuda->cuMemAddressFree && cuda->cuMemCreate &&
           cuda->cuMemRelease && cuda->cuMemMap && cuda->cuMemUnmap && cuda->cuMemSetAccess &&
           cuda->cuMemGetAllocationGranularity && cuda->cuDeviceGetAttribute &&
           cuda->cuDeviceGetAttribute(&is_supported,
                                      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                      device) == CUDA_SUCCESS &&
           is_supported &&
           cuda->cuMemGetAllocationGranularity(&grain_bytes, &prop,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           grain_bytes <= GRAIN_BYTES;
}

static size_t round_up(size_t n_bytes) {
    return (n_bytes + GRAIN_BYTES - 1) & ~(size_t)(GRAIN_BYTES - 1);
}

/* Physical memory at an address that is reserved; the mapping alone keeps it. */
static CUresult back(struct cushim_cuda *cuda, int device, CUdeviceptr address, size_t n_bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location};
    CUmemAccessDesc access = {.location = location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult answer = cuda->cuMemCreate(&handle, n_bytes, &prop, 0);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemMap(address, n_bytes, 0, handle, 0);
    cuda->cuMemRelease(handle);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemSetAccess(address, n_bytes, &access, 1);
    if (answer != CUDA_SUCCESS)
        cuda->cuMemUnmap(address, n_bytes);
    return answer;
}

static CUresult vmm_obtain(struct cushim_mem_pool *pool, size_t n_bytes, uint64_t *base) {
    struct cushim_cuda *cuda = pool->cuda;
    CUdeviceptr address = 0;
    n_bytes = round_up(n_bytes);
    CUresult answer = cuda->cuMemAddressReserve(&address, n_bytes, GRAIN_BYTES, 0, 0);
    if (answer != CUDA_SUCCESS)
        return answer;
    answer = back(cuda, pool->device, address, n_bytes);
    if (answer != CUDA_SUCCESS)
        cuda->cuMemAddressFree(address, n_bytes);
    *base = address;
    return answer;
}

static CUresult vmm_release(struct cushim_mem_pool *pool, uint64_t base, size_t n_bytes) {
    n_bytes = round_up(n_bytes);
    CUresult answer = pool->cuda->cuMemUnmap(base, n_bytes);
    if (answer == CUDA_SUCCESS) /* a range that stays reserved is lost to nobody */
        pool->cuda->cuMemAddressFree(base, n_bytes);
    return answer;
}

const struct cushim_mem_source cushim_mem_source_vmm = {
    .name = "vmm",
    .obtain = vmm_obtain,
    .release = vmm_release,
    .is_prompt = true,
    .outlives_context = true,
    .grain_bytes = GRAIN_BYTES,
};
