/* A device whose work takes time: CUSHIM_SIM_WORK_NS. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <time.h>

static const uint64_t work_ns = 50000000;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static CUstream begin(void) {
    setenv("CUSHIM_SIM_WORK_NS", "50000000", 1);
    fixture_context();
    return fixture_stream(CU_STREAM_NON_BLOCKING);
}

/* Never shorter, even on a slow machine. */
TEST(a_free_waits_as_long_as_the_work_takes) {
    CUstream stream = begin();
    CUdeviceptr at = fixture_alloc(100), copied = fixture_alloc(100);
    uint64_t begin_ns = now_ns();
    ck_cuda(cuMemsetD8Async(at, 1, 100, stream));
    ck_cuda(cuMemcpyDtoDAsync(copied, at, 100, stream));
    ck_cuda(cuMemFree(at));
    ck_assert_uint_ge(now_ns() - begin_ns, 2 * work_ns);
}

TEST(a_kernel_takes_its_time_in_each_launch_of_a_graph) {
    CUstream stream = begin();
    CUgraph graph;
    CUgraphExec exec;
    int target = 0;
    ck_cuda(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fixture_store(stream, &target, 1);
    ck_cuda(cuStreamEndCapture(stream, &graph));
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        uint64_t begin_ns = now_ns();
        ck_cuda(cuGraphLaunch(exec, stream));
        ck_cuda(cuStreamSynchronize(stream));
        ck_assert_uint_ge(now_ns() - begin_ns, work_ns);
    }
    ck_assert_int_eq(target, 1);
}

SUITE() {
    return tests_run("sim work time");
}
