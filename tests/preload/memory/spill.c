/*
 * A device of 64 MiB that is larger by 128 MiB, which CUSHIM_SPILL takes from the host: answers are
 * those of a device of 192 MiB, which is there without cushim (docs/guide/spill.md).
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "tests/preload/fixture/fixture.h"
#include "tools/sim/nvml/nvml.h"

enum { DEVICE = 64 * MIB, SPILL = 128 * MIB, SUM = DEVICE + SPILL, BLOCK = 40 * MIB };

static size_t free_bytes(void) {
    size_t n_bytes, all_bytes;
    OK(cuMemGetInfo(&n_bytes, &all_bytes));
    ck_assert_uint_eq(all_bytes, SUM);
    return n_bytes;
}

/* So much lies in host memory, if cushim is there. */
static void expect_spilled(size_t n_bytes) {
    ck_assert_uint_eq(sim_used_bytes(SIM_OF_HOST), fixture_is_preloaded() ? n_bytes : 0);
}

static CUdeviceptr fill_device(void) {
    CUdeviceptr first = fixture_alloc(60 * MIB);
    expect_spilled(0);
    return first;
}

static CUdeviceptr spilled(size_t n_bytes) {
    fill_device();
    CUdeviceptr address = fixture_alloc(n_bytes);
    expect_spilled(BLOCK);
    return address;
}

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
        fixture_fill(address, 7, BLOCK);
        ck_assert(fixture_is_filled(address, 7, BLOCK));
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

/* ---- memory that the program maps ---- */

static CUmemAllocationProp on_device(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                 .allocFlags = {.gpuDirectRDMACapable = 1}}; /* as frameworks ask */
}

static CUmemGenericAllocationHandle create(int device) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(device);
    OK(cuMemCreate(&handle, BLOCK, &properties, 0));
    return handle;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, int device) {
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;
    OK(cuMemAddressReserve(&address, BLOCK, 0, 0, 0));
    OK(cuMemMap(address, BLOCK, 0, handle, 0));
    OK(cuMemSetAccess(address, BLOCK, &access, 1));
    return address;
}

static void unmap(CUdeviceptr address) {
    OK(cuMemUnmap(address, BLOCK));
    OK(cuMemAddressFree(address, BLOCK));
}

TEST(mapped_memory_beyond_the_device_lies_on_the_host_until_it_is_gone) {
    CUmemGenericAllocationHandle again, more;
    CUmemAllocationProp properties = on_device(0);
    fixture_use_device(0);
    fill_device();
    CUmemGenericAllocationHandle handle = create(0);
    expect_spilled(BLOCK);
    ck_assert_uint_eq(free_bytes(), SUM - 60 * MIB - BLOCK);
    CUdeviceptr address = map(handle, 0);
    fixture_fill(address, 7, BLOCK);
    ck_assert(fixture_is_filled(address, 7, BLOCK));
    fixture_launch_write(address + 64, 99, NULL);
    ck_assert_uint_eq(fixture_read(address + 64), 99);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + 100)));
    ck_assert_uint_eq(again, handle);
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(address, BLOCK));
    expect_spilled(BLOCK);
    OK(cuMemMap(address, BLOCK, 0, handle, 0));
    OK(cuMemRelease(again));
    expect_spilled(BLOCK);
    unmap(address);
    expect_spilled(0);
    for (int i = 0; i < 3; i++)
        again = create(0);
    ANSWERS(cuMemCreate(&more, BLOCK, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemRelease(again));
    expect_spilled(2 * BLOCK);
    create(0);
}

static void map_and_unmap(size_t spilled_bytes, CUdeviceptr to_free) {
    CUmemGenericAllocationHandle handle = create(0);
    CUdeviceptr address = map(handle, 0);
    expect_spilled(spilled_bytes);
    OK(cuMemFree(to_free));
    OK(cuMemRelease(handle));
    unmap(address);
    expect_spilled(0);
}

TEST(what_is_mapped_lies_on_the_device_whenever_that_has_room) {
    fixture_use_device(0);
    for (int i = 0; i < 3; i++) {
        map_and_unmap(BLOCK, fill_device());
        map_and_unmap(0, 0);
    }
}

TEST(questions_about_mapped_memory_answer_as_of_device_memory, .n = 2) {
    CUmemAllocationProp asked = on_device(_i), told;
    CUcontext context;
    unsigned type;
    int ordinal, is_managed = 1;
    void *host, *data[] = {&type, &ordinal, &context, &host};
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    unsigned long long rights = 0;
    fixture_use_device(_i);
    fill_device();
    CUmemGenericAllocationHandle handle = create(_i);
    CUdeviceptr address = map(handle, _i);
    expect_spilled(BLOCK);
    OK(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    ck_assert_mem_eq(&told, &asked, sizeof told);
    OK(cuPointerGetAttributes(4, wanted, data, address + 5));
    ck_assert(type == CU_MEMORYTYPE_DEVICE && ordinal == _i && !context && !host);
    for (int i = 0; i < 3; i++) {
        memset(data[i], 0xff, 4);
        OK(cuPointerGetAttribute(data[i], wanted[i], address + BLOCK - 1));
    }
    ck_assert(type == CU_MEMORYTYPE_DEVICE && ordinal == _i && !context);
    ANSWERS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
    ck_assert_int_eq(is_managed & 0xff, 0);
    OK(cuMemGetAccess(&rights, &asked.location, address));
    ck_assert_uint_eq(rights, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemUnmap(address, BLOCK));
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_IF(fixture_is_preloaded(), a_handle_of_mapped_memory_is_not_exported) {
    int shared;
    fixture_use_device(0);
    fill_device();
    ANSWERS(cuMemExportToShareableHandle(&shared, create(0),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_IF(fixture_is_preloaded(), what_host_memory_cannot_do_is_out_of_memory, .n = 2) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(0);
    fixture_use_device(0);
    fill_device();
    properties.allocFlags.compressionType = _i == 0;
    properties.allocFlags.usage = _i == 1;
    ANSWERS(cuMemCreate(&handle, BLOCK, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    expect_spilled(0);
}

/* ---- contents ---- */

TEST(copies_sets_and_kernels_reach_it) {
    static unsigned char host[BLOCK];
    fixture_use_device(0);
    CUdeviceptr there = fixture_alloc(30 * MIB), address = fixture_alloc(BLOCK);
    CUdeviceptr other = fixture_alloc(BLOCK);
    expect_spilled(2 * BLOCK);
    for (int i = 0; i < BLOCK; i++)
        host[i] = (unsigned char)(i * 7);
    OK(cuMemcpyHtoD(address, host, BLOCK));
    OK(cuMemcpyDtoD(there, address + 1000, 30 * MIB - 1000));
    OK(cuMemcpyDtoD(other, address, BLOCK));
    OK(cuMemcpyDtoD(other + 1000, there, 30 * MIB - 1000));
    memset(host, 0, BLOCK);
    OK(cuMemcpyDtoH(host, other, BLOCK));
    for (int i = 0; i < BLOCK; i++)
        ck_assert_uint_eq(host[i], (unsigned char)(i * 7));
    OK(cuMemsetD32(address, 17, BLOCK / 4));
    ck_assert_uint_eq(fixture_read(address + BLOCK - 4), 17);
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = other,
                                .srcPitch = 4096,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = address,
                                .dstPitch = 8192,
                                .WidthInBytes = 100,
                                .Height = 1000};
    OK(cuMemcpy2D(&rows));
    ck_assert_uint_eq(fixture_read(address + 8192 * 999), fixture_read(other + 4096 * 999));
    fixture_launch_write(address + 64, 99, NULL);
    ck_assert_uint_eq(fixture_read(address + 64), 99);
    ANSWERS(cuMemcpyHtoD(address + 1, host, BLOCK), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemsetD8(address + BLOCK - 1, 0, 2), CUDA_ERROR_INVALID_VALUE);
}

TEST(graphs_reach_it) {
    CUgraph graph;
    CUgraphExec exec;
    CUstream stream;
    fixture_use_device(0);
    CUdeviceptr address = spilled(BLOCK);
    OK(cuGraphLaunch(fixture_graph(address + 8, 5), NULL));
    ck_assert_uint_eq(fixture_read(address + 8), 5);
    stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(address, 3, 100, stream));
    OK(cuMemcpyDtoDAsync(address + 4000, address, 400, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(fixture_read(address + 4396), 3);
}

TEST(other_devices_of_the_process_reach_it) {
    fixture_use_device(0);
    CUdeviceptr address = spilled(BLOCK);
    OK(cuMemsetD8(address, 1, BLOCK));
    fixture_use_device(1);
    CUdeviceptr there = fixture_alloc(BLOCK);
    OK(cuMemcpy(there, address, BLOCK));
    ck_assert(fixture_is_filled(there, 1, BLOCK));
    OK(cuMemsetD8(there, 2, BLOCK));
    OK(cuMemcpy(address, there, BLOCK));
    ck_assert(fixture_is_filled(address, 2, BLOCK));
}

/* ---- frees ---- */

TEST(its_free_waits_for_work_that_uses_it) {
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    thread.address = spilled(BLOCK);
    sim_hold();
    fixture_launch_write(thread.address, 1, fixture_stream());
    fixture_start(&thread, fixture_free_it);
    fixture_is_asleep(&thread, fixture_wait_of_free(), 0); /* or it is done, if `relaxed` */
    ck_assert_uint_gt(sim_pending(), 0);
    expect_spilled(BLOCK);
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
    OK(cuCtxSynchronize());
    expect_spilled(0);
}

static atomic_ulong n_before;
static atomic_bool is_freed;

/* Ours asks again and again, because it would not wait for a kernel that never ends. */
static const char *call_of_wait(void) {
    return fixture_is_preloaded() ? "cuEventQuery" : fixture_wait_of_free();
}

static void release_when_it_waits(struct fixture_thread *thread) {
    (void)thread;
    while (!atomic_load(&is_freed) && sim_calls(call_of_wait()) <= atomic_load(&n_before))
        usleep(200);
    sim_release_hold();
}

TEST(its_free_waits_for_copies_of_other_devices, .n = 2) {
    CUcontext first = fixture_use_device(0), second;
    struct fixture_thread thread = {.context = first};
    size_t n_bytes = _i ? BLOCK : 4096;
    fixture_alloc(DEVICE - 2 * MIB);
    fixture_alloc(MIB + 1);
    OK(cuMemFree(fixture_alloc(n_bytes))); /* this thread knows its heaps from now on */
    CUdeviceptr address = fixture_alloc(n_bytes);
    second = fixture_use_device(1);
    CUdeviceptr there = fixture_alloc(n_bytes);
    CUstream stream = fixture_stream();
    OK(cuCtxSetCurrent(first));
    sim_hold();
    OK(cuMemcpyPeerAsync(there, second, address, first, n_bytes, stream));
    atomic_store(&n_before, sim_calls(call_of_wait()));
    fixture_start(&thread, release_when_it_waits);
    OK(cuMemFree(address));
    unsigned n_pending = sim_pending();
    atomic_store(&is_freed, true);
    fixture_join(&thread);
    ck_assert_uint_eq(n_pending, 0);
}

TEST(what_graphs_allocate_is_not_spilled) {
    CUgraph graph;
    CUdeviceptr address;
    fixture_use_device(0);
    fill_device();
    CUstream stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (cuMemAllocAsync(&address, BLOCK, stream) == CUDA_SUCCESS)
        OK(cuMemFreeAsync(address, stream));
    OK(cuStreamEndCapture(stream, &graph));
    expect_spilled(0);
}

/* Then each request is the driver's own call, which captures of other threads forbid. */
static bool is_pool_off(void) {
    const char *pool = getenv("CUSHIM_POOL");
    return pool && *pool == '0';
}

static void alloc_block(struct fixture_thread *thread) {
    thread->answer = cuMemAlloc(&thread->address, BLOCK);
}

TEST_IF(fixture_is_preloaded() && !is_pool_off(), captures_of_other_threads_stay_valid) {
    CUgraph graph;
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    fill_device();
    CUstream stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fixture_start(&thread, alloc_block);
    fixture_join(&thread);
    OK(thread.answer);
    expect_spilled(BLOCK);
    OK(cuStreamEndCapture(stream, &graph));
}

TEST(a_context_takes_its_blocks_with_it) {
    CUcontext context;
    fixture_use_device(0);
    fill_device();
    OK(cuCtxCreate(&context, NULL, 0, 0));
    fixture_alloc(BLOCK);
    expect_spilled(BLOCK);
    OK(cuCtxDestroy(context));
    expect_spilled(0);
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
