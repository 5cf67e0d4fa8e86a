/*
 * libkernels.so as its callers use it: opened by name, on threads without a context, with and
 * without a driver, with empty sizes; and the numbers that it returns.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "kernels/tests/dropin/dropin_fixture.h"
#include "tests/unit/companion/core/sim_fixture.h"

enum { N = 100 };

static float x[N]; /* an address that calls with nothing to do never read */

/* ---- opened by name, as by programs that link nothing ---- */

typedef int add_fn(const float *, const float *, float *, int, cudaStream_t);

static add_fn *opened(void) {
    add_fn *add;
    void *library = dlopen(getenv("CUSHIM_TEST_LIBKERNELS"), RTLD_LAZY | RTLD_GLOBAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    void *address = dlsym(library, "launch_add");
    ck_assert_ptr_nonnull(address);
    memcpy(&add, &address, sizeof add);
    return add;
}

TEST(without_a_driver_it_opens_and_answers_35) {
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    add_fn *add = opened();
    ck_assert_int_eq(add(x, x, x, N, NULL), 35);
    ck_assert_int_eq(add(x, x, x, 0, NULL), 0);
    ck_assert_int_eq(add(x, x, x, -1, NULL), 1);
    ck_assert_int_eq(add(NULL, x, x, N, NULL), 1);
    const int one[] = {1}, zero[] = {0};
    ck_assert_int_eq(launch_transpose_nd(x, x, one, one, zero, 1, N, NULL), 35);
}

TEST(a_driver_without_a_device_answers_100) {
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    ck_assert_int_eq(opened()(x, x, x, N, NULL), 100);
}

/* ---- contexts ---- */

/* A sum of ones on a stream; the buffers belong to device 0. */
static struct buffer ones, sum;

static void open_ones(void) {
    float one[N];
    fixture_open();
    for (int i = 0; i < N; i++)
        one[i] = 1;
    ones = fixture_put(one, sizeof one);
    sum = fixture_room(sizeof one);
    for (int i = 0; i < N; i++)
        ((float *)sum.host)[i] = 2;
}

struct call {
    cudaStream_t stream;
    int error;
    CUcontext before, after;
};

static void *call_on_thread(void *data) {
    struct call *call = data;
    call->before = sim_current();
    call->error = launch_add(ones.device, ones.device, sum.device, N, call->stream);
    call->after = sim_current();
    return NULL;
}

static struct call on_another_thread(cudaStream_t stream) {
    struct call call = {.stream = stream};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_on_thread, &call), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_ptr_null(call.before);
    ck_assert_ptr_null(call.after);
    return call;
}

TEST(a_stream_brings_its_context_to_any_thread) {
    open_ones();
    ck_assert_int_eq(on_another_thread(fixture_stream).error, 0);
    fixture_assert_bytes("sum", &sum);
}

TEST(the_NULL_stream_without_a_context_is_device_0_s) {
    open_ones();
    ck_assert_int_eq(on_another_thread(NULL).error, 0);
    fixture_assert_bytes("sum", &sum);
    ck_assert_int_eq(on_another_thread(CU_STREAM_LEGACY).error, 0);
    ck_assert_int_eq(on_another_thread(CU_STREAM_PER_THREAD).error, 0);
}

/*
 * On a thread without a context the software device answers, but a driver may not.  The list of
 * calls since `first` says whether a context was pushed.
 */
static void assert_asked_in_a_context(unsigned long first) {
    const char *(*name_of_call)(unsigned long);
    const char *name;
    int n_pushed = 0, n_asked = 0;
    sim_find("sim_call_name", &name_of_call);
    for (unsigned long i = first; (name = name_of_call(i)); i++) {
        n_pushed += !strcmp(name, "cuCtxPushCurrent_v2") - !strcmp(name, "cuCtxPopCurrent_v2");
        if (!strcmp(name, "cuPointerGetAttribute")) {
            n_asked++;
            ck_assert_int_eq(n_pushed, 1);
        }
    }
    ck_assert_int_gt(n_asked, 0);
    ck_assert_int_eq(n_pushed, 0);
}

TEST(transposes_find_their_strides_without_a_context) {
    unsigned long (*n_calls)(void);
    sim_find("sim_calls_total", &n_calls);
    open_ones();
    CUcontext context = sim_current();
    cudaStream_t streams[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, fixture_stream};
    struct buffer stride = fixture_put((int[]){1}, sizeof(int)),
                  zero = fixture_put((int[]){0}, sizeof(int));
    for (unsigned i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct buffer y = fixture_room(sum.n_bytes);
        memcpy(y.host, ones.host, y.n_bytes);
        ck_assert_int_eq(SIM(cuCtxSetCurrent)(NULL), CUDA_SUCCESS);
        unsigned long first = n_calls();
        ck_done(launch_transpose_nd(ones.device, y.device, stride.device, stride.device,
                                    zero.device, 1, N, streams[i]));
        assert_asked_in_a_context(first);
        ck_assert_ptr_null(sim_current());
        ck_assert_int_eq(SIM(cuCtxSetCurrent)(context), CUDA_SUCCESS);
        fixture_assert_bytes("launch_transpose_nd", &y);
    }
}

/* Nothing else retained it, so the library makes it, and makes it again after a reset. */
TEST(a_primary_context_is_made_and_after_a_reset_made_again) {
    CUcontext context = NULL;
    CUdeviceptr memory;
    ck_assert_int_eq(SIM(cuInit)(0), CUDA_SUCCESS);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(launch_fill((float *)x, 0, 0, NULL), 0);
        ck_assert_ptr_null(sim_current());
        ck_assert_int_eq(SIM(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
        ck_assert_int_eq(SIM(cuCtxPushCurrent_v2)(context), CUDA_SUCCESS);
        ck_assert_int_eq(SIM(cuMemAlloc_v2)(&memory, 4 * N), CUDA_SUCCESS);
        ck_assert_int_eq(SIM(cuCtxPopCurrent_v2)(&context), CUDA_SUCCESS);
        ck_done(launch_fill((float *)(uintptr_t)memory, bits_of(3), N, NULL));
        ck_assert_ptr_null(sim_current());
        ck_assert_int_eq(SIM(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    }
}

/* ---- another device's context stays the current one ---- */

TEST(a_current_context_is_left_alone) {
    CUcontext other;
    open_ones();
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRetain)(&other, 1), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuCtxSetCurrent)(other), CUDA_SUCCESS);
    struct buffer there = fixture_floats(N, -1, 1), twice = fixture_room(N * sizeof(float));
    ck_done(launch_add(there.device, there.device, twice.device, N, NULL));
    ck_assert_ptr_eq(sim_current(), other);
    for (int i = 0; i < N; i++)
        ((float *)twice.host)[i] = 2 * ((float *)there.host)[i];
    fixture_assert_bytes("twice", &twice);
}

/* ---- numbers ---- */

TEST(a_wrong_argument_is_error_1) {
    open_ones();
    ck_assert_int_eq(launch_add(ones.device, ones.device, NULL, N, fixture_stream), 1);
    ck_assert_int_eq(
        launch_add((float *)((char *)ones.device + 1), ones.device, sum.device, N, fixture_stream),
        1);
    ck_assert_int_eq(gemv_q4k_f32(ones.device, ones.device, sum.device, 1, 300, fixture_stream), 1);
    ck_assert_int_eq(launch_softmax(ones.device, sum.device, -1, 1, 1, fixture_stream), 1);
}

static int error_when_the_driver_says(CUresult result) {
    void (*fail_at)(unsigned long, CUresult);
    sim_find("sim_fail_at", &fail_at);
    ck_done(launch_add(ones.device, ones.device, sum.device, N, fixture_stream));
    for (unsigned long n = 1;; n++) {
        fail_at(n, result);
        int error = launch_add(ones.device, ones.device, sum.device, N, fixture_stream);
        fail_at(0, CUDA_SUCCESS);
        if (error)
            return error; /* a second call does not make some of the driver calls */
        ck_assert_uint_lt(n, 20);
    }
}

TEST(the_driver_s_numbers_are_kept) {
    open_ones();
    ck_assert_int_eq(error_when_the_driver_says(CUDA_ERROR_OUT_OF_MEMORY), 2);
    ck_assert_int_eq(error_when_the_driver_says(CUDA_ERROR_INVALID_CONTEXT), 201);
    ck_assert_int_eq(error_when_the_driver_says(CUDA_ERROR_ILLEGAL_ADDRESS), 700);
    ck_assert_int_eq(error_when_the_driver_says(CUDA_ERROR_NOT_SUPPORTED), 801);
    ck_assert_int_eq(error_when_the_driver_says(CUDA_ERROR_CONTEXT_ALREADY_CURRENT), 999);
    ck_assert_int_eq(error_when_the_driver_says((CUresult)916), 999);
    ck_assert_int_eq(launch_add(ones.device, ones.device, NULL, N, fixture_stream), 1);
    fixture_assert_bytes("sum", &sum);
}

TEST(a_call_without_an_element_succeeds) {
    open_ones();
    void *p = NULL;
    ck_done(launch_add(p, p, p, 0, NULL));
    ck_done(launch_pow_scalar(p, 0, p, 0, NULL));
    ck_done(launch_fill(p, 0, 0, NULL));
    ck_done(launch_add_fp16(p, p, p, 0, NULL));
    ck_done(dropout_f32(p, p, 0, 0, 0, 1, 0, NULL));
    ck_done(fused_adamw_f32(p, p, p, p, 0, 0, 0, 0, 0, 0, 0, 0, NULL));
    ck_done(launch_add_broadcast(p, p, p, 0, 0, 0, 0, 0, 7, NULL));
    ck_done(launch_mul_broadcast4d(p, p, p, 3, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, NULL));
    ck_done(launch_f32_to_fp16(p, p, 0, NULL));
    ck_done(launch_fp8_add(p, p, p, 0, 0, 0, NULL));
    ck_done(launch_softmax(p, p, 0, 3, 4, NULL));
    ck_done(launch_scaled_softmax_fp16(p, p, 3, 0, 4, 0, NULL));
    ck_done(launch_rmsnorm(p, p, p, p, 0, 0, 64, NULL));
    ck_done(launch_fp8_rmsnorm(p, p, p, 0, 0, 0, 64, NULL));
    ck_done(fused_rope_f32(p, p, p, p, 0, 3, 8, 4, 4, NULL));
    ck_done(launch_sum_axis(p, p, 0, 3, 4, NULL));
    ck_done(launch_argmax(p, p, p, 0, NULL));
    ck_done(launch_gather(p, p, p, 0, 3, 4, NULL));
    ck_done(launch_repeat(p, p, 3, 4, 5, 0, NULL));
    ck_done(launch_transpose_2d(p, p, 0, 4, NULL));
    ck_done(launch_transpose_nd(p, p, p, p, p, 3, 0, NULL));
    ck_done(gemm_q4_f32(p, p, p, 0, 32, 3, 0, NULL));
    ck_done(gemv_q4k_f32(p, p, p, 0, 256, NULL));
    ck_done(launch_sgemv_m1(p, p, p, 0, 5, NULL));
    ck_done(flash_attention_forward_f32(p, p, p, p, 0, 2, 3, 4, 0, NULL));
    ck_done(launch_offset_memcpy(p, p, p, 0, 4, NULL));
    ck_done(launch_rope_select(p, p, p, p, p, 0, NULL));
}

int main(void) {
    return tests_run("dropin_calls");
}
