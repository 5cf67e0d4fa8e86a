/* Which devices' memory is mapped, and which devices get access. */
#include "memory/provider/provider.h"

#include <pthread.h>
#include <stdatomic.h>

#include "cuda/table.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, GRAIN = 2 * MIB, MOST_DEVICES = 64, N_THREADS = 8 };

static struct cushim_cuda cuda;
static int n_devices;
static int deaf = -1, shut = -1; /* devices: `deaf` cannot reach memory of `shut` */
/* relaxed, because the driver's own ordering would hide a missing one of the provider */
static atomic_uint n_asked;
static atomic_bool is_let_in[MOST_DEVICES];

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return device < n_devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult get_granularity(size_t *n_bytes, const CUmemAllocationProp *prop,
                                CUmemAllocationGranularity_flags option) {
    (void)prop, (void)option;
    *n_bytes = GRAIN;
    return CUDA_SUCCESS;
}

static CUresult get_count(int *n) {
    *n = n_devices;
    return CUDA_SUCCESS;
}

static CUresult can_access(int *reaches, CUdevice from, CUdevice to) {
    atomic_fetch_add_explicit(&n_asked, 1, memory_order_relaxed);
    *reaches = from != to && !(from == deaf && to == shut);
    return from < n_devices && to < n_devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* The driver takes only whole grains. */
static void check_size(size_t n_bytes) {
    ck_assert_uint_eq(n_bytes % GRAIN, 0);
}

static CUresult reserve(CUdeviceptr *address, size_t n_bytes, size_t align_bytes,
                        CUdeviceptr wanted, unsigned long long flags) {
    (void)align_bytes, (void)wanted, (void)flags;
    check_size(n_bytes);
    *address = (CUdeviceptr)1 << 40;
    return CUDA_SUCCESS;
}

static int n_given;

static CUresult unreserve(CUdeviceptr address, size_t n_bytes) {
    (void)address;
    check_size(n_bytes);
    n_given++;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t n_bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags) {
    (void)prop, (void)flags;
    check_size(n_bytes);
    *handle = 1;
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle) {
    (void)handle;
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t n_bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)address, (void)offset, (void)handle, (void)flags;
    check_size(n_bytes);
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr address, size_t n_bytes, const CUmemAccessDesc *descs,
                           size_t n) {
    (void)address;
    check_size(n_bytes);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(descs[i].flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        atomic_store_explicit(&is_let_in[descs[i].location.id], true, memory_order_relaxed);
    }
    return CUDA_SUCCESS;
}

static void set_up(int n) {
    n_devices = n;
    cuda.cuDeviceGetAttribute = get_attribute;
    cuda.cuMemGetAllocationGranularity = get_granularity;
    cuda.cuDeviceGetCount = get_count;
    cuda.cuDeviceCanAccessPeer = can_access;
    cuda.cuMemAddressReserve = reserve;
    cuda.cuMemAddressFree = unreserve;
    cuda.cuMemCreate = create;
    cuda.cuMemRelease = release;
    cuda.cuMemMap = map;
    cuda.cuMemUnmap = unreserve;
    cuda.cuMemSetAccess = set_access;
}

TEST(every_visible_device_gets_access) {
    static struct cushim_mem_provider_client client = {.cuda = &cuda};
    static const int numbers[] = {1, 2, 16, 17, MOST_DEVICES};
    uint64_t base;
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        set_up(numbers[i]);
        client.device = n_devices - 1; /* the first question about this device */
        ck_assert(cushim_mem_provider_vmm_fits(&cuda, client.device));
        ck_assert_int_eq(cushim_mem_provider_vmm.obtain(&client, 3 * MIB, &base), CUDA_SUCCESS);
        for (int device = 0; device < MOST_DEVICES; device++)
            ck_assert_int_eq(is_let_in[device], device < n_devices);
    }
}

TEST(mapped_memory_is_whole_grains_whatever_the_request) {
    static struct cushim_mem_provider_client client = {.cuda = &cuda};
    static const size_t sizes[] = {1, MIB, GRAIN - 1, GRAIN, GRAIN + 1, 3 * MIB, 3 * MIB + 1};
    uint64_t base;
    set_up(1);
    ck_assert(cushim_mem_provider_vmm_fits(&cuda, 0));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ck_assert_int_eq(cushim_mem_provider_vmm.obtain(&client, sizes[i], &base), CUDA_SUCCESS);
        ck_assert_int_eq(cushim_mem_provider_vmm.release(&client, base, sizes[i]), CUDA_SUCCESS);
    }
    ck_assert_int_eq(n_given, 2 * (int)(sizeof sizes / sizeof *sizes));
}

static CUresult refuse_access(CUdeviceptr address, size_t n_bytes, const CUmemAccessDesc *descs,
                              size_t n) {
    (void)address, (void)n_bytes, (void)descs, (void)n;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

TEST(if_no_device_gets_access_nothing_stays_mapped_or_reserved) {
    static struct cushim_mem_provider_client client = {.cuda = &cuda};
    uint64_t base;
    set_up(1);
    cuda.cuMemSetAccess = refuse_access;
    ck_assert(cushim_mem_provider_vmm_fits(&cuda, 0));
    ck_assert_int_eq(cushim_mem_provider_vmm.obtain(&client, 3 * MIB, &base),
                     CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(n_given, 2); /* the mapping, and the addresses */
}

TEST(the_driver_is_asked_once_per_device) {
    static struct cushim_mem_provider_client client = {.cuda = &cuda};
    uint64_t base;
    set_up(3);
    for (int i = 0; i < 5; i++) {
        ck_assert(cushim_mem_provider_vmm_fits(&cuda, 0));
        ck_assert_int_eq(cushim_mem_provider_vmm.obtain(&client, MIB, &base), CUDA_SUCCESS);
    }
    ck_assert_uint_eq(n_asked, 2);
    ck_assert(cushim_mem_provider_vmm_fits(&cuda, 1));
    ck_assert_uint_eq(n_asked, 4);
    deaf = 0, shut = 2;
    for (int i = 0; i < 5; i++)
        ck_assert(!cushim_mem_provider_vmm_fits(&cuda, 2));
    ck_assert_uint_eq(n_asked, 5);
}

static pthread_barrier_t all_are_there;

/* One thread asks about its device while another allocates segments. */
static void *use_device(void *argument) {
    struct cushim_mem_provider_client *client = argument;
    uint64_t base;
    pthread_barrier_wait(&all_are_there);
    for (int i = 0; i < 100; i++) {
        if (!cushim_mem_provider_vmm_fits(&cuda, client->device) ||
            cushim_mem_provider_vmm.obtain(client, MIB, &base) != CUDA_SUCCESS)
            return NULL;
    }
    return client;
}

TEST(threads_of_many_devices_start_at_once) {
    static struct cushim_mem_provider_client clients[N_THREADS];
    pthread_t threads[N_THREADS];
    set_up(N_THREADS);
    ck_assert_int_eq(pthread_barrier_init(&all_are_there, NULL, N_THREADS), 0);
    for (int i = 0; i < N_THREADS; i++) {
        clients[i].cuda = &cuda;
        clients[i].device = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_device, &clients[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *client;
        ck_assert_int_eq(pthread_join(threads[i], &client), 0);
        ck_assert_ptr_eq(client, &clients[i]);
    }
    ck_assert_uint_eq(n_asked, N_THREADS * (N_THREADS - 1));
    for (int device = 0; device < N_THREADS; device++)
        ck_assert(is_let_in[device]);
}

TEST(memory_that_another_device_cannot_reach_is_not_mapped) {
    set_up(4);
    deaf = 2, shut = 1;
    /* memory of the device that cannot reach is still mapped */
    for (int device = 0; device < 4; device++)
        ck_assert_int_eq(cushim_mem_provider_vmm_fits(&cuda, device), device != shut);
}

TEST(a_driver_without_peer_queries_maps_for_a_single_device) {
    set_up(1);
    cuda.cuDeviceCanAccessPeer = (__typeof__(&cuDeviceCanAccessPeer))0;
    ck_assert(cushim_mem_provider_vmm_fits(&cuda, 0));
    n_devices = 2;
    ck_assert(!cushim_mem_provider_vmm_fits(&cuda, 1));
}

TEST(devices_that_cannot_be_counted_are_not_mapped) {
    set_up(1);
    cuda.cuDeviceGetCount = (__typeof__(&cuDeviceGetCount))0;
    ck_assert(!cushim_mem_provider_vmm_fits(&cuda, 0));
}

TEST(with_too_many_devices_nothing_is_mapped) {
    set_up(MOST_DEVICES + 1);
    ck_assert(!cushim_mem_provider_vmm_fits(&cuda, 0));
    ck_assert(!cushim_mem_provider_vmm_fits(&cuda, MOST_DEVICES));
}

SUITE() {
    return tests_run("provider vmm");
}
