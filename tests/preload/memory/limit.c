/*
 * A device of 256 MiB, and one that CUSHIM_LIMIT makes look like that: answers and refusals are the
 * same (docs/internals/memory-engine.md, "When memory is out").
 */
#include <dlfcn.h>

#include <cuda_runtime_api.h>

#include "tests/preload/fixture/fixture.h"
#include "tools/sim/nvml/nvml.h"

enum { DEVICE_BYTES = 256 * MIB, PAGE = 2 * MIB, LARGE = 200 * MIB };

static size_t free_bytes(void) {
    size_t n_bytes, all_bytes;
    OK(cuMemGetInfo(&n_bytes, &all_bytes));
    ck_assert_uint_eq(all_bytes, DEVICE_BYTES);
    ck_assert_uint_le(n_bytes, DEVICE_BYTES);
    return n_bytes;
}

/* ---- ways to take 200 MiB, and to give them back ---- */

static CUdeviceptr taken;
static CUmemGenericAllocationHandle physical;

static CUresult take_plain(void) {
    return cuMemAlloc(&taken, LARGE);
}

static CUresult take_pitch(void) {
    size_t pitch;
    return cuMemAllocPitch(&taken, &pitch, 1 * MIB, 200, 4);
}

static CUresult take_async(void) {
    return cuMemAllocAsync(&taken, LARGE, NULL);
}

static CUresult take_from_pool(void) {
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return cuMemAllocFromPoolAsync(&taken, LARGE, pool, NULL);
}

static CUresult take_physical(void) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return cuMemCreate(&physical, LARGE, &properties, 0);
}

/* The handle goes as soon as it is mapped, as in llama.cpp, or is looked at once more, as by NCCL.
 */
static CUresult take_mapped(void) {
    CUmemGenericAllocationHandle again;
    CUresult answer = take_physical();
    if (answer != CUDA_SUCCESS)
        return answer;
    OK(cuMemAddressReserve(&taken, LARGE, 0, 0, 0));
    OK(cuMemMap(taken, LARGE, 0, physical, 0));
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)taken));
    OK(cuMemRelease(physical));
    return cuMemRelease(again);
}

static CUresult give_mapped(void) {
    OK(cuMemUnmap(taken, LARGE));
    return cuMemAddressFree(taken, LARGE);
}

static CUarray array;

static CUresult take_array(void) {
    const CUDA_ARRAY_DESCRIPTOR shape = {12800, 1024, CU_AD_FORMAT_FLOAT, 4};
    return cuArrayCreate(&array, &shape);
}

static CUresult give_array(void) {
    return cuArrayDestroy(array);
}

static CUresult give_plain(void) {
    return cuMemFree(taken);
}

static CUresult give_async(void) {
    CUresult answer = cuMemFreeAsync(taken, NULL);
    OK(cuCtxSynchronize());
    return answer;
}

static CUresult give_physical(void) {
    return cuMemRelease(physical);
}

static const struct {
    CUresult (*take)(void);
    CUresult (*give)(void);
} ways[] = {{take_plain, give_plain},       {take_pitch, give_plain},
            {take_async, give_async},       {take_from_pool, give_async},
            {take_physical, give_physical}, {take_mapped, give_mapped},
            {take_array, give_array}};
enum { N_WAYS = sizeof ways / sizeof *ways };

TEST(what_one_way_took_is_refused_to_all_others_and_had_when_it_is_back, .n = N_WAYS) {
    fixture_use_device(0);
    for (int i = 0; i < N_WAYS; i++) {
        OK(ways[_i].take());
        CUdeviceptr first = taken;
        CUmemGenericAllocationHandle first_handle = physical;
        CUarray first_array = array;
        ANSWERS(ways[i].take(), CUDA_ERROR_OUT_OF_MEMORY);
        ck_assert_uint_le(free_bytes(), DEVICE_BYTES - LARGE);
        taken = first;
        physical = first_handle;
        array = first_array;
        OK(ways[_i].give());
        OK(ways[i].take());
        OK(ways[i].give());
    }
}

TEST(what_is_told_to_be_free_is_had_page_by_page) {
    CUdeviceptr address;
    size_t n = 0;
    fixture_use_device(0);
    size_t n_pages = free_bytes() / PAGE;
    while (cuMemAlloc(&address, PAGE) == CUDA_SUCCESS)
        n++;
    ck_assert_uint_eq(n, n_pages);
    ck_assert_uint_eq(free_bytes(), 0);
    ANSWERS(cuMemAlloc(&address, PAGE), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_request_beyond_the_device_is_refused_at_once) {
    CUdeviceptr address = 1;
    fixture_use_device(0);
    ANSWERS(cuMemAlloc(&address, DEVICE_BYTES + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ANSWERS(cuMemAlloc(&address, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
}

/* A pool serves it, or the driver. */
TEST(the_hosts_memory_is_no_part_of_it) {
    void *pinned;
    fixture_use_device(0);
    OK(take_plain()); /* the device is in use, and so is its limit */
    OK(give_plain());
    OK(cuMemHostAlloc(&pinned, LARGE, 0));
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
    OK(take_plain());
    OK(give_plain());
    OK(cuMemFreeHost(pinned));
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
}

TEST(contexts_of_a_device_share_it) {
    CUcontext other;
    CUcontext first = fixture_use_device(0);
    CUdeviceptr address = fixture_alloc(150 * MIB);
    OK(cuCtxCreate(&other, NULL, 0, 0));
    ANSWERS(cuMemAlloc(&taken, 150 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&taken, 50 * MIB));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(first));
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES - 150 * MIB);
    OK(cuMemFree(address));
    OK(cuMemAlloc(&taken, 250 * MIB));
}

/* ---- the device has one size ---- */

static void *nvml_function(const char *name) {
    static void *nvml;
    if (!nvml)
        nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(nvml);
    void *address = dlsym(nvml, name);
    ck_assert_ptr_nonnull(address);
    return address;
}

#define NVML(name) ((__typeof__(&name))(uintptr_t)nvml_function(#name))

/* Both forms of NVML's answer are one, and `free` is as told. */
static void check_nvml(nvmlDevice_t device, size_t n_free) {
    struct nvml_memory memory;
    struct nvml_memory_v2 newer = {.version = NVML_MEMORY_V2};
    ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), 0);
    ANSWERS(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &newer), 0);
    ck_assert_uint_eq(memory.total, DEVICE_BYTES);
    ck_assert_uint_eq(memory.free, n_free);
    ck_assert_uint_eq(memory.used, memory.total - memory.free);
    ck_assert(newer.total == memory.total && newer.free == memory.free &&
              newer.used == memory.used && newer.reserved == 0);
}

TEST(all_that_tell_the_size_of_the_device_agree) {
    nvmlDevice_t device;
    struct cudaDeviceProp properties;
    size_t n_bytes, n_free, n_runtime, n_left;
    ANSWERS(NVML(nvmlInit_v2)(), 0);
    ANSWERS(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    check_nvml(device, DEVICE_BYTES); /* CUDA was not initialised yet */
    fixture_use_device(0);
    for (int i = 0; i < 3; i++) { /* with nothing, with a live block, and with what it left */
        if (i == 1)
            taken = fixture_alloc(50 * MIB);
        else if (i == 2)
            OK(cuMemFree(taken));
        n_left = free_bytes();
        ck_assert_uint_eq(n_left, DEVICE_BYTES - (i == 1 ? 50 * MIB : 0));
        OK(cuDeviceTotalMem(&n_bytes, 0));
        ck_assert_uint_eq(n_bytes, DEVICE_BYTES);
        ck_assert_int_eq(cudaMemGetInfo(&n_free, &n_runtime), cudaSuccess);
        ck_assert(n_free == n_left && n_runtime == DEVICE_BYTES);
        ck_assert_int_eq(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
        ck_assert_uint_eq(properties.totalGlobalMem, DEVICE_BYTES);
        check_nvml(device, n_left);
    }
}

/* The driver moves it to the host when others need the room, so it is of any size. */
TEST(managed_memory_is_no_part_of_it) {
    CUdeviceptr managed[4];
    fixture_use_device(0);
    for (int i = 0; i < 4; i++)
        OK(cuMemAllocManaged(&managed[i], 100 * MIB, CU_MEM_ATTACH_GLOBAL));
    OK(take_plain());
    OK(give_plain());
    for (int i = 0; i < 4; i++)
        OK(cuMemFree(managed[i]));
}

/* Threads that ask the driver at once do not pass it together. */
static void take_and_stay(struct fixture_thread *thread) {
    thread->answer = cuMemAllocAsync(&thread->address, 30 * MIB, thread->stream);
}

TEST(threads_do_not_pass_it_together) {
    enum { N = 16 };
    struct fixture_thread threads[N];
    int n_served = 0;
    setenv("CUSHIM_SIM_LATENCY_NS", "3000000", 1); /* all are inside the driver at once */
    CUcontext context = fixture_use_device(0);
    for (int i = 0; i < N; i++) {
        threads[i].context = context;
        threads[i].stream = fixture_stream();
        fixture_start(&threads[i], take_and_stay);
    }
    for (int i = 0; i < N; i++) {
        fixture_join(&threads[i]);
        n_served += threads[i].answer == CUDA_SUCCESS;
    }
    ck_assert_int_eq(n_served, DEVICE_BYTES / (30 * MIB));
    ck_assert_uint_le(sim_live_bytes(), DEVICE_BYTES);
}

/* Random sizes never exceed the device, and freed memory can be had again. */
TEST(churn_stays_within_the_device) {
    CUdeviceptr blocks[40] = {0};
    unsigned long draw = 1;
    fixture_use_device(0);
    for (int i = 0; i < 3000; i++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        CUdeviceptr *block = &blocks[(draw >> 33) % 40];
        if (*block) {
            OK(cuMemFree(*block));
            *block = 0;
        } else if (cuMemAlloc(block, 1 + (draw >> 40) % (16 * MIB)) != CUDA_SUCCESS) {
            *block = 0;
        }
        ck_assert_uint_le(sim_live_bytes(), DEVICE_BYTES);
    }
    for (int i = 0; i < 40; i++) {
        if (blocks[i])
            OK(cuMemFree(blocks[i]));
    }
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
    OK(cuMemAlloc(blocks, DEVICE_BYTES));
}

int main(void) {
    return fixture_run("limit");
}
