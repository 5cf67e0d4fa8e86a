/*
 * Entry points of per-thread default streams that do more than forward, by their own names: each
 * does what the one without the suffix does, on a stream of its own thread.  Those that are judged
 * are in entry_points.c.
 */
#define __CUDA_API_VERSION_INTERNAL /* every name is its own, none is an alias */
#include "tests/preload/fixture/fixture.h"

#include <dlfcn.h>

/* ---- launches, which may print (C14) ---- */

static CUfunction function;

static CUresult launch_plain(void **params) {
    return cuLaunchKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

static CUresult launch_configured(void **params) {
    const CUlaunchConfig config = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 1,
                                   .blockDimY = 1,
                                   .blockDimZ = 1};
    return cuLaunchKernelEx_ptsz(&config, function, params, NULL);
}

static CUresult launch_together(void **params) {
    return cuLaunchCooperativeKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, NULL, params);
}

/* A free after a launch brings out what it printed, by a wait; a free without one only asks. */
TEST(a_free_brings_out_what_a_launch_printed, .n = 3) {
    static CUresult (*const launches[])(void **) = {launch_plain, launch_configured,
                                                    launch_together};
    unsigned value = 7;
    fixture_use_device(0);
    OK(sim_function_by_name(&function, "fixture_write"));
    CUdeviceptr target = fixture_alloc(64);
    void *params[] = {&target, &value};
    OK(cuMemFree_v2(fixture_alloc(1000)));
    unsigned long n = sim_calls("cuEventSynchronize");
    OK(cuMemFree_v2(fixture_alloc(1000)));
    ck_assert_uint_eq(sim_calls("cuEventSynchronize"), n);
    OK(launches[_i](params));
    OK(cuStreamSynchronize_ptsz(NULL));
    ck_assert_uint_eq(fixture_read(target), 7);
    OK(cuMemFree_v2(fixture_alloc(1000)));
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuEventSynchronize"), n + 1);
}

/* ---- stream-ordered memory (C12, CUSHIM_LIMIT) ---- */

TEST(an_allocation_in_stream_order_keeps_to_the_limit) {
    CUdeviceptr block = 0;
    CUmemoryPool pool;
    fixture_use_device(0);
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    CUresult beyond = fixture_is_preloaded() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    ANSWERS(cuMemAllocAsync_ptsz(&block, 300 * MIB, NULL), beyond);
    if (beyond == CUDA_SUCCESS)
        OK(cuMemFreeAsync_ptsz(block, NULL));
    ANSWERS(cuMemAllocFromPoolAsync_ptsz(&block, 300 * MIB, pool, NULL), beyond);
    if (beyond == CUDA_SUCCESS)
        OK(cuMemFreeAsync_ptsz(block, NULL));
    OK(cuMemAllocAsync_ptsz(&block, 3 * MIB, NULL));
    OK(cuMemFreeAsync_ptsz(block, NULL));
}

/*
 * A block of the pool, which is no allocation of the driver's, comes back after the work of the
 * thread's own stream.  It does not wait for other streams, as the legacy stream would.
 */
TEST(a_block_is_freed_in_the_order_of_the_thread_s_stream) {
    enum { MANY = 150, N_BYTES = 3 * MIB };
    CUstream slow;
    fixture_use_device(0);
    CUdeviceptr word = fixture_alloc(64), block = fixture_alloc(N_BYTES);
    OK(cuMemsetD8_v2(word, 0, 64));
    OK(cuStreamCreate(&slow, CU_STREAM_DEFAULT));
    OK(cuStreamWaitValue32_v2(slow, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuMemFreeAsync_ptsz(block, NULL));
    ANSWERS(cuMemFree_v2(block), CUDA_ERROR_INVALID_VALUE);
    bool is_back = !fixture_is_preloaded();
    for (int i = 0; i < MANY && !is_back; i++)
        is_back = fixture_alloc(N_BYTES) == block;
    ck_assert(is_back);
    OK(cuStreamWriteValue32_v2(fixture_stream(), word, 1, 0));
    OK(cuStreamSynchronize(slow));
}

/* ---- captures (C7) ---- */

static int n_open(void) {
    int (*capturing)(CUcontext);
    void *address = dlsym(RTLD_DEFAULT, "cushim_preload_capturing");
    if (!address)
        return -1;
    memcpy(&capturing, &address, sizeof capturing);
    return capturing(NULL);
}

static CUresult begin_old(void) {
    return cuStreamBeginCapture_ptsz(NULL);
}

static CUresult begin(void) {
    return cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult begin_into(void) {
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    return cuStreamBeginCaptureToGraph_ptsz(NULL, graph, NULL, NULL, 0,
                                            CU_STREAM_CAPTURE_MODE_RELAXED);
}

TEST(a_capture_on_the_thread_s_stream_is_known_until_it_ends, .n = 3) {
    static CUresult (*const begins[])(void) = {begin_old, begin, begin_into};
    CUgraph graph;
    fixture_use_device(0);
    OK(begins[_i]());
    ck_assert(!fixture_is_preloaded() || n_open() == 1);
    OK(cuStreamEndCapture_ptsz(CU_STREAM_PER_THREAD, &graph)); /* by its other name */
    ck_assert(!fixture_is_preloaded() || n_open() == 0);
}

int main(void) {
    return fixture_run("per thread");
}
