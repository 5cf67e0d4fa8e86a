/*
 * Green contexts: the pool of the primary context, which owns their memory, serves them
 * (docs/internals/memory-engine.md, "Exact frees").
 */
#include <dlfcn.h>

#include "tests/preload/fixture/fixture.h"

static CUcontext primary, green_context;
static CUgreenCtx green;

/* Create a green context of a device whose primary context is current. */
static void create_green(int device) {
    CUdevResource all, part;
    CUdevResourceDesc descriptor;
    unsigned n = 1;
    primary = fixture_use_device(device);
    OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 8));
    OK(cuDevResourceGenerateDesc(&descriptor, &part, 1));
    OK(cuGreenCtxCreate(&green, descriptor, device, CU_GREEN_CTX_DEFAULT_STREAM));
}

/* The same, and make it current. */
static void enter_green(int device) {
    create_green(device);
    OK(cuCtxFromGreenCtx(&green_context, green));
    OK(cuCtxSetCurrent(green_context));
}

static CUstream green_stream(void) {
    CUstream stream;
    OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

TEST(a_green_context_and_its_primary_share_their_blocks, .n = 2) {
    enter_green(_i);
    OK(cuCtxSetCurrent(primary));
    CUdeviceptr block = fixture_alloc(5 * MIB);
    OK(cuCtxSetCurrent(green_context));
    OK(cuMemFree(block));
    sim_calls_reset();
    CUdeviceptr again = fixture_alloc(5 * MIB);
    if (fixture_is_preloaded()) {
        ck_assert_uint_eq(again, block);
        ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 0);
    }
    fixture_fill(again, 7, 5 * MIB);
    OK(cuCtxSetCurrent(primary));
    ck_assert(fixture_is_filled(again, 7, 5 * MIB));
    OK(cuMemFree(again));
    ANSWERS(cuMemFree(again), CUDA_ERROR_INVALID_VALUE);
}

TEST(the_first_allocation_may_be_a_green_one, .n = 2) {
    CUcontext current;
    enter_green(_i);
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuCtxGetCurrent(&current));
    ck_assert_ptr_eq(current, green_context);
    OK(cuCtxSetCurrent(primary));
    OK(cuMemFree(block));
    sim_calls_reset();
    CUdeviceptr again = fixture_alloc(1000);
    ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), !fixture_is_preloaded());
    OK(cuMemFree(again));
}

TEST(memory_outlives_its_green_context, .n = 2) {
    enter_green(_i);
    CUdeviceptr block = fixture_alloc(1000);
    fixture_fill(block, 7, 1000);
    OK(cuCtxSetCurrent(primary));
    OK(cuGreenCtxDestroy(green));
    ck_assert(fixture_is_filled(block, 7, 1000));
    fixture_fill(block, 8, 1000);
    OK(cuMemFree(block));
    OK(cuMemFree(fixture_alloc(1000)));
}

TEST(a_free_waits_for_work_of_green_streams, .n = 2) {
    enter_green(_i);
    CUstream stream = green_stream();
    struct fixture_thread thread = {.context = primary, .address = fixture_alloc(1000)};
    CUdeviceptr other = fixture_alloc(100);
    sim_hold();
    fixture_launch_write(other, 5, stream);
    unsigned long n = sim_calls(fixture_wait_of_free());
    fixture_start(&thread, fixture_free_it);
    ck_assert(fixture_is_asleep(&thread, fixture_wait_of_free(), n));
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
    ck_assert_uint_eq(sim_pending(), 0);
}

static void do_nothing(void *unused) {
    (void)unused;
}

/* The program never asked for a CUcontext of the green context, so only its streams are seen. */
TEST(an_effect_on_a_green_stream_is_the_primarys, .n = 2) {
    create_green(_i);
    struct fixture_thread thread = {.context = primary, .address = fixture_alloc(1000)};
    CUstream stream = green_stream();
    OK(cuMemFree(fixture_alloc(1000))); /* a pool's first free waits in any case */
    sim_hold();
    OK(cuLaunchHostFunc(stream, do_nothing, NULL));
    unsigned long n = sim_calls(fixture_wait_of_free());
    fixture_start(&thread, fixture_free_it);
    ck_assert(fixture_is_asleep(&thread, fixture_wait_of_free(), n));
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
}

/* It covers only the green context's work.  The software device's covers more, so records are
 * counted. */
TEST(a_synchronise_of_a_green_context_proves_nothing_of_its_primary, .n = 2) {
    enter_green(_i);
    CUdeviceptr first = fixture_alloc(1000), second = fixture_alloc(1000);
    OK(cuMemFree(fixture_alloc(1000))); /* a pool's first free waits in any case */
    OK(cuLaunchHostFunc(green_stream(), do_nothing, NULL));
    OK(cuCtxSynchronize());
    sim_calls_reset();
    OK(cuMemFree(first));
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), 1);
    OK(cuMemFree(second));
}

/* The number of captures of a context that the preload knows; NULL without cushim. */
static int (*find_n_capturing(void))(CUcontext) {
    void *address = dlsym(RTLD_DEFAULT, "cushim_preload_capturing");
    ck_assert_int_eq(address != NULL, fixture_is_preloaded());
    return (int (*)(CUcontext))(uintptr_t)address;
}

TEST(a_capture_on_a_green_stream_is_the_primarys, .n = 2) {
    CUgraph graph;
    enter_green(_i);
    CUstream stream = green_stream();
    CUcontext other = fixture_use_device(!_i);
    int (*n_capturing)(CUcontext) = find_n_capturing();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (n_capturing) {
        ck_assert_int_eq(n_capturing(primary), 1);
        ck_assert_int_eq(n_capturing(green_context), 1);
        ck_assert_int_eq(n_capturing(other), 0);
    }
    OK(cuStreamEndCapture(stream, &graph));
}

TEST(a_reset_takes_the_green_contexts_along, .n = 2) {
    enter_green(_i);
    CUdeviceptr block = fixture_alloc(1000);
    int (*n_capturing)(CUcontext) = find_n_capturing();
    OK(cuStreamBeginCapture(green_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuDevicePrimaryCtxReset(_i));
    ck_assert_uint_eq(sim_live_bytes(), 0);
    ck_assert(!n_capturing || n_capturing(NULL) == 0);
    ck_assert_int_ne(cuMemFree(block), CUDA_SUCCESS);
    enter_green(_i);
    block = fixture_alloc(1000);
    fixture_fill(block, 7, 1000);
    OK(cuMemFree(block));
}

int main(void) {
    return fixture_run("green");
}
