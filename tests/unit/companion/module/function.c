/* Functions: what a launch checks, what it passes to the driver, and what it leaves. */
#include "cushim/function.h"

#include "cushim/event.h"
#include "cushim/module.h"
#include "cushim/stream.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

static struct sim_launch seen; /* set by the last launch */
static int seen_number;
static double seen_double;

SIM_KERNEL(record, int, double) {
    seen = *launch;
    seen_number = SIM_ARG(int, 0);
    seen_double = SIM_ARG(double, 1);
}

static struct cushim_module *m;

static struct cushim_function *function(void) {
    struct cushim_function *f;
    ck_ok(cushim_module_load(NULL, SIM_MODULE_IMAGE, 0, NULL, &m));
    ck_ok(cushim_module_function(m, "record", &f));
    return f;
}

static struct cushim_launch shape(void) {
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    return launch;
}

static int number = 4711;
static double fraction = 0.5;
static const void *args[] = {&number, &fraction};

TEST(the_driver_gets_the_launch_unchanged) {
    struct cushim_function *f = function();
    struct cushim_launch launch = shape();
    launch.grid[0] = 0;
    launch.grid[1] = 7;
    launch.block[2] = 5;
    launch.shared_bytes = 99;
    for (int cooperative = 0; cooperative < 2; cooperative++) {
        memset(&seen, 0, sizeof seen);
        launch.cooperative = cooperative;
        ck_ok(cushim_function_launch(f, &launch, args, 2));
        ck_ok(cushim_stream_synchronize(NULL));
        ck_assert_uint_eq(seen.grid[0], 1);
        ck_assert_uint_eq(seen.grid[1], 7);
        ck_assert_uint_eq(seen.block[2], 5);
        ck_assert_uint_eq(seen.shared_bytes, 99);
        ck_assert_int_eq(seen_number, 4711);
        ck_assert(seen_double == 0.5);
    }
    ck_assert_uint_eq(n_calls("cuLaunchKernel"), 1);
    ck_assert_uint_eq(n_calls("cuLaunchKernelEx"), 1);
}

TEST(one_buffer_is_accepted_if_it_has_the_kernels_size) {
    struct cushim_function *f = function();
    struct cushim_launch launch = shape();
    const struct {
        int number;
        double fraction;
    } buffer = {12, 2.5};
    ck_is(cushim_function_launch_packed(f, &launch, &buffer, 12), CUSHIM_INVALID);
    ck_said("parameters=16");
    ck_is(cushim_function_launch_packed(f, &launch, NULL, 16), CUSHIM_INVALID);
    for (launch.cooperative = 0; launch.cooperative < 2; launch.cooperative++) {
        seen_number = 0;
        ck_ok(cushim_function_launch_packed(f, &launch, &buffer, sizeof buffer));
        ck_ok(cushim_stream_synchronize(NULL));
        ck_assert_int_eq(seen_number, 12);
        ck_assert(seen_double == 2.5);
    }
}

TEST(shape_and_arguments_are_checked_without_a_driver_call) {
    struct cushim_function *f = function();
    struct cushim_launch launch = shape();
    const void *missing[] = {&number, NULL};
    ck_is(cushim_function_launch(f, NULL, args, 2), CUSHIM_INVALID);
    ck_is(cushim_function_launch(NULL, &launch, args, 2), CUSHIM_INVALID);
    ck_is(cushim_function_launch(f, &launch, args, 1), CUSHIM_INVALID);
    ck_said("n=1 parameters=2");
    ck_is(cushim_function_launch(f, &launch, args, 3), CUSHIM_INVALID);
    ck_is(cushim_function_launch(f, &launch, NULL, 2), CUSHIM_INVALID);
    ck_is(cushim_function_launch(f, &launch, missing, 2), CUSHIM_INVALID);
    ck_said("index=1");
    launch.block[1] = 0;
    ck_is(cushim_function_launch(f, &launch, args, 2), CUSHIM_INVALID);
    ck_said("block=1,0,1");
    launch = shape();
    launch.stream = (struct cushim_stream *)0x1234;
    ck_is(cushim_function_launch(f, &launch, args, 2), CUSHIM_BADHANDLE);
    launch = shape();
    launch.struct_size = 7;
    ck_is(cushim_function_launch(f, &launch, args, 2), CUSHIM_ABI);
    ck_assert_uint_eq(n_calls("cuLaunchKernel"), 0);
    launch = shape();
    launch.block[0] = 2000; /* the driver refuses this one */
    ck_is(cushim_function_launch(f, &launch, args, 2), CUSHIM_INVALID);
    ck_said("cuLaunchKernel failed: CUDA_ERROR_INVALID_VALUE");
    ck_said("function=record grid=1,1,1 block=2000,1,1");
}

TEST(an_older_or_longer_launch_struct_is_read) {
    struct cushim_function *f = function();
    struct {
        struct cushim_launch launch;
        uint64_t tail;
    } newer = {.launch = shape()};
    newer.launch.block[0] = 3;
    newer.launch.struct_size = offsetof(struct cushim_launch, shared_bytes);
    newer.launch.stream = (struct cushim_stream *)0x1234; /* beyond the old struct's end */
    ck_ok(cushim_function_launch(f, &newer.launch, args, 2));
    ck_ok(cushim_stream_synchronize(NULL));
    ck_assert_uint_eq(seen.block[0], 3);
    newer.launch.stream = NULL;
    newer.launch.struct_size = sizeof newer;
    ck_ok(cushim_function_launch(f, &newer.launch, args, 2));
    newer.tail = 1;
    ck_is(cushim_function_launch(f, &newer.launch, args, 2), CUSHIM_ABI);
}

TEST(a_stream_of_another_context_is_refused) {
    struct cushim_function *f = function();
    struct cushim_launch launch = shape();
    struct cushim_context *other;
    ck_ok(cushim_context_create(0, 0, &other));
    ck_ok(cushim_stream_create(other, 0, 0, &launch.stream));
    ck_is(cushim_function_launch(f, &launch, args, 2), CUSHIM_BADDEVICE);
    ck_ok(cushim_context_destroy(other));
    ck_is(cushim_function_launch(f, &launch, args, 2), CUSHIM_DEADCONTEXT);
    launch.stream = CUSHIM_STREAM_PER_THREAD;
    ck_ok(cushim_function_launch(f, &launch, args, 2));
    ck_ok(cushim_stream_synchronize(CUSHIM_STREAM_PER_THREAD));
}

TEST(without_a_layout_from_the_driver_arguments_are_not_checked) {
    struct cushim_launch launch = shape();
    struct cushim_function *f;
    primary(0);
    ck_ok(cushim_module_load(NULL, SIM_MODULE_IMAGE, 0, NULL, &m));
    driver_loses(cuFuncGetParamInfo);
    ck_ok(cushim_module_function(m, "record", &f));
    const void *three[] = {&number, &fraction, &number};
    ck_ok(cushim_function_launch(f, &launch, three, 3));
    /* the driver's error */
    ck_is(cushim_function_launch_packed(f, &launch, &number, 4), CUSHIM_INVALID);
    ck_said("cuLaunchKernel failed");
}

TEST(a_timed_launch_that_fails_leaves_no_events) {
    struct cushim_function *f = function();
    struct cushim_launch launch = shape();
    float ms = 5;
    for (unsigned n = 1;; n++) {
        SIM(sim_calls_reset)();
        fail_at(n);
        enum cushim_status status = cushim_function_launch_timed(f, &launch, args, 2, &ms);
        bool is_over = fail_is_over(status);
        if (status != CUSHIM_OK)
            ck_assert(ms == 0);
        ck_assert_ptr_null(sim_current());
        if (is_over)
            break;
    }
    ck_assert_uint_eq(n_calls("cuEventCreate"), 2);
    ck_assert_uint_eq(n_calls("cuEventDestroy_v2"), 2);
    ck_is(cushim_function_launch_timed(f, &launch, args, 2, NULL), CUSHIM_INVALID);
}

TEST(attributes_are_those_of_the_driver) {
    struct cushim_function *f = function();
    int v = 5, grid, block;
    ck_ok(cushim_function_attribute(f, 0, &v));
    ck_assert_int_eq(v, 1024);
    ck_ok(cushim_function_attribute_set(f, 8, 100000));
    ck_ok(cushim_function_attribute(f, 8, &v));
    ck_assert_int_eq(v, 100000);
    ck_is(cushim_function_attribute_set(f, 8, 1000000), CUSHIM_INVALID);
    ck_is(cushim_function_attribute(f, 1000, &v), CUSHIM_INVALID);
    ck_assert_int_eq(v, 0);
    ck_is(cushim_function_attribute(f, 0, NULL), CUSHIM_INVALID);
    ck_is(cushim_function_cache(f, 9), CUSHIM_INVALID);
    ck_ok(cushim_function_occupancy(f, 1024, 0, &v));
    ck_assert_int_eq(v, 2);
    ck_is(cushim_function_occupancy(f, 0, 0, &v), CUSHIM_INVALID);
    ck_ok(cushim_function_suggest(f, 0, 100, &grid, &block));
    ck_assert_int_eq(block, 100);
    ck_is(cushim_function_suggest(f, 0, -1, &grid, &block), CUSHIM_INVALID);
    ck_is(cushim_function_suggest(f, 0, 0, NULL, &block), CUSHIM_INVALID);
}

TEST(a_graph_keeps_its_module_until_it_is_gone) {
    struct cushim_function *f = function();
    struct cushim_launch launch = shape();
    struct CUstream_st *cu;
    CUgraph graph;
    ck_ok(cushim_stream_create(NULL, 1, 0, &launch.stream));
    ck_ok(cushim_stream_handle(launch.stream, &cu));
    ck_ok(cushim_context_push(primary(0)));
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(cu, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_SUCCESS);
    ck_ok(cushim_context_capture_enter(NULL));
    ck_ok(cushim_function_launch(f, &launch, args, 2));
    ck_ok(cushim_function_launch(f, &launch, args, 2));
    ck_assert_uint_eq(n_calls("cuUserObjectCreate"), 1);
    launch.stream = NULL;
    ck_is(cushim_function_launch(f, &launch, args, 2), CUSHIM_CAPTURE);
    ck_assert_int_eq(SIM(cuStreamEndCapture)(cu, &graph), CUDA_SUCCESS);
    ck_ok(cushim_context_capture_leave(NULL));
    ck_ok(cushim_module_unload(m));
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 0);
    ck_assert_int_eq(SIM(cuGraphDestroy)(graph), CUDA_SUCCESS);
    ck_ok(cushim_module_load(NULL, SIM_MODULE_IMAGE, 0, NULL, &m)); /* looks for completed graphs */
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 1);
}

SUITE() {
    return tests_run("function");
}
