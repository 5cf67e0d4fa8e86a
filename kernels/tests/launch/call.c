/*
 * Where a call runs: without a driver, by the environment, on the device of its stream, from
 * threads without a context.  How it is launched, and what becomes of a reference's arguments.
 */
#include "kernels/launch/call.h"

#include <pthread.h>

#include "cushim/kernels.h"
#include "kernels/tests/launch/fixture.h"

/* ---- no driver ---- */

static const struct cushim_kernel_shape plain;

TEST(without_a_driver_the_text_names_it) {
    uint32_t word;
    fixture_force(NULL);
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_is(fixture_store(&word, 1, NULL), CUSHIM_NOCUDA);
    ck_said("/nowhere/libcuda.so.1");
    ck_is(cushim_kernels_load(), CUSHIM_NOCUDA);
    ck_said("/nowhere/libcuda.so.1");
}

TEST(without_a_driver_the_references_do_not_step_in) {
    uint32_t word;
    fixture_force("cpu");
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_is(fixture_store(&word, 1, NULL), CUSHIM_NOCUDA);
}

TEST(a_driver_without_a_device_is_NODEVICE) {
    uint32_t word;
    fixture_force(NULL);
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    ck_is(fixture_store(&word, 1, NULL), CUSHIM_NODEVICE);
    ck_is(cushim_kernels_load(), CUSHIM_NODEVICE);
}

/* ---- the name of a path ---- */

TEST(an_unknown_path_is_refused) {
    fixture_force("77");
    fixture_context(0);
    ck_is(fixture_store(fixture_word(), 1, NULL), CUSHIM_INVALID);
    ck_said("CUSHIM_KERNEL_ARCH=77 is none of 75, 80, 89, 90, cpu");
    ck_is(cushim_kernels_load(), CUSHIM_INVALID);
}

static struct cushim_kernel_call begun(const char *arch) {
    struct cushim_kernel_call call;
    fixture_force(arch);
    fixture_context(0);
    ck_ok(cushim_kernel_call_begin(&call, "f", &cushim_family_fixture, NULL));
    return call;
}

/* With the path, what a device of 9.0 has. */
TEST(the_environment_forces_a_path, .n = 4) {
    static const char *const words[] = {"75", "80", "89", "90"};
    struct cushim_kernel_call call = begun(words[_i]);
    ck_assert(!call.is_cpu);
    ck_assert_uint_eq(call.n_sms, 132);
    ck_assert_int_eq(call.has_wgmma, _i == 3);
    ck_assert_int_eq(call.has_pdl, _i == 3);
    ck_assert_int_eq(call.arch, atoi(words[_i]));
}

TEST(the_software_device_runs_references_by_default, .n = 3) {
    static const char *const words[] = {NULL, "", "cpu"};
    ck_assert(begun(words[_i]).is_cpu);
}

/* ---- devices and contexts ---- */

TEST(the_stream_says_the_device, .n = 2) {
    fixture_force(_i ? "cpu" : "90");
    fixture_context(1);
    CUstream stream = fixture_stream();
    uint32_t *word = fixture_word();
    fixture_context(0);
    ck_ok(fixture_store(word, 5, stream));
    ck_assert_int_eq(SIM(cuStreamSynchronize)(stream), CUDA_SUCCESS);
    CUcontext of_stream = sim_current(); /* the call has left the current context alone */
    fixture_context(0);
    ck_assert_ptr_eq(of_stream, sim_current());
    fixture_context(1);
    ck_assert_uint_eq(fixture_read(word), 5);
    ck_assert_uint_eq(atomic_load(&cushim_family_fixture.ready), _i ? 0 : 2);
}

TEST(the_null_stream_is_of_the_current_context) {
    fixture_force("90");
    fixture_context(1);
    uint32_t *word = fixture_word();
    ck_ok(fixture_store(word, 6, NULL));
    ck_assert_uint_eq(fixture_read(word), 6);
    ck_assert_uint_eq(atomic_load(&cushim_family_fixture.ready), 2);
}

struct request {
    uint32_t *word;
    CUstream stream;
    enum cushim_status status;
};

static void *store_in_thread(void *cookie) {
    struct request *request = cookie;
    ck_assert_ptr_null(sim_current());
    request->status = fixture_store(request->word, 8, request->stream);
    ck_assert_ptr_null(sim_current());
    return NULL;
}

static void store_without_context(struct request *request) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, store_in_thread, request), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* Bit 0 is the reference; bit 1 means only one device. */
TEST(a_thread_without_a_context_needs_a_stream, .n = 4) {
    fixture_force(_i & 1 ? "cpu" : "90");
    setenv("CUSHIM_SIM_DEVICES", _i & 2 ? "1" : "2", 1);
    fixture_context(0);
    struct request with = {fixture_word(), fixture_stream(), CUSHIM_OK};
    struct request without = {fixture_word(), NULL, CUSHIM_OK};
    store_without_context(&with);
    ck_ok(with.status);
    ck_assert_uint_eq(fixture_read(with.word), 8);
    store_without_context(&without);
    ck_assert_int_eq(without.status, CUSHIM_NOCONTEXT);
    ck_assert_uint_eq(fixture_read(without.word), 0);
}

/* ---- launches ---- */

static struct {
    unsigned n, cluster;
    bool is_dependent;
} seen;

static CUresult look(const CUlaunchConfig *config, CUfunction function, void **params,
                     void **extra) {
    seen.n++;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            seen.is_dependent = attribute->value.programmaticStreamSerializationAllowed;
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            seen.cluster = attribute->value.clusterDim.x;
    }
    return SIM(cuLaunchKernelEx)(config, function, params, extra);
}

/* The attributes of a launch of this shape. */
static void launch(const struct cushim_kernel_shape *shape) {
    struct fixture_args args = {fixture_word(), 9};
    memset(&seen, 0, sizeof seen);
    ck_ok(fixture_store_by(FIXTURE_LARGE, shape, &args, NULL));
    ck_assert_uint_eq(fixture_read(args.dst), 9);
}

TEST(a_launch_is_dependent_if_the_device_can_and_it_is_wanted, .n = 3) {
    static const char *const words[] = {"90", "90", "80"};
    bool is_on = _i == 0;
    setenv("CUSHIM_KERNEL_PDL", _i == 1 ? "0" : "1", 1);
    fixture_force(words[_i]);
    fixture_context(0);
    ck_ok(cushim_driver_use("test"));
    atomic_store(&CUSHIM_DRIVER(cuLaunchKernelEx), look);
    launch(&plain);
    ck_assert_uint_eq(seen.n, 0);
    launch(&(struct cushim_kernel_shape){.is_dependent = true});
    ck_assert_uint_eq(seen.n, is_on);
    ck_assert(seen.is_dependent == is_on && !seen.cluster);
    launch(&(struct cushim_kernel_shape){.cluster = 4, .grid = {4}});
    ck_assert(seen.n == 1 && seen.cluster == 4 && !seen.is_dependent);
    launch(&(struct cushim_kernel_shape){.cluster = 4, .grid = {4}, .is_dependent = true});
    ck_assert(seen.n == 1 && seen.cluster == 4 && seen.is_dependent == is_on);
}

TEST(a_refused_launch_names_kernel_and_shape) {
    struct fixture_args args = {NULL, 0};
    fixture_force("90");
    fixture_context(0);
    const struct cushim_kernel_shape shape = {.grid = {1, 70000}, .block = {32}};
    ck_is(fixture_store_by(FIXTURE_LARGE, &shape, &args, NULL), CUSHIM_INVALID);
    ck_said("kernel=fixture_large grid=1,70000,1 block=32,1,1 shared_bytes=0");
}

TEST(clusters_are_counted_if_the_driver_can) {
    struct cushim_kernel_call call = begun("90");
    const struct cushim_kernel_shape shape = {.grid = {16}, .block = {128}, .cluster = 8};
    int n = -1;
    ck_ok(cushim_kernel_call_clusters(&call, FIXTURE_LARGE, &shape, &n));
    ck_assert_int_gt(n, 0);
    driver_loses(cuOccupancyMaxActiveClusters);
    ck_ok(cushim_kernel_call_clusters(&call, FIXTURE_LARGE, &shape, &n));
    ck_assert_int_eq(n, 0);
}

static CUresult refuse_16(int *n, CUfunction function, const CUlaunchConfig *config) {
    if (config->attrs[0].value.clusterDim.x <= CUSHIM_PORTABLE_CLUSTER)
        return SIM(cuOccupancyMaxActiveClusters)(n, function, config);
    *n = 7; /* what a failed call writes has no meaning */
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

TEST(a_cluster_size_that_the_driver_refuses_does_not_exist) {
    struct cushim_kernel_call call = begun("90");
    struct cushim_kernel_shape shape = {.grid = {16}, .block = {128}, .cluster = 16};
    bool has = true;
    int n = -1;
    atomic_store(&CUSHIM_DRIVER(cuOccupancyMaxActiveClusters), refuse_16);
    ck_ok(cushim_kernel_call_clusters(&call, FIXTURE_LARGE, &shape, &n));
    ck_assert_int_eq(n, 0);
    ck_ok(cushim_kernel_call_has_clusters(&call, FIXTURE_LARGE, &shape, &has));
    ck_assert(!has);
    shape.cluster = 8;
    ck_ok(cushim_kernel_call_has_clusters(&call, FIXTURE_LARGE, &shape, &has));
    ck_assert(has);
}

TEST(the_driver_is_asked_once_per_width_whether_a_kernel_has_clusters) {
    struct cushim_kernel_call call = begun("90");
    struct cushim_kernel_shape shape = {.grid = {16}, .block = {128}, .cluster = 8};
    bool has = false;
    SIM(sim_calls_reset)();
    for (int i = 0; i < 3; i++) {
        ck_ok(cushim_kernel_call_has_clusters(&call, FIXTURE_LARGE, &shape, &has));
        ck_assert(has);
    }
    ck_assert_uint_eq(SIM(sim_calls)("cuOccupancyMaxActiveClusters"), 1);
    driver_loses(cuOccupancyMaxActiveClusters);
    ck_ok(cushim_kernel_call_has_clusters(&call, FIXTURE_LARGE, &shape, &has));
    ck_assert(has);
    shape.cluster = 16;
    ck_ok(cushim_kernel_call_has_clusters(&call, FIXTURE_LARGE, &shape, &has));
    ck_assert(!has);
}

/* ---- references ---- */

TEST(a_reference_runs_in_its_turn_on_the_stream_with_copied_arguments) {
    fixture_force("cpu");
    fixture_context(0);
    CUstream stream = fixture_stream();
    uint32_t *word = fixture_word();
    SIM(sim_hold)();
    ck_ok(fixture_store(word, 3, stream));
    ck_assert_uint_eq(*word, 0); /* device memory is host memory here */
    SIM(sim_release_hold)();
    ck_assert_uint_eq(fixture_read(word), 3);
}

TEST(a_captured_reference_has_its_arguments_as_long_as_the_graph) {
    uint32_t zero = 0;
    fixture_force("cpu");
    fixture_context(0);
    CUstream stream = fixture_stream();
    uint32_t *word = fixture_word();
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    ck_ok(fixture_store(word, 4, stream));
    CUgraphExec executable = fixture_end_capture(stream);
    ck_assert_uint_eq(fixture_read(word), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(SIM(cuMemcpyHtoD_v2)((uintptr_t)word, &zero, sizeof zero), 0);
        fixture_replay(executable, stream);
        ck_assert_uint_eq(fixture_read(word), 4);
    }
    ck_assert_int_eq(SIM(cuGraphExecDestroy)(executable),
                     CUDA_SUCCESS); /* freed; memcheck sees it */
}

/* The driver would not name the device of a capturing stream, but its context. */
TEST(a_capture_stays_valid_with_two_devices, .n = 4) {
    bool is_reference = _i & 1, has_context = _i & 2;
    CUcontext context;
    fixture_force(is_reference ? "cpu" : "90");
    setenv("CUSHIM_SIM_DEVICES", "2", 1);
    fixture_context(1);
    uint32_t *word = fixture_word();
    CUstream stream = fixture_stream();
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    if (!has_context)
        ck_assert_int_eq(SIM(cuCtxPopCurrent_v2)(&context), 0);
    ck_ok(fixture_store(word, 5, stream));
    if (!has_context)
        ck_assert_int_eq(SIM(cuCtxPushCurrent_v2)(context), 0);
    fixture_replay(fixture_end_capture(stream), stream);
    ck_assert_uint_eq(fixture_read(word), 5);
}

/* On the first device, as in the CUDA runtime.  The software device takes no such code. */
TEST(kernels_are_loaded_before_there_is_a_context, .n = 2) {
    fixture_force("90");
    setenv("CUSHIM_SIM_DEVICES", _i ? "2" : "1", 1);
    ck_assert_int_eq(SIM(cuInit)(0), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_kernels_load(), CUSHIM_NOTSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "cuLibraryLoadData"));
}

/* Every driver call of a reference fails once; memcheck sees what is left. */
TEST(a_reference_that_cannot_be_queued_leaves_nothing) {
    fixture_force("cpu");
    fixture_context(0);
    ck_ok(cushim_driver_use("test"));
    CUstream stream = fixture_stream();
    uint32_t *word = fixture_word();
    for (unsigned captured = 0; captured < 2; captured++) {
        for (unsigned n = 1;; n++) {
            CUgraph graph = NULL;
            if (captured)
                ck_assert_int_eq(
                    SIM(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
            fail_at(n);
            bool is_over = fail_is_over(fixture_store(word, 1, stream));
            ck_ok(fixture_store(word, 2, stream));
            if (captured) {
                ck_assert_int_eq(SIM(cuStreamEndCapture)(stream, &graph), CUDA_SUCCESS);
                ck_assert_int_eq(SIM(cuGraphDestroy)(graph), CUDA_SUCCESS);
            }
            ck_assert_uint_eq(fixture_read(word), captured ? 0 : 2);
            if (is_over)
                break;
        }
        ck_assert_int_eq(SIM(cuMemsetD32_v2)((uintptr_t)word, 0, 1), CUDA_SUCCESS);
    }
    ck_assert_uint_eq(n_calls("cuUserObjectRelease"), 1); /* if the graph did not take it */
}

int main(void) {
    return tests_run("call");
}
