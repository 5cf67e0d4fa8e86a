/* Elementwise kernels: arithmetic on float and half, with two operands and with a number; fill. */
#include "kernels/tests/cases/cases_bf16.h"
#include "kernels/tests/cases/cases_elementwise.h"

#include <math.h>
#include <string.h>

enum { A, B, C };

/* ---- a op b ---- */

static void lay_out_two(struct kernel_case *c, enum kernel_type type, kernel_make *make) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", type, ROLE_IN, n)->make = make;
    case_operand(c, "b", type, ROLE_IN, n)->make = make;
    case_operand(c, "c", type, ROLE_OUT, n);
}

static void lay_out_f32(struct kernel_case *c) {
    lay_out_two(c, TYPE_F32, make_special_f32);
}

static void lay_out_f16(struct kernel_case *c) {
    lay_out_two(c, TYPE_F16, make_special_f16);
}

#define BINARY(name_, lay_out_, ...)                                                               \
    static enum cushim_status run_##name_(const struct kernel_case *c,                             \
                                          struct CUstream_st *stream) {                            \
        return cushim_##name_(c->device[A], c->device[B], c->device[C], c->sizes[0], stream);      \
    }                                                                                              \
    static void ref_##name_(const struct kernel_case *c) {                                         \
        cushim_##name_##_ref(c->host[A], c->host[B], c->host[C], c->sizes[0]);                     \
    }                                                                                              \
    static const struct kernel_subject name_ = {.name = #name_,                                    \
                                                .n_sizes = 1,                                      \
                                                .lay_out = lay_out_,                               \
                                                .run = run_##name_,                                \
                                                .ref = ref_##name_,                                \
                                                .tolerance = {__VA_ARGS__}};

BINARY(add_f32, lay_out_f32, 0)
BINARY(sub_f32, lay_out_f32, 0)
BINARY(mul_f32, lay_out_f32, 0)
BINARY(div_f32, lay_out_f32, 0)
BINARY(add_f16, lay_out_f16, 0)
BINARY(sub_f16, lay_out_f16, 0)
BINARY(mul_f16, lay_out_f16, 0)
BINARY(div_f16, lay_out_f16, 0)

/*
 * Special bases, but no signalling NaN: IEEE 754 does not define its power 0, and the host's powf
 * and the device's differ.
 */
static void make_bases(struct kernel_draw *draw, void *values, size_t n) {
    make_special_f32(draw, values, n);
    for (size_t i = 0; i < n; i++) {
        if (isnan(((float *)values)[i]))
            value_set(TYPE_F32, values, i, NAN);
    }
}

/* Exponents that matter to negative bases: integers of both parities, halves, any. */
static void make_exponents(struct kernel_draw *draw, void *values, size_t n) {
    make_bases(draw, values, n);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = draw_bits(draw);
        if (bits % 2 == 0)
            value_set(TYPE_F32, values, i, ((double)(bits >> 8 & 63) - 32) / (bits & 2 ? 2 : 1));
    }
}

static void lay_out_pow(struct kernel_case *c) {
    lay_out_two(c, TYPE_F32, make_bases);
    c->operands[B].make = make_exponents;
}

/* The error documented for powf is 4 ULP. */
BINARY(pow_f32, lay_out_pow, .ulps = 5)

/* ---- a op s ---- */

static void lay_out_one(struct kernel_case *c, kernel_make *make) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", TYPE_F32, ROLE_IN, n)->make = make;
    case_operand(c, "c", TYPE_F32, ROLE_OUT, n);
}

static void lay_out_scalar(struct kernel_case *c) {
    lay_out_one(c, make_special_f32);
}

static void lay_out_power(struct kernel_case *c) {
    lay_out_one(c, make_bases);
}

#define SCALAR(subject_, function, lay_out_, ...)                                                  \
    static enum cushim_status run_##subject_(const struct kernel_case *c,                          \
                                             struct CUstream_st *stream) {                         \
        return cushim_##function(c->device[0], c->device[1], (float)c->scalars[0], c->sizes[0],    \
                                 stream);                                                          \
    }                                                                                              \
    static void ref_##subject_(const struct kernel_case *c) {                                      \
        cushim_##function##_ref(c->host[0], c->host[1], (float)c->scalars[0], c->sizes[0]);        \
    }                                                                                              \
    static const struct kernel_subject subject_ = {.name = #subject_,                              \
                                                   .n_sizes = 1,                                   \
                                                   .n_scalars = 1,                                 \
                                                   .lay_out = lay_out_,                            \
                                                   .run = run_##subject_,                          \
                                                   .ref = ref_##subject_,                          \
                                                   .tolerance = {__VA_ARGS__}};

SCALAR(add_scalar_f32, add_scalar_f32, lay_out_scalar, 0)
SCALAR(sub_scalar_f32, sub_scalar_f32, lay_out_scalar, 0)
SCALAR(mul_scalar_f32, mul_scalar_f32, lay_out_scalar, 0)
SCALAR(div_scalar_f32, div_scalar_f32, lay_out_scalar, 0)
SCALAR(pow_scalar_f32, pow_scalar_f32, lay_out_power, .ulps = 5)
SCALAR(pow_scalar_f32_bits, pow_scalar_f32, lay_out_power, 0)

/*
 * ---- fill: a pattern of 32 bits, as an integer, because a NaN could come back from any float ----
 */

static float float_of(double bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void lay_out_fill(struct kernel_case *c) {
    case_operand(c, "dst", TYPE_I32, ROLE_OUT, (size_t)c->sizes[0]);
}

static enum cushim_status run_fill(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_fill_f32(c->device[0], float_of(c->scalars[0]), c->sizes[0], stream);
}

static void ref_fill(const struct kernel_case *c) {
    cushim_fill_f32_ref(c->host[0], float_of(c->scalars[0]), c->sizes[0]);
}

static const struct kernel_subject fill_f32 = {.name = "fill_f32",
                                               .n_sizes = 1,
                                               .n_scalars = 1,
                                               .lay_out = lay_out_fill,
                                               .run = run_fill,
                                               .ref = ref_fill};

/* ---- the cases ---- */

void add_sizes(struct kernel_table *table, const struct kernel_subject *subject, int64_t most,
               const double *scalars) {
    for (int i = 0; i < n_edge_sizes; i++) {
        if (edge_sizes[i] <= most)
            table_add(table, subject, NULL, &edge_sizes[i], scalars);
    }
    table_add_offsets(table, table_add(table, subject, NULL, (int64_t[]){1000}, scalars));
    table_add(table, subject, NULL, (int64_t[]){70003}, scalars);
}

void add_steps(struct kernel_table *table, const struct kernel_subject *subject,
               const double *scalars) {
    const int64_t n = 2200003;
    table_add(table, subject, "many steps per thread", &n, scalars);
    table_add(table, subject, "many steps per thread", &n, scalars)->operands[0].offset = 4;
}

void add_in_place(struct kernel_table *table, const struct kernel_subject *subject, int out, int in,
                  const double *scalars) {
    const int64_t n = 4099;
    table_add(table, subject, "in place", &n, scalars)->operands[out].in_place_of = 1 + in;
}

static void cases_of_two(struct kernel_table *table) {
    const struct kernel_subject *subjects[] = {&add_f32, &sub_f32, &mul_f32, &div_f32, &pow_f32,
                                               &add_f16, &sub_f16, &mul_f16, &div_f16};
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        bool is_large = subjects[s] == &add_f32 || subjects[s] == &add_f16;
        add_sizes(table, subjects[s], is_large ? INT64_MAX : ORDINARY_MOST, NULL);
        add_in_place(table, subjects[s], C, A, NULL);
        add_in_place(table, subjects[s], C, B, NULL);
    }
    add_steps(table, &add_f32, NULL);
    add_steps(table, &pow_f32, NULL);
    table_add(table, &add_f16, "many steps per thread", (int64_t[]){4400005}, NULL);
}

static void cases_of_scalars(struct kernel_table *table) {
    const struct kernel_subject *subjects[] = {&add_scalar_f32, &sub_scalar_f32, &mul_scalar_f32,
                                               &div_scalar_f32};
    const double scalars[] = {0.0,      -0.0, 3.0,           -0.1f,    0x1p-140, -0x1p127,
                              INFINITY, NAN,  0x1.fffffep0f, 0x1p-60f, 0x1p60f,  0x1p61f};
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        add_sizes(table, subjects[s], ORDINARY_MOST, &scalars[3]);
        add_in_place(table, subjects[s], 1, 0, &scalars[2]);
        for (unsigned i = 0; i < sizeof scalars / sizeof *scalars; i++)
            table_add(table, subjects[s], NULL, (int64_t[]){2050}, &scalars[i]);
    }
}

/*
 * Every shortcut, and of the others even, odd, fractional, distant exponents and NaN, on both sides
 * of 4 and of 64.
 */
static void cases_of_powers(struct kernel_table *table) {
    static const double powers[] = {
        3,    -1,    0.5,     -0.5,      0.0,      -0.0,      4,    5,        -2,
        -3,   1.5,   -1.5,    1.f / 3,   0x1p-30,  127,       -128, 0x1p24,   16777215,
        1e10, -1e10, 8388609, 8388607.5, INFINITY, -INFINITY, NAN,  0x1p-149, 0x1p-110,
        63.5, -64,   61,      65,        -4,       -3.99f,    3.5,  1.7f,     0x1.000002p2f};
    static const double exact[] = {1, 2}, light = -3.99f, moderate = -61.5;
    for (unsigned i = 0; i < sizeof powers / sizeof *powers; i++)
        table_add(table, &pow_scalar_f32, NULL, (int64_t[]){2050}, &powers[i]);
    for (unsigned i = 0; i < 8; i++) {
        table_add_offsets(table,
                          table_add(table, &pow_scalar_f32, NULL, (int64_t[]){1001}, &powers[i]));
        add_in_place(table, &pow_scalar_f32, 1, 0, &powers[i]);
    }
    add_sizes(table, &pow_scalar_f32, ORDINARY_MOST, &light);
    add_steps(table, &pow_scalar_f32, &light);
    add_sizes(table, &pow_scalar_f32, ORDINARY_MOST, &moderate);
    for (unsigned i = 0; i < sizeof exact / sizeof *exact; i++) {
        add_sizes(table, &pow_scalar_f32_bits, ORDINARY_MOST, &exact[i]);
        add_in_place(table, &pow_scalar_f32_bits, 1, 0, &exact[i]);
    }
}

void cases_elementwise(struct kernel_table *table) {
    const double patterns[] = {0x3FC00000, 0, 0x80000000, 0x7FA00001, 0xFFFFFFFF};
    cases_of_two(table);
    cases_of_scalars(table);
    cases_of_powers(table);
    add_sizes(table, &fill_f32, INT64_MAX, &patterns[0]);
    add_steps(table, &fill_f32, &patterns[0]);
    for (unsigned i = 0; i < sizeof patterns / sizeof *patterns; i++)
        table_add(table, &fill_f32, NULL, (int64_t[]){1027}, &patterns[i]);
    cases_elementwise_unary(table);
    cases_elementwise_train(table);
    cases_bf16_elementwise(table);
}
