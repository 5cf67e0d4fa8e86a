/*
 * No lock of ours is held while the driver blocks (interposition.md D7): one thread sleeps in the
 * driver behind held streams, and another one makes all calls that need not wait.
 */
#include <unistd.h>

#include "tests/preload/fixture/fixture.h"

static CUcontext context;
static CUdeviceptr miss, dedicated;

static void use_everything(void) {
    CUcontext other;
    CUgraph graph;
    size_t free_bytes, total_bytes;
    unsigned type;
    CUdeviceptr address;
    CUstream stream = fixture_stream();
    CUdeviceptr hit = fixture_alloc(1000);
    miss = fixture_alloc(7 * MIB);
    dedicated = fixture_alloc(300 * MIB);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, miss));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fixture_launch_write(hit, 1, stream);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuMemFreeAsync(hit, stream));
    OK(cuMemAllocAsync(&address, 1000, stream));
    OK(cuMemFreeAsync(address, stream));
    /* beyond its end, where another block may begin */
    ANSWERS(cuMemsetD8(dedicated + 300 * MIB - 1, 1, 2), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFree(dedicated + 512), CUDA_ERROR_INVALID_VALUE);
    /* another context is idle, so its frees and its end need not wait */
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuMemFree(fixture_alloc(1000)));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(context));
}

/* Did everything else go on while `thread` slept in `call`? */
static bool has_free_hands(struct fixture_thread *thread, const char *call, unsigned long n) {
    ck_assert(fixture_is_asleep(thread, call, n));
    use_everything();
    bool was_asleep = !atomic_load(&thread->is_done);
    sim_release_hold();
    fixture_join(thread);
    OK(thread->answer);
    ck_assert_uint_eq(sim_calls("cuCtxDestroy_v2") > 0, 1);
    OK(cuMemFree(miss));
    OK(cuMemFree(dedicated));
    return was_asleep;
}

static void check_free_hands(struct fixture_thread *thread, const char *call, unsigned long n) {
    ck_assert(has_free_hands(thread, call, n));
}

/* A kernel that does not begin. */
static CUdeviceptr hold_kernel(void) {
    context = fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr busy = fixture_alloc(100);
    sim_hold();
    fixture_launch_write(busy, 1, stream);
    return busy;
}

TEST(while_a_free_waits_others_go_on) {
    CUdeviceptr busy = hold_kernel();
    struct fixture_thread thread = {.context = context, .address = busy};
    unsigned long n = sim_calls(fixture_wait_of_free());
    fixture_start(&thread, fixture_free_it);
    check_free_hands(&thread, fixture_wait_of_free(), n);
}

TEST(while_a_free_waits_during_a_capture_others_go_on) {
    CUgraph graph;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    context = fixture_use_device(0);
    CUstream captured = fixture_stream();
    CUdeviceptr busy = hold_kernel();
    struct fixture_thread thread = {.context = context, .address = busy};
    OK(cuStreamBeginCapture(captured, mode));
    unsigned long n = sim_calls("cuMemFree_v2");
    fixture_start(&thread, fixture_free_it);
    ck_assert(fixture_is_asleep(&thread, "cuMemFree_v2", n));
    OK(cuStreamEndCapture(captured, &graph));
    check_free_hands(&thread, "cuMemFree_v2", n);
}

static void synchronise(struct fixture_thread *thread) {
    thread->answer = cuCtxSynchronize();
}

TEST(while_a_synchronise_waits_others_go_on) {
    hold_kernel();
    struct fixture_thread thread = {.context = context};
    unsigned long n = sim_calls("cuCtxSynchronize");
    fixture_start(&thread, synchronise);
    check_free_hands(&thread, "cuCtxSynchronize", n);
}

static void copy_to_host(struct fixture_thread *thread) {
    unsigned value;
    thread->answer = cuMemcpyDtoH(&value, thread->address, sizeof value);
}

TEST(while_a_copy_waits_others_go_on) {
    context = fixture_use_device(0);
    CUdeviceptr busy = fixture_alloc(100);
    sim_hold();
    fixture_launch_write(busy, 1, NULL);
    struct fixture_thread thread = {.context = context, .address = busy};
    unsigned long n = sim_calls("cuMemcpyDtoH_v2");
    fixture_start(&thread, copy_to_host);
    check_free_hands(&thread, "cuMemcpyDtoH_v2", n);
}

/* Ask for more than the device has.  Held memory would go back, after a wait for the device. */
static void ask_too_much(struct fixture_thread *thread) {
    size_t free_bytes, total_bytes;
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    CUresult answer = cuMemAlloc(&thread->address, 2 * total_bytes);
    thread->answer = answer == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/*
 * This wait ends after two seconds, and a busy machine may take longer for everything else.  Then
 * try again after another two seconds, because no thread waits again before that.  If everything
 * else waits for it, no try succeeds.
 */
TEST(while_held_memory_goes_back_others_go_on) {
    enum { TRIES = 5 };
    bool has_gone_on = !fixture_is_preloaded();
    for (int i = 0; i < TRIES && !has_gone_on; i++) {
        context = fixture_use_device(0);
        /* so that the kernel's block shares no segment with memory that goes back */
        OK(cuMemFree(fixture_alloc(100)));
        OK(cuMemFree(fixture_alloc(20 * MIB)));
        hold_kernel();
        struct fixture_thread thread = {.context = context};
        unsigned long n = sim_calls("cuEventQuery");
        fixture_start(&thread, ask_too_much);
        has_gone_on = has_free_hands(&thread, "cuEventQuery", n);
        if (!has_gone_on)
            sleep(3);
    }
    ck_assert(has_gone_on);
}

static void destroy_context(struct fixture_thread *thread) {
    CUcontext doomed = NULL;
    OK(cuCtxGetCurrent(&doomed));
    thread->answer = cuCtxDestroy(doomed);
}

TEST(while_a_context_ends_others_go_on) {
    CUcontext doomed;
    OK(cuInit(0));
    OK(cuCtxCreate(&doomed, NULL, 0, 0));
    struct fixture_thread thread = {.context = doomed};
    CUdeviceptr busy = fixture_alloc(100);
    CUstream stream = fixture_stream();
    sim_hold();
    fixture_launch_write(busy, 1, stream);
    context = fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(100)));
    unsigned long n = sim_calls("cuCtxDestroy_v2");
    fixture_start(&thread, destroy_context);
    check_free_hands(&thread, "cuCtxDestroy_v2", n);
}

int main(void) {
    return fixture_run("locks");
}
