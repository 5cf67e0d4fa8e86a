/* What uses memory that CUSHIM_SPILL takes from the host, and what its frees wait for. */
#include <time.h>
#include <unistd.h>

#include "tests/preload/memory/spill_fixture.h"

/* ---- contents ---- */

TEST(copies_sets_and_kernels_reach_it) {
    enum { STRIDE = 997 }; /* bytes that are looked at */
    static unsigned char host[BLOCK];
    fixture_use_device(0);
    CUdeviceptr there = fixture_alloc(30 * MIB), address = fixture_alloc(BLOCK);
    CUdeviceptr other = fixture_alloc(BLOCK);
    expect_spilled(2 * BLOCK);
    for (int i = 0; i < BLOCK; i += STRIDE)
        host[i] = (unsigned char)(i * 7);
    OK(cuMemcpyHtoD(address, host, BLOCK));
    OK(cuMemcpyDtoD(there, address + 1000, 30 * MIB - 1000));
    OK(cuMemcpyDtoD(other, address, BLOCK));
    OK(cuMemcpyDtoD(other + 1000, there, 30 * MIB - 1000));
    memset(host, 0, BLOCK);
    OK(cuMemcpyDtoH(host, other, BLOCK));
    for (int i = 0; i < BLOCK; i += STRIDE)
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
    fixture_fill_pages(address, 1, BLOCK);
    OK(cuCtxSynchronize());
    fixture_use_device(1);
    CUdeviceptr there = fixture_alloc(BLOCK);
    OK(cuMemcpy(there, address, BLOCK));
    ck_assert(fixture_pages_are_filled(there, 1, BLOCK));
    fixture_fill_pages(there, 2, BLOCK);
    OK(cuCtxSynchronize());
    OK(cuMemcpy(address, there, BLOCK));
    ck_assert(fixture_pages_are_filled(address, 2, BLOCK));
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

/* So long a free waits for other contexts, whose kernel may never end. */
enum { PATIENCE_S = 2 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
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
    double began_s = seconds();
    OK(cuMemFree(address));
    bool has_given_up = seconds() - began_s > PATIENCE_S - 0.1;
    unsigned n_pending = sim_pending();
    atomic_store(&is_freed, true);
    fixture_join(&thread);
    ck_assert(n_pending == 0 || has_given_up); /* if the other thread did not run for so long */
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

int main(void) {
    return fixture_run("spill_use");
}
