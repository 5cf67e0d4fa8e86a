#include "kernels/tests/dropin/dropin_fixture.h"

#include <math.h>
#include <string.h>

#include "cushim/kernels_ref.h"
#include "tests/unit/companion/core/sim_fixture.h"

cudaStream_t fixture_stream;
static uint64_t state = 88172645463325252;

void fixture_open(void) {
    CUcontext context;
    ck_assert_int_eq(SIM(cuInit)(0), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuStreamCreate)(&fixture_stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

struct buffer fixture_put(const void *bytes, size_t n_bytes) {
    CUdeviceptr device;
    struct buffer buffer = {.host = malloc(n_bytes), .n_bytes = n_bytes};
    ck_assert_ptr_nonnull(buffer.host);
    memcpy(buffer.host, bytes, n_bytes);
    ck_assert_int_eq(SIM(cuMemAlloc_v2)(&device, n_bytes), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuMemcpyHtoD_v2)(device, bytes, n_bytes), CUDA_SUCCESS);
    /* the copy may return before its end, for which fixture_stream does not wait */
    ck_assert_int_eq(SIM(cuCtxSynchronize)(), CUDA_SUCCESS);
    buffer.device = (void *)(uintptr_t)device;
    return buffer;
}

struct buffer fixture_room(size_t n_bytes) {
    void *bytes = malloc(n_bytes);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 0x5A, n_bytes);
    struct buffer buffer = fixture_put(bytes, n_bytes);
    free(bytes);
    return buffer;
}

struct buffer fixture_floats(size_t n, double low, double high) {
    float *floats = malloc(n * sizeof *floats);
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < n; i++)
        floats[i] = (float)(low + (high - low) * (double)(suite_random(&state) >> 11) * 0x1p-53);
    struct buffer buffer = fixture_put(floats, n * sizeof *floats);
    free(floats);
    return buffer;
}

struct buffer fixture_halves(size_t n) {
    struct buffer floats = fixture_floats(n, -2, 2);
    uint16_t *halves = malloc(n * sizeof *halves);
    ck_assert_ptr_nonnull(halves);
    cushim_convert_f32_f16_ref(floats.host, halves, (int64_t)n);
    struct buffer buffer = fixture_put(halves, n * sizeof *halves);
    free(halves);
    return buffer;
}

/* ---- comparing ---- */

static void *fetch(const struct buffer *buffer) {
    void *got = malloc(buffer->n_bytes);
    ck_assert_ptr_nonnull(got);
    ck_assert_int_eq(SIM(cuCtxSynchronize)(), CUDA_SUCCESS);
    ck_assert_int_eq(
        SIM(cuMemcpyDtoH_v2)(got, (CUdeviceptr)(uintptr_t)buffer->device, buffer->n_bytes),
        CUDA_SUCCESS);
    return got;
}

static void assert_near(const char *what, size_t i, double got, double want, double relative) {
    double allowed = relative * fmax(1, fabs(want));
    ck_assert_msg((isnan(got) && isnan(want)) || got == want || fabs(got - want) <= allowed,
                  "%s[%zu]: %.9g, should be %.9g", what, i, got, want);
}

void fixture_assert_doubles(const char *what, const struct buffer *buffer) {
    double *got = fetch(buffer);
    const double *want = buffer->host;
    for (size_t i = 0; i < buffer->n_bytes / sizeof *got; i++)
        assert_near(what, i, got[i], want[i], 1e-14);
    free(got);
}

void fixture_assert_floats(const char *what, const struct buffer *buffer) {
    float *got = fetch(buffer);
    const float *want = buffer->host;
    for (size_t i = 0; i < buffer->n_bytes / sizeof *got; i++)
        assert_near(what, i, (double)got[i], (double)want[i], 1e-5);
    free(got);
}

/* Elements of 16 bits, which `widen` makes floats. */
static void assert_small(const char *what, const struct buffer *buffer,
                         void (*widen)(const uint16_t *from, float *to, int64_t n),
                         double relative) {
    uint16_t *got = fetch(buffer);
    const uint16_t *want = buffer->host;
    for (size_t i = 0; i < buffer->n_bytes / sizeof *got; i++) {
        float a, b;
        widen(&got[i], &a, 1);
        widen(&want[i], &b, 1);
        assert_near(what, i, (double)a, (double)b, relative);
    }
    free(got);
}

void fixture_assert_halves(const char *what, const struct buffer *buffer) {
    assert_small(what, buffer, cushim_convert_f16_f32_ref, 2e-3);
}

void fixture_assert_bf16(const char *what, const struct buffer *buffer) {
    assert_small(what, buffer, cushim_convert_bf16_f32_ref, 8e-3);
}

void fixture_assert_bytes(const char *what, const struct buffer *buffer) {
    unsigned char *got = fetch(buffer);
    const unsigned char *want = buffer->host;
    for (size_t i = 0; i < buffer->n_bytes; i++)
        ck_assert_msg(got[i] == want[i], "%s: byte %zu is %u, should be %u", what, i, got[i],
                      want[i]);
    free(got);
}
