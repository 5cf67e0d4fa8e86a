/* Kernels of bfloat16: elementwise functions, rows, sums. */
#include "kernels/tests/cases/cases_bf16.h"

#include <math.h>

#include "kernels/tests/cases/cases_elementwise.h"

/* ---- elementwise ---- */

static void lay_out_binary(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", TYPE_BF16, ROLE_IN, n)->make = make_special_bf16;
    case_operand(c, "b", TYPE_BF16, ROLE_IN, n)->make = make_special_bf16;
    case_operand(c, "c", TYPE_BF16, ROLE_OUT, n);
}

static void lay_out_unary(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", TYPE_BF16, ROLE_IN, n)->make = make_special_bf16;
    case_operand(c, "c", TYPE_BF16, ROLE_OUT, n);
}

/* A subject whose function and reference take the same arguments: operands `at`, sizes `s`, scalars
 * `f`. */
#define UNPACK(...) __VA_ARGS__
#define SUBJECT(name_, n_sizes_, n_scalars_, lay_out_, args, ...)                                  \
    static enum cushim_status run_##name_(const struct kernel_case *c,                             \
                                          struct CUstream_st *stream) {                            \
        void *const *at = c->device;                                                               \
        const int64_t *s = c->sizes;                                                               \
        const double *f = c->scalars;                                                              \
        (void)f;                                                                                   \
        return cushim_##name_(UNPACK args, stream);                                                \
    }                                                                                              \
    static void ref_##name_(const struct kernel_case *c) {                                         \
        void *const *at = c->host;                                                                 \
        const int64_t *s = c->sizes;                                                               \
        const double *f = c->scalars;                                                              \
        (void)f;                                                                                   \
        cushim_##name_##_ref(UNPACK args);                                                         \
    }                                                                                              \
    static const struct kernel_subject name_ = {.name = #name_,                                    \
                                                .n_sizes = n_sizes_,                               \
                                                .n_scalars = n_scalars_,                           \
                                                .lay_out = lay_out_,                               \
                                                .run = run_##name_,                                \
                                                .ref = ref_##name_,                                \
                                                .tolerance = {__VA_ARGS__}};

#define BINARY(name) SUBJECT(name, 1, 0, lay_out_binary, (at[0], at[1], at[2], s[0]), 0)
#define UNARY(name)  SUBJECT(name, 1, 0, lay_out_unary, (at[0], at[1], s[0]), .ulps = 1)
BINARY(add_bf16)
BINARY(sub_bf16)
BINARY(mul_bf16)
BINARY(div_bf16)
UNARY(exp_bf16)
UNARY(log_bf16)
UNARY(sqrt_bf16)
UNARY(rsqrt_bf16)
UNARY(tanh_bf16)

static void make_second_moment(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        value_set(TYPE_F64, values, i, draw_bits(draw) % 4 ? pow(draw_gauss(draw) * 0.1, 2) : 0);
}

static void lay_out_adamw(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "param", TYPE_BF16, ROLE_BOTH, n)->make = make_gauss_bf16;
    case_operand(c, "m", TYPE_F32, ROLE_BOTH, n)->make = make_gauss_f32;
    case_operand(c, "v", TYPE_F64, ROLE_BOTH, n)->make = make_second_moment;
    case_operand(c, "grad", TYPE_BF16, ROLE_BOTH, n)->make = make_gauss_bf16;
}

SUBJECT(adamw_bf16, 1, 7, lay_out_adamw,
        (at[0], at[1], at[2], at[3], f[0], f[1], f[2], f[3], f[4], f[5], f[6], s[0]), .ulps = 1)

void cases_bf16_elementwise(struct kernel_table *table) {
    static const struct kernel_subject *const binary[] = {&add_bf16, &sub_bf16, &mul_bf16,
                                                          &div_bf16};
    static const struct kernel_subject *const unary[] = {&exp_bf16, &log_bf16, &sqrt_bf16,
                                                         &rsqrt_bf16, &tanh_bf16};
    static const double ordinary[] = {0.9, 0.999, 1 - 0.9, 1 - 0.999, 1e-8, 3e-4, 3e-6};
    for (unsigned i = 0; i < sizeof binary / sizeof *binary; i++) {
        add_sizes(table, binary[i], ORDINARY_MOST, NULL);
        add_in_place(table, binary[i], 2, 1, NULL);
    }
    for (unsigned i = 0; i < sizeof unary / sizeof *unary; i++) {
        add_sizes(table, unary[i], ORDINARY_MOST, NULL);
        add_in_place(table, unary[i], 1, 0, NULL);
    }
    add_sizes(table, &adamw_bf16, ORDINARY_MOST, ordinary);
    table_add(table, &adamw_bf16, "special gradients", (int64_t[]){4099}, ordinary)
        ->operands[3]
        .make = make_special_bf16;
}

/* ---- convert ---- */

static void lay_out_narrow(struct kernel_case *c) {
    case_operand(c, "src", TYPE_F32, ROLE_IN, (size_t)c->sizes[0])->make = make_special_f32;
    case_operand(c, "dst", TYPE_BF16, ROLE_OUT, (size_t)c->sizes[0]);
}

static void lay_out_widen(struct kernel_case *c) {
    case_operand(c, "src", TYPE_BF16, ROLE_IN, (size_t)c->sizes[0])->make = make_bits_u16;
    case_operand(c, "dst", TYPE_F32, ROLE_OUT, (size_t)c->sizes[0]);
}

SUBJECT(convert_f32_bf16, 1, 0, lay_out_narrow, (at[0], at[1], s[0]), 0)
SUBJECT(convert_bf16_f32, 1, 0, lay_out_widen, (at[0], at[1], s[0]), 0)

/* Half-way between two numbers, and next to it. */
static void make_halfway(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((uint32_t *)values)[i] =
            (uint32_t)(draw_bits(draw) << 16 | (0x7FFF + draw_bits(draw) % 3)) & 0xBFFFFFFF;
}

void cases_bf16_convert(struct kernel_table *table) {
    add_sizes(table, &convert_f32_bf16, ORDINARY_MOST, NULL);
    add_sizes(table, &convert_bf16_f32, ORDINARY_MOST, NULL);
    table_add(table, &convert_f32_bf16, "half-way", (int64_t[]){20000}, NULL)->operands[0].make =
        make_halfway;
}

/* ---- softmax: outer, axis, inner ---- */

static void lay_out_softmax(struct kernel_case *c) {
    size_t n = (size_t)(c->sizes[0] * c->sizes[1] * c->sizes[2]);
    case_operand(c, "x", TYPE_BF16, ROLE_IN, n)->make = make_gauss_bf16;
    case_operand(c, "y", TYPE_BF16, ROLE_OUT, n);
}

SUBJECT(scaled_softmax_bf16, 3, 1, lay_out_softmax, (at[0], at[1], (float)f[0], s[0], s[1], s[2]),
        .ulps = 1)

/* As under a mask, and a few that exceed the range of halves. */
static void make_masked(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = draw_bits(draw);
        value_set(TYPE_BF16, values, i,
                  bits % 3 == 0    ? -INFINITY
                  : bits % 50 == 1 ? 1e30 * draw_gauss(draw)
                                   : draw_gauss(draw));
    }
}

void cases_bf16_softmax(struct kernel_table *table) {
    static const int64_t sizes[][3] = {{0, 3, 1},  {3, 0, 1},    {3, 1, 1},    {5, 7, 1},
                                       {3, 64, 1}, {2, 1000, 1}, {2, 4099, 1}, {1, 40000, 1},
                                       {3, 5, 7},  {2, 33, 64},  {1, 300, 40}, {70, 2, 3}};
    static const double scales[] = {1, 0.125, -3, 0};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &scaled_softmax_bf16, NULL, sizes[i], &scales[i % 3]);
    table_add(table, &scaled_softmax_bf16, "no scale", (int64_t[]){3, 40, 1}, &scales[3]);
    table_add(table, &scaled_softmax_bf16, "masked", (int64_t[]){5, 600, 1}, scales)
        ->operands[0]
        .make = make_masked;
    table_add(table, &scaled_softmax_bf16, "masked", (int64_t[]){5, 60, 9}, scales)
        ->operands[0]
        .make = make_masked;
    table_add_offsets(table,
                      table_add(table, &scaled_softmax_bf16, NULL, (int64_t[]){3, 64, 1}, scales));
    table_add(table, &scaled_softmax_bf16, "in place", (int64_t[]){3, 640, 1}, scales)
        ->operands[1]
        .in_place_of = 1;
}

/* ---- norm: rows, d ---- */

static size_t n_of_rows(const struct kernel_case *c) {
    return (size_t)(c->sizes[0] * c->sizes[1]);
}

static void lay_out_add_rms(struct kernel_case *c) {
    case_operand(c, "x", TYPE_BF16, ROLE_IN, n_of_rows(c))->make = make_gauss_bf16;
    case_operand(c, "residual", TYPE_BF16, ROLE_IN, n_of_rows(c))->make = make_gauss_bf16;
    case_operand(c, "w", TYPE_BF16, ROLE_IN, (size_t)c->sizes[1])->make = make_gauss_bf16;
    case_operand(c, "y", TYPE_BF16, ROLE_OUT, n_of_rows(c));
    case_operand(c, "sum", TYPE_BF16, ROLE_OUT, n_of_rows(c));
}

static void lay_out_rms_add(struct kernel_case *c) {
    case_operand(c, "x", TYPE_BF16, ROLE_IN, n_of_rows(c))->make = make_gauss_bf16;
    case_operand(c, "w", TYPE_BF16, ROLE_IN, (size_t)c->sizes[1])->make = make_gauss_bf16;
    case_operand(c, "residual", TYPE_BF16, ROLE_IN, n_of_rows(c))->make = make_gauss_bf16;
    case_operand(c, "y", TYPE_BF16, ROLE_OUT, n_of_rows(c));
}

/* The sum may cancel; a step of the result is 2^-7 of it at most. */
static double bound_rms_add(const struct kernel_case *c, int operand, size_t i) {
    double y = fabs(value_of(TYPE_BF16, c->host[operand], i));
    return 0x1p-7 * y + 1e-6 * (y + 2 * fabs(value_of(TYPE_BF16, c->host[2], i)));
}

SUBJECT(add_rms_norm_bf16, 2, 1, lay_out_add_rms,
        (at[0], at[1], at[2], at[3], at[4], (float)f[0], s[0], s[1]), .ulps = 1)
SUBJECT(rms_norm_add_bf16, 2, 1, lay_out_rms_add,
        (at[0], at[1], at[2], at[3], (float)f[0], s[0], s[1]), .bound = bound_rms_add)

void cases_bf16_norm(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 3},   {3, 0},    {3, 1},     {5, 7},   {3, 64},
                                       {2, 999}, {3, 4096}, {1, 40000}, {70, 16}, {600, 8}};
    static const double eps = 1e-5;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        table_add(table, &add_rms_norm_bf16, NULL, sizes[i], &eps);
        table_add(table, &rms_norm_add_bf16, NULL, sizes[i], &eps);
    }
    table_add_offsets(table, table_add(table, &add_rms_norm_bf16, NULL, sizes[4], &eps));
    table_add_offsets(table, table_add(table, &rms_norm_add_bf16, NULL, sizes[4], &eps));
    table_add(table, &add_rms_norm_bf16, "in place", sizes[4], &eps)->operands[4].in_place_of = 1;
    table_add(table, &rms_norm_add_bf16, "in place", sizes[4], &eps)->operands[3].in_place_of = 1;
}

/* ---- rope: n_heads, head_dim, n_q_heads, half_rotary ---- */

static void lay_out_qk(struct kernel_case *c) {
    size_t n = n_of_rows(c), d = (size_t)c->sizes[1], half = (size_t)c->sizes[3];
    case_operand(c, "x", TYPE_BF16, ROLE_IN, n)->make = make_gauss_bf16;
    case_operand(c, "w_q", TYPE_BF16, ROLE_IN, c->sizes[2] ? d : 0);
    case_operand(c, "w_k", TYPE_BF16, ROLE_IN, c->sizes[2] < c->sizes[0] ? d : 0);
    case_operand(c, "cosines", TYPE_BF16, ROLE_IN, half);
    case_operand(c, "sines", TYPE_BF16, ROLE_IN, half);
    case_operand(c, "y", TYPE_BF16, ROLE_OUT, n);
}

/* Terms of up to 10 may cancel. */
SUBJECT(qk_norm_rope_bf16, 4, 1, lay_out_qk,
        (at[0], at[1], at[2], at[3], at[4], at[5], (float)f[0], s[0], s[1], s[2], s[3]),
        .relative = 0x1p-7, .absolute = 1e-5)

void cases_bf16_rope(struct kernel_table *table) {
    static const int64_t sizes[][4] = {{0, 8, 0, 4},      {3, 1, 1, 0},     {5, 7, 3, 3},
                                       {40, 128, 32, 64}, {9, 96, 9, 32},   {7, 64, 0, 32},
                                       {3, 600, 2, 250},  {2, 2000, 1, 999}};
    static const double eps = 1e-6;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &qk_norm_rope_bf16, NULL, sizes[i], &eps);
    table_add(table, &qk_norm_rope_bf16, "in place", sizes[6], &eps)->operands[5].in_place_of = 1;
}

/* ---- sums: outer, axis, inner ---- */

static void lay_out_sum(struct kernel_case *c) {
    size_t n_out = (size_t)(c->sizes[0] * c->sizes[2]);
    case_operand(c, "x", TYPE_BF16, ROLE_IN, n_out * (size_t)c->sizes[1])->make = make_gauss_bf16;
    case_operand(c, "y", TYPE_BF16, ROLE_OUT, n_out);
}

static double bound_sum(const struct kernel_case *c, int operand, size_t i) {
    int64_t axis = c->sizes[1], inner = c->sizes[2], outer = (int64_t)i / inner;
    double terms = 0;
    for (int64_t a = 0; a < axis; a++)
        terms += fabs(value_of(TYPE_BF16, c->host[0],
                               (size_t)((outer * axis + a) * inner + (int64_t)i % inner)));
    return 0x1p-7 * fabs(value_of(TYPE_BF16, c->host[operand], i)) +
           0x1p-21 * terms * fabs(c->scalars[0]);
}

SUBJECT(sum_axis_bf16, 3, 1, lay_out_sum, (at[0], at[1], (float)f[0], s[0], s[1], s[2]),
        .bound = bound_sum)

void cases_bf16_reduce(struct kernel_table *table) {
    static const int64_t sizes[][3] = {{0, 3, 1},  {3, 0, 1},    {3, 1, 1},     {5, 7, 1},
                                       {3, 64, 1}, {2, 4099, 1}, {1, 40000, 1}, {700, 16, 1},
                                       {3, 5, 7},  {2, 33, 64},  {1, 3000, 40}, {3, 0, 5}};
    static const double scales[] = {1, 0.125, -3};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &sum_axis_bf16, NULL, sizes[i], &scales[i % 3]);
    table_add_offsets(table, table_add(table, &sum_axis_bf16, NULL, sizes[4], scales));
}
