/*
 * A device of 64 MiB that is larger by 128 MiB, which CUSHIM_SPILL takes from the host: answers are
 * those of a device of 192 MiB, which is there without cushim (docs/guide/spill.md).
 */
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "tests/preload/memory/spill_fixture.h"
#include "tools/sim/nvml/nvml.h"

/* ---- what serves ---- */

TEST(blocks_beyond_the_device_lie_on_the_host_and_go_back_when_freed) {
    CUdeviceptr blocks[4], more;
    fixture_use_device(0);
    for (int i = 0; i < 4; i++)
        blocks[i] = fixture_alloc(BLOCK);
    expect_spilled(3 * BLOCK);
    ANSWERS(cuMemAlloc(&more, BLOCK), CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 3; i >= 0; i--) {
        OK(cuMemFree(blocks[i]));
        OK(cuCtxSynchronize());
        expect_spilled((size_t)(i > 0 ? i - 1 : 0) * BLOCK);
    }
    ck_assert_uint_eq(free_bytes(), SUM);
}

TEST(a_request_goes_to_the_device_whenever_that_has_room) {
    fixture_use_device(0);
    CUdeviceptr first = fill_device();
    CUdeviceptr second = fixture_alloc(BLOCK);
    expect_spilled(BLOCK);
    OK(cuMemFree(first));
    fixture_alloc(BLOCK);
    expect_spilled(BLOCK);
    OK(cuMemFree(second));
}

TEST(small_blocks_share_pages_on_the_host) {
    enum { N = 2000, BYTES = 4 * KIB };
    static CUdeviceptr blocks[N];
    fixture_use_device(0);
    fixture_alloc(DEVICE - 2 * MIB);
    fixture_alloc(MIB + 1);
    for (int i = 0; i < N; i++) {
        blocks[i] = fixture_alloc(BYTES);
        fixture_fill(blocks[i], (unsigned char)i, BYTES);
    }
    ck_assert_uint_le(sim_used_bytes(SIM_OF_HOST), 3 * N * (size_t)BYTES);
    for (int i = 0; i < N; i++) {
        ck_assert(fixture_is_filled(blocks[i], (unsigned char)i, BYTES));
        OK(cuMemFree(blocks[i]));
    }
    ck_assert_uint_eq(free_bytes(), SUM - DEVICE);
}

TEST(what_is_told_to_be_free_is_had_page_by_page_and_no_more) {
    CUdeviceptr address;
    size_t n = 0;
    fixture_use_device(0);
    size_t n_pages = free_bytes() / (2 * MIB);
    while (cuMemAlloc(&address, 2 * MIB) == CUDA_SUCCESS)
        n++;
    ck_assert_uint_eq(n, n_pages);
    ck_assert_uint_eq(free_bytes(), 0);
    expect_spilled(SPILL);
}

/* ---- ways to ask ---- */

static CUresult take_pitch(CUdeviceptr *address) {
    size_t pitch;
    CUresult answer = cuMemAllocPitch(address, &pitch, 1 * MIB - 100, 40, 4);
    ck_assert(answer != CUDA_SUCCESS || pitch == 1 * MIB);
    return answer;
}

static CUresult take_async(CUdeviceptr *address) {
    return cuMemAllocAsync(address, BLOCK, NULL);
}

static CUresult take_from_pool(CUdeviceptr *address) {
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return cuMemAllocFromPoolAsync(address, BLOCK, pool, NULL);
}

static CUresult take_by_runtime(CUdeviceptr *address) {
    void *block = NULL;
    ck_assert_int_eq(cudaMalloc(&block, BLOCK), cudaSuccess);
    *address = (CUdeviceptr)(uintptr_t)block;
    return CUDA_SUCCESS;
}

static CUresult (*const ways[])(CUdeviceptr *) = {take_pitch, take_async, take_from_pool,
                                                  take_by_runtime};

TEST(all_ways_to_ask_by_size_are_served, .n = sizeof ways / sizeof *ways) {
    CUdeviceptr address;
    fixture_use_device(0);
    fill_device();
    for (int i = 0; i < 2; i++) { /* it is freed in order of the program, or of a stream */
        OK(ways[_i](&address));
        expect_spilled(BLOCK);
        fixture_fill_pages(address, 7, BLOCK);
        ck_assert(fixture_pages_are_filled(address, 7, BLOCK));
        OK(i ? cuMemFreeAsync(address, NULL) : cuMemFree(address));
        OK(cuCtxSynchronize());
        expect_spilled(0);
    }
}

/* ---- one size ---- */

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

static void check_nvml(nvmlDevice_t device, size_t n_free) {
    struct nvml_memory memory;
    ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), 0);
    ck_assert_uint_eq(memory.total, SUM);
    ck_assert_uint_eq(memory.free, n_free);
    ck_assert_uint_eq(memory.used, memory.total - memory.free);
}

TEST(all_that_tell_the_size_of_the_device_agree) {
    nvmlDevice_t device;
    struct cudaDeviceProp properties;
    size_t n_bytes, n_free, n_runtime;
    ANSWERS(NVML(nvmlInit_v2)(), 0);
    ANSWERS(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), 0);
    check_nvml(device, SUM); /* CUDA was not initialised yet */
    fixture_use_device(0);
    for (size_t n_live = 0; n_live < 4; n_live++) { /* the first on the device */
        ck_assert_uint_eq(free_bytes(), SUM - n_live * BLOCK);
        OK(cuDeviceTotalMem(&n_bytes, 0));
        ck_assert_uint_eq(n_bytes, SUM);
        ck_assert_int_eq(cudaMemGetInfo(&n_free, &n_runtime), cudaSuccess);
        ck_assert(n_free == SUM - n_live * BLOCK && n_runtime == SUM);
        ck_assert_int_eq(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
        ck_assert_uint_eq(properties.totalGlobalMem, SUM);
        check_nvml(device, n_free);
        fixture_alloc(BLOCK);
    }
}

/* ---- addresses ---- */

TEST(addresses_answer_as_device_memory, .n = 2) {
    CUcontext context = fixture_use_device(_i), told;
    unsigned type;
    int ordinal, is_managed = 1;
    CUdeviceptr base, pointer, address = spilled(BLOCK - 100);
    size_t n_bytes;
    void *host, *data[] = {&type, &told, &ordinal, &pointer, &host};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                    CU_POINTER_ATTRIBUTE_HOST_POINTER};
    OK(cuPointerGetAttributes(5, wanted, data, address + 5));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    ck_assert_ptr_eq(told, context);
    ck_assert_int_eq(ordinal, _i);
    ck_assert_uint_eq(pointer, address + 5);
    ck_assert_ptr_null(host);
    for (int i = 0; i < 4; i++) {
        memset(data[i], 0xff, 4);
        OK(cuPointerGetAttribute(data[i], wanted[i], address));
    }
    ck_assert(type == CU_MEMORYTYPE_DEVICE && told == context && ordinal == _i);
    ANSWERS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
    ck_assert_int_eq(is_managed & 0xff, 0);
    OK(cuMemGetAddressRange(&base, &n_bytes, address + 1000));
    ck_assert(base == address && n_bytes == BLOCK - 100);
    struct cudaPointerAttributes attributes;
    ck_assert_int_eq(cudaPointerGetAttributes(&attributes, (void *)(uintptr_t)address),
                     cudaSuccess);
    ck_assert(attributes.type == cudaMemoryTypeDevice && attributes.device == _i);
}

TEST_IF(fixture_is_preloaded(), handles_for_other_processes_are_refused) {
    CUipcMemHandle handle;
    int is_capable = 1;
    fixture_use_device(0);
    CUdeviceptr address = spilled(BLOCK);
    ANSWERS(cuIpcGetMemHandle(&handle, address), CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                             address));
    ck_assert_int_eq(is_capable & 0xff, 0);
}

/* ---- kills ---- */

static void churn(unsigned long draw) {
    CUdeviceptr blocks[8] = {0};
    fixture_use_device(0);
    for (;; draw = draw * 6364136223846793005u + 1442695040888963407u) {
        CUmemAllocationProp properties = on_device(0);
        CUmemGenericAllocationHandle handle;
        if (cuMemCreate(&handle, 20 * MIB, &properties, 0) == CUDA_SUCCESS)
            OK(cuMemRelease(handle));
        CUdeviceptr *block = &blocks[(draw >> 33) % 8];
        if (*block)
            OK(cuMemFree(*block));
        if (*block || cuMemAlloc(block, 1 + (draw >> 40) % (40 * MIB)) != CUDA_SUCCESS)
            *block = 0;
    }
}

TEST(a_process_that_is_killed_leaves_no_host_memory_held) {
    const char *text = getenv("TEST_KILLS");
    int n_kills = text ? atoi(text) : 12;
    char path[] = "/tmp/cushim-spill-XXXXXX";
    int file = mkstemp(path), status;
    ck_assert_int_ge(file, 0);
    setenv("CUSHIM_SIM_SHARED", path, 1);
    for (int i = 0; i < n_kills; i++) {
        pid_t child = fork();
        if (child == 0)
            churn((unsigned long)i + 1);
        usleep(20000 + (useconds_t)i * 7919 % 100000);
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status));
        expect_spilled(0);
    }
    fixture_use_device(0);
    ck_assert_uint_eq(free_bytes(), SUM);
    unlink(path);
}

int main(void) {
    return fixture_run("spill");
}
