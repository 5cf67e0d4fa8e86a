/*
 * libkernels.so: functions of single elements, each compared with its reference or with this
 * interface's own rule.
 */
#include <math.h>
#include <string.h>

#include "cushim/kernels_ref.h"
#include "kernels/tests/dropin/dropin_fixture.h"

enum { N = 1003 };
enum { BYTES = N * sizeof(float), HALF_BYTES = N * sizeof(uint16_t) };

static struct buffer a, b, c;

static void open_floats(double low, double high) {
    fixture_open();
    a = fixture_floats(N, low, high);
    b = fixture_floats(N, low, high);
    c = fixture_room(BYTES);
}

#define ck_binary(function, reference)                                                             \
    do {                                                                                           \
        ck_done(function(a.device, b.device, c.device, N, fixture_stream));                        \
        reference(a.host, b.host, c.host, N);                                                      \
        fixture_assert_floats(#function, &c);                                                      \
    } while (0)

TEST(operations_of_two_match_their_references) {
    open_floats(0.5, 3);
    ck_binary(launch_add, cushim_add_f32_ref);
    ck_binary(launch_sub, cushim_sub_f32_ref);
    ck_binary(launch_mul, cushim_mul_f32_ref);
    ck_binary(launch_div, cushim_div_f32_ref);
    ck_binary(launch_pow, cushim_pow_f32_ref);
    ck_binary(launch_tanh_prime, cushim_tanh_prime_f32_ref);
    ck_binary(fused_swiglu_f32, cushim_swiglu_f32_ref);
}

#define ck_scalar(function, reference)                                                             \
    do {                                                                                           \
        ck_done(function(a.device, bits_of(-2.75f), c.device, N, fixture_stream));                 \
        reference(a.host, c.host, -2.75f, N);                                                      \
        fixture_assert_floats(#function, &c);                                                      \
    } while (0)

TEST(operations_with_a_scalar_match_their_references) {
    open_floats(0.5, 3);
    ck_scalar(launch_add_scalar, cushim_add_scalar_f32_ref);
    ck_scalar(launch_sub_scalar, cushim_sub_scalar_f32_ref);
    ck_scalar(launch_mul_scalar, cushim_mul_scalar_f32_ref);
    ck_scalar(launch_div_scalar, cushim_div_scalar_f32_ref);
}

TEST(a_power_is_of_the_magnitude) {
    static const float exponents[] = {3, 2, 0.5f, -1, 1, 0, 2.5f, -0.5f};
    open_floats(-3, 3);
    float *base = a.host, *want = c.host;
    for (unsigned e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        ck_done(launch_pow_scalar(a.device, bits_of(exponents[e]), c.device, N, fixture_stream));
        for (int i = 0; i < N; i++)
            want[i] = (float)pow(fabs((double)base[i]), (double)exponents[e]);
        fixture_assert_floats("launch_pow_scalar", &c);
    }
}

#define ck_unary(function, reference)                                                              \
    do {                                                                                           \
        ck_done(function(a.device, c.device, N, fixture_stream));                                  \
        reference(a.host, c.host, N);                                                              \
        fixture_assert_floats(#function, &c);                                                      \
    } while (0)

TEST(functions_match_their_references) {
    open_floats(0.01, 4);
    ck_unary(launch_exp, cushim_exp_f32_ref);
    ck_unary(launch_log, cushim_log_f32_ref);
    ck_unary(launch_sqrt, cushim_sqrt_f32_ref);
    ck_unary(launch_rsqrt, cushim_rsqrt_f32_ref);
    ck_unary(launch_sin, cushim_sin_f32_ref);
    ck_unary(launch_cos, cushim_cos_f32_ref);
    ck_unary(launch_tanh, cushim_tanh_f32_ref);
}

TEST(a_fill_keeps_the_bits) {
    open_floats(0, 1);
    uint32_t *want = c.host;
    for (int i = 0; i < N; i++)
        want[i] = 0x7F812345; /* a NaN with a payload */
    ck_done(launch_fill(c.device, 0x7F812345, N, fixture_stream));
    fixture_assert_bytes("launch_fill", &c);
}

#define ck_half(function, reference)                                                               \
    do {                                                                                           \
        ck_done(function(x.device, y.device, z.device, N, fixture_stream));                        \
        reference(x.host, y.host, z.host, N);                                                      \
        fixture_assert_bytes(#function, &z);                                                       \
    } while (0)

TEST(operations_of_halves_match_their_references) {
    fixture_open();
    struct buffer x = fixture_halves(N), y = fixture_halves(N), z = fixture_room(HALF_BYTES);
    ck_half(launch_add_fp16, cushim_add_f16_ref);
    ck_half(launch_sub_fp16, cushim_sub_f16_ref);
    ck_half(launch_mul_fp16, cushim_mul_f16_ref);
    ck_half(launch_div_fp16, cushim_div_f16_ref);
}

TEST(dropout_drops_only_while_training) {
    const uint64_t key = 0x123456789ABCDEF0;
    open_floats(0.5, 1);
    ck_done(dropout_f32(a.device, c.device, N, bits_of(0.3f), key, 1, bits_of(1 / 0.7f),
                        fixture_stream));
    cushim_dropout_f32_ref(a.host, c.host, 0.3f, 1 / 0.7f, key, N);
    fixture_assert_bytes("dropout_f32", &c);
    int n_dropped = 0;
    for (int i = 0; i < N; i++)
        n_dropped += ((float *)c.host)[i] == 0;
    ck_assert(n_dropped > N / 5 && n_dropped < N / 2);
    ck_done(dropout_f32(a.device, c.device, N, bits_of(0.3f), key, 0, bits_of(1 / 0.7f),
                        fixture_stream));
    memcpy(c.host, a.host, BYTES);
    fixture_assert_bytes("dropout_f32, not training", &c);
}

TEST(a_step_of_adamw_matches_its_reference) {
    open_floats(-1, 1);
    struct buffer m = fixture_floats(N, -1, 1);
    double second[N];
    for (int i = 0; i < N; i++)
        second[i] = 0.01 + i * 1e-4;
    struct buffer v = fixture_put(second, sizeof second);
    ck_done(fused_adamw_f32(a.device, m.device, v.device, b.device, bits_of_double(0.9),
                            bits_of_double(0.98), bits_of_double(0.1), bits_of_double(0.02),
                            bits_of_double(1e-8), bits_of_double(0.003), bits_of_double(0.0004), N,
                            fixture_stream));
    cushim_adamw_f32_ref(a.host, m.host, v.host, b.host, 0.9, 0.98, 0.1, 0.02, 1e-8, 0.003, 0.0004,
                         N);
    fixture_assert_floats("param", &a);
    fixture_assert_floats("m", &m);
    fixture_assert_floats("grad", &b);
    fixture_assert_doubles("v", &v);
}

/* ---- broadcast ---- */

#define ck_broadcast(op)                                                                           \
    do {                                                                                           \
        ck_done(launch_##op##_broadcast(a.device, b.device, c.device, 40, 2, 1, 17, 17, 19,        \
                                        fixture_stream));                                          \
        cushim_##op##_broadcast2d_f32_ref(a.host, b.host, c.host, 40, 2, 1, 17, 17, 19);           \
        fixture_assert_floats(#op "_broadcast", &c);                                               \
        ck_done(launch_##op##_broadcast4d(a.device, b.device, c.device, 2, 3, 5, 7, 105, 0, 7, 1,  \
                                          0, 41, 1, 5, fixture_stream));                           \
        cushim_##op##_broadcast4d_f32_ref(a.host, b.host, c.host, (int64_t[]){2, 3, 5, 7},         \
                                          (int64_t[]){105, 0, 7, 1}, (int64_t[]){0, 41, 1, 5});    \
        fixture_assert_floats(#op "_broadcast4d", &c);                                             \
    } while (0)

TEST(broadcasts_match_their_references) {
    open_floats(0.5, 2);
    ck_broadcast(add);
    ck_broadcast(sub);
    ck_broadcast(mul);
    ck_broadcast(div);
}

/* ---- convert: every code is finite ---- */

static float value_of_code(int code) {
    int exponent = code >> 3 & 15, fraction = code & 7;
    float size =
        exponent ? ldexpf(8 + (float)fraction, exponent - 10) : ldexpf((float)fraction, -9);
    return code & 0x80 ? -size : size;
}

TEST(every_code_of_e4m3_is_finite) {
    uint8_t codes[256], others[256];
    float want[256];
    fixture_open();
    for (int i = 0; i < 256; i++) {
        codes[i] = (uint8_t)i;
        others[i] = (uint8_t)(i * 7 + 3);
    }
    struct buffer x = fixture_put(codes, 256), y = fixture_put(others, 256), z = fixture_room(512);
    ck_done(
        launch_dequant_fp8e4m3_to_fp16(x.device, z.device, bits_of(0.75f), 256, fixture_stream));
    for (int i = 0; i < 256; i++)
        want[i] = value_of_code(i) * 0.75f;
    cushim_convert_f32_f16_ref(want, z.host, 256);
    fixture_assert_bytes("launch_dequant_fp8e4m3_to_fp16", &z);
    ck_assert(want[0x7F] == 360 && want[0xFF] == -360);
    ck_done(launch_fp8_add(x.device, y.device, z.device, bits_of(0.75f), bits_of(3), 256,
                           fixture_stream));
    for (int i = 0; i < 256; i++)
        want[i] = value_of_code(i) * 0.75f + value_of_code(others[i]) * 3;
    cushim_convert_f32_f16_ref(want, z.host, 256);
    fixture_assert_bytes("launch_fp8_add", &z);
    ck_done(launch_fp8_mul(x.device, y.device, z.device, bits_of(0.75f), bits_of(3), 256,
                           fixture_stream));
    for (int i = 0; i < 256; i++)
        want[i] = (value_of_code(i) * 0.75f) * (value_of_code(others[i]) * 3);
    cushim_convert_f32_f16_ref(want, z.host, 256);
    fixture_assert_bytes("launch_fp8_mul", &z);
}

TEST(conversions_match_their_references) {
    open_floats(-70000, 70000);
    struct buffer x = fixture_halves(N), z = fixture_room(HALF_BYTES);
    ck_done(launch_f32_to_fp16(a.device, z.device, N, fixture_stream));
    cushim_convert_f32_f16_ref(a.host, z.host, N);
    fixture_assert_bytes("launch_f32_to_fp16", &z);
    ck_done(launch_fp16_to_f32(x.device, c.device, N, fixture_stream));
    cushim_convert_f16_f32_ref(x.host, c.host, N);
    fixture_assert_bytes("launch_fp16_to_f32", &c);
}

int main(void) {
    return tests_run("dropin_elements");
}
