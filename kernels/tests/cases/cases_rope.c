/* Rotary embedding, of tensors and of one token's heads. */
#include <math.h>

#include "kernels/tests/cases/cases_bf16.h"
#include "kernels/tests/frame/case.h"

/* ---- rope_f32 ---- */

enum { X, COSINES, SINES, Y };
enum { BATCH, SEQ, HEAD_DIM, HALF, STRIDE };

/* Rows of `half`, `stride` apart. */
static size_t n_angles(int64_t n_rows, int64_t half, int64_t stride) {
    return n_rows > 0 && half > 0 ? (size_t)((n_rows - 1) * stride + half) : 0;
}

static void lay_out_rope(struct kernel_case *c) {
    const int64_t *s = c->sizes;
    size_t n = (size_t)(s[BATCH] * s[SEQ] * s[HEAD_DIM]);
    case_operand(c, "x", TYPE_F32, ROLE_IN, n)->make = make_outliers_f32;
    case_operand(c, "cosines", TYPE_F32, ROLE_IN, n_angles(s[SEQ], s[HALF], s[STRIDE]));
    case_operand(c, "sines", TYPE_F32, ROLE_IN, n_angles(s[SEQ], s[HALF], s[STRIDE]));
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n);
}

static enum cushim_status run_rope(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_rope_f32(c->device[X], c->device[COSINES], c->device[SINES], c->device[Y],
                           s[BATCH], s[SEQ], s[HEAD_DIM], s[HALF], s[STRIDE], stream);
}

static void ref_rope(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_rope_f32_ref(c->host[X], c->host[COSINES], c->host[SINES], c->host[Y], s[BATCH], s[SEQ],
                        s[HEAD_DIM], s[HALF], s[STRIDE]);
}

/* Elements behind both halves are copied bit by bit; the rest is within 3e-7 of the outliers. */
static double bound_rope(const struct kernel_case *c, int operand, size_t i) {
    (void)operand;
    return (int64_t)i % c->sizes[HEAD_DIM] >= 2 * c->sizes[HALF] ? 0 : 3e-5;
}

static const struct kernel_subject rope_f32 = {.name = "rope_f32",
                                               .n_sizes = 5,
                                               .lay_out = lay_out_rope,
                                               .run = run_rope,
                                               .ref = ref_rope,
                                               .tolerance = {.nmse = 1e-13, .bound = bound_rope}};

/* ---- qk_norm_rope_f32 ---- */

enum { QK_X, QK_W_Q, QK_W_K, QK_COSINES, QK_SINES, QK_Y };
enum { QK_HEADS, QK_DIM, QK_Q_HEADS, QK_HALF };

#define LEAST 0x1p-148 /* two steps of subnormal numbers */

static void lay_out_qk(struct kernel_case *c) {
    const int64_t *s = c->sizes;
    size_t n = (size_t)(s[QK_HEADS] * s[QK_DIM]), d = (size_t)s[QK_DIM];
    case_operand(c, "x", TYPE_F32, ROLE_IN, n)->make = make_outliers_f32;
    case_operand(c, "w_q", TYPE_F32, ROLE_IN, s[QK_Q_HEADS] ? d : 0);
    case_operand(c, "w_k", TYPE_F32, ROLE_IN, s[QK_Q_HEADS] < s[QK_HEADS] ? d : 0);
    case_operand(c, "cosines", TYPE_F32, ROLE_IN, (size_t)s[QK_HALF]);
    case_operand(c, "sines", TYPE_F32, ROLE_IN, (size_t)s[QK_HALF]);
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n);
}

static enum cushim_status run_qk(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_qk_norm_rope_f32(c->device[QK_X], c->device[QK_W_Q], c->device[QK_W_K],
                                   c->device[QK_COSINES], c->device[QK_SINES], c->device[QK_Y],
                                   (float)c->scalars[0], s[QK_HEADS], s[QK_DIM], s[QK_Q_HEADS],
                                   s[QK_HALF], stream);
}

static void ref_qk(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_qk_norm_rope_f32_ref(
        c->host[QK_X], c->host[QK_W_Q], c->host[QK_W_K], c->host[QK_COSINES], c->host[QK_SINES],
        c->host[QK_Y], (float)c->scalars[0], s[QK_HEADS], s[QK_DIM], s[QK_Q_HEADS], s[QK_HALF]);
}

/*
 * 2^-21 of the terms, which the two elements of a pair in the reference give back, even in place.
 */
static double bound_qk(const struct kernel_case *c, int operand, size_t i) {
    int64_t half = c->sizes[QK_HALF], d = (int64_t)i % c->sizes[QK_DIM];
    const float *y = (const float *)c->host[operand] + i;
    if (d >= 2 * half)
        return ldexp(fabs(*y), -21) + LEAST;
    bool is_first = d < half;
    int64_t at = is_first ? d : d - half;
    double first = is_first ? *y : *(y - half), second = is_first ? *(y + half) : *y;
    double cosine = ((const float *)c->host[QK_COSINES])[at];
    double sine = ((const float *)c->host[QK_SINES])[at];
    double whole = cosine * cosine + sine * sine;
    double a = fabs(cosine * first + sine * second), b = fabs(cosine * second - sine * first);
    double terms = is_first ? a * fabs(cosine) + b * fabs(sine) : b * fabs(cosine) + a * fabs(sine);
    return (whole > 0 ? ldexp(terms / whole, -21) : 0) + LEAST;
}

static const struct kernel_subject qk_norm_rope_f32 = {
    .name = "qk_norm_rope_f32",
    .n_sizes = 4,
    .n_scalars = 1,
    .lay_out = lay_out_qk,
    .run = run_qk,
    .ref = ref_qk,
    .tolerance = {.nmse = 1e-12, .bound = bound_qk}};

/* ---- inputs ---- */

/* Heads of 64: zeros, sums too large for a float, NaN, Inf; then again. */
static void make_special_heads(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double value = draw_gauss(draw);
        switch (i / 64 % 5) {
        case 0:
            value = 0;
            break;
        case 1:
            value = i % 64 == 40 ? 3e19 : value;
            break;
        case 2:
            value = i % 64 == 0 ? NAN : value;
            break;
        case 3:
            value = i % 64 == 63 ? INFINITY : value;
            break;
        }
        value_set(TYPE_F32, values, i, value);
    }
}

/* ---- the table ---- */

static struct kernel_case *add_rope(struct kernel_table *table, const char *note, int64_t batch,
                                    int64_t seq, int64_t head_dim, int64_t half, int64_t stride) {
    return table_add(table, &rope_f32, note, (int64_t[]){batch, seq, head_dim, half, stride}, NULL);
}

static struct kernel_case *add_qk(struct kernel_table *table, const char *note, int64_t n_heads,
                                  int64_t head_dim, int64_t n_q_heads, int64_t half, double eps) {
    return table_add(table, &qk_norm_rope_f32, note,
                     (int64_t[]){n_heads, head_dim, n_q_heads, half}, &eps);
}

static void add_ropes(struct kernel_table *table) {
    static const int64_t dims[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 80, 96, 128, 256};
    add_rope(table, "empty", 0, 3, 8, 4, 4);
    add_rope(table, "empty", 3, 0, 8, 4, 4);
    add_rope(table, "empty", 3, 3, 0, 0, 4);
    for (unsigned i = 0; i < sizeof dims / sizeof *dims; i++) {
        add_rope(table, NULL, 3, 7, dims[i], dims[i] / 2, dims[i] / 2);
        add_rope(table, "with a tail", 2, 5, dims[i], dims[i] / 4, dims[i]);
        add_rope(table, "a copy", 2, 5, dims[i], 0, 0);
        add_rope(table, "one token", 5, 1, dims[i], dims[i] / 2, 0);
    }
    add_rope(table, "the same angles", 2, 9, 64, 32, 0);
    add_rope(table, "rows of angles overlap", 2, 9, 64, 32, 4);
    add_rope(table, "an odd stride", 2, 9, 64, 32, 33);
    add_rope(table, "one token, an odd stride", 9, 1, 64, 32, 33);
    add_rope(table, "a tail of 2", 2, 9, 66, 32, 32);
    add_rope(table, "a long batch", 70, 200, 16, 8, 8);
    add_rope(table, "a long batch", 9, 4000, 64, 32, 32);
    add_rope(table, "a long batch", 5003, 5, 64, 20, 32);
    table_add_offsets(table, add_rope(table, NULL, 3, 5, 64, 24, 24));
    add_rope(table, "in place", 3, 5, 64, 24, 24)->operands[Y].in_place_of = 1 + X;
    add_rope(table, "in place", 3, 5, 61, 23, 24)->operands[Y].in_place_of = 1 + X;
    add_rope(table, "special values", 3, 5, 64, 24, 24)->operands[X].make = make_special_heads;
}

static void add_qks(struct kernel_table *table) {
    static const int64_t dims[] = {1,   2,   5,   31,  32,  33,  64,  127, 128,
                                   129, 255, 256, 257, 511, 512, 513, 2000};
    add_qk(table, "empty", 0, 64, 0, 32, 1e-6);
    add_qk(table, "empty", 3, 0, 1, 0, 1e-6);
    for (unsigned i = 0; i < sizeof dims / sizeof *dims; i++) {
        add_qk(table, NULL, 10, dims[i], 8, dims[i] / 2, 1e-6);
        add_qk(table, "with a tail", 5, dims[i], 3, dims[i] / 4, 1e-6);
        add_qk(table, "a norm alone", 3, dims[i], 2, 0, 1e-6);
    }
    add_qk(table, NULL, 40, 128, 32, 64, 1e-6);
    add_qk(table, NULL, 72, 128, 64, 64, 1e-6);
    add_qk(table, NULL, 16, 256, 16, 128, 1e-6);
    add_qk(table, "eps counts", 10, 128, 8, 64, 0.5);
    add_qk(table, "eps counts", 10, 600, 8, 64, 0.5);
    add_qk(table, "no queries", 7, 64, 0, 32, 1e-6);
    add_qk(table, "no keys", 7, 64, 7, 32, 1e-6);
    add_qk(table, "many heads", 5000, 8, 4000, 4, 1e-6);
    add_qk(table, "many heads", 20000, 4, 10001, 2, 1e-6);
    table_add_offsets(table, add_qk(table, NULL, 5, 64, 3, 32, 1e-6));
    add_qk(table, "in place", 5, 100, 3, 37, 1e-6)->operands[QK_Y].in_place_of = 1 + QK_X;
    add_qk(table, "in place", 5, 600, 3, 250, 1e-6)->operands[QK_Y].in_place_of = 1 + QK_X;
    add_qk(table, "special values", 10, 64, 5, 30, 1e-6)->operands[QK_X].make = make_special_heads;
    add_qk(table, "special values", 10, 64, 5, 30, 0)->operands[QK_X].make = make_special_heads;
    add_qk(table, "special values", 2, 640, 1, 300, 1e-6)->operands[QK_X].make = make_special_heads;
}

void cases_rope(struct kernel_table *table) {
    add_ropes(table);
    add_qks(table);
    cases_bf16_rope(table);
}
