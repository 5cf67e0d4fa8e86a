/*
 * Products with q4k and what stands before and behind them: in one kernel and, if heads or
 * addresses are odd, in several.  Tiles at the end, several of a block, columns at their edges.
 */
#include <math.h>

#include "kernels/tests/cases/cases_gemv.h"
#include "kernels/tests/cases/cases_q4k.h"

enum { MAX_LEN = 5, LARGEST_WEIGHT = 63 };
static const float EPS = 1e-5f;

/* ---- what is allowed ---- */

/* A row's terms: their sum, and that of their magnitudes. */
struct terms {
    double sum, magnitude;
};

static struct terms terms_of(const uint8_t *w, int64_t row, const float *x, const float *norm,
                             int64_t k) {
    struct terms terms = {0, 0};
    float weights[Q4K_VALUES];
    const uint8_t *blocks = w + row * (k / Q4K_VALUES) * Q4K_BYTES;
    for (int64_t at = 0; at < k; at++) {
        if (at % Q4K_VALUES == 0)
            cushim_dequant_q4k_f32_ref(blocks + at / Q4K_VALUES * Q4K_BYTES, weights, 1,
                                       Q4K_VALUES);
        double term = (double)weights[at % Q4K_VALUES] * x[at] * (norm ? norm[at] : 1);
        terms.sum += term;
        terms.magnitude += fabs(term);
    }
    return terms;
}

static double rstd_of(const float *x, const float *norm, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += (double)x[i] * x[i];
    return norm ? 1 / sqrt(sum / (double)k + EPS) : 1;
}

static size_t scratch_floats(int64_t m, int64_t k) {
    return cushim_gemv_q4k_scratch(m, k) / sizeof(float);
}

/* ---- with a residual ---- */

enum { ADD_W, ADD_X, ADD_RESIDUAL, ADD_Y, ADD_SCRATCH };
enum { ADD_M, ADD_K, ADD_IN_PLACE };

static void lay_out_add(struct kernel_case *c) {
    int64_t m = c->sizes[ADD_M], k = c->sizes[ADD_K];
    case_operand(c, "w", TYPE_U8, ROLE_IN, (size_t)(m * (k / Q4K_VALUES) * Q4K_BYTES))->make =
        make_q4k;
    case_operand(c, "x", TYPE_F32, ROLE_IN, (size_t)k)->make = make_outliers_f32;
    case_operand(c, "residual", TYPE_F32, ROLE_IN, (size_t)m)->make = make_gauss_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, (size_t)m)->in_place_of =
        c->sizes[ADD_IN_PLACE] ? 1 + ADD_RESIDUAL : 0;
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_floats(m, k));
}

static enum cushim_status run_add(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemv_add_q4k_f32(
        c->device[ADD_W], c->device[ADD_X], c->device[ADD_RESIDUAL], c->device[ADD_Y],
        c->sizes[ADD_M], c->sizes[ADD_K], c->device[ADD_SCRATCH],
        cushim_gemv_q4k_scratch(c->sizes[ADD_M], c->sizes[ADD_K]), stream);
}

static void ref_add(const struct kernel_case *c) {
    cushim_gemv_add_q4k_f32_ref(c->host[ADD_W], c->host[ADD_X], c->host[ADD_RESIDUAL],
                                c->host[ADD_Y], c->sizes[ADD_M], c->sizes[ADD_K]);
}

static double bound_add(const struct kernel_case *c, int operand, size_t i) {
    struct terms of = terms_of(c->host[ADD_W], (int64_t)i, c->host[ADD_X], NULL, c->sizes[ADD_K]);
    (void)operand;
    double residual = ((const float *)c->host[ADD_Y])[i] - of.sum;
    return 0x1p-21 * (of.magnitude + fabs(residual)) +
           lost_in_blocks(c->sizes[ADD_K], LARGEST_WEIGHT);
}

static const struct kernel_subject gemv_add = {.name = "gemv_add_q4k_f32",
                                               .n_sizes = 3,
                                               .lay_out = lay_out_add,
                                               .run = run_add,
                                               .ref = ref_add,
                                               .tolerance = {.nmse = 1e-12, .bound = bound_add}};

static struct kernel_case *add_add(struct kernel_table *table, const char *note, int64_t m,
                                   int64_t k, bool is_in_place) {
    return table_add(table, &gemv_add, note, (int64_t[]){m, k, is_in_place}, NULL);
}

static void add_all_add(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 256},   {3, 0},     {1, 256},  {5, 512},
                                       {16, 1280}, {33, 4352}, {300, 768}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add_add(table, NULL, sizes[i][0], sizes[i][1], i % 2);
    add_add(table, "blocks stay", 2140, 256, true);
    add_add(table, "steps go on in the next tile", 2140, 4352, false);
    add_add(table, "too long for stages", 40, 28672, true);
    add_add(table, "not finite", 40, 512, false)->operands[ADD_X].make = make_seldom_finite;
    add_add(table, "wide spread", 40, 512, false)->operands[ADD_X].make = make_wide_spread;
    struct kernel_case *large = add_add(table, "one is large", 200, 256, false);
    large->operands[ADD_X].make = make_one_large;
    large->operands[ADD_W].make = make_q4k_without_dmin; /* some have 0 there */
    add_add(table, "tiny", 40, 512, false)->operands[ADD_X].make = make_tiny;
    add_add(table, "huge", 40, 512, false)->operands[ADD_X].make = make_huge;
    add_add(table, "w off 16", 20, 512, false)->operands[ADD_W].offset = 2;
    add_add(table, "x off 16", 20, 512, false)->operands[ADD_X].offset = 4;
    add_add(table, "y off 16", 20, 512, false)->operands[ADD_Y].offset = 12;
    add_add(table, "residual off 16", 20, 512, true)->operands[ADD_RESIDUAL].offset = 8;
}

/* ---- with a norm and a gate ---- */

enum { GATE_W, GATE_X, GATE_NORM, GATE_Y, GATE_SCRATCH };
enum { GATE_M, GATE_K, GATE_HAS_NORM };

static void lay_out_gate(struct kernel_case *c) {
    int64_t m = c->sizes[GATE_M], k = c->sizes[GATE_K];
    case_operand(c, "w", TYPE_U8, ROLE_IN, (size_t)(2 * m * (k / Q4K_VALUES) * Q4K_BYTES))->make =
        make_q4k;
    case_operand(c, "x", TYPE_F32, ROLE_IN, (size_t)k)->make = make_gauss_f32;
    case_operand(c, "norm", TYPE_F32, ROLE_IN, c->sizes[GATE_HAS_NORM] ? (size_t)k : 0);
    case_operand(c, "y", TYPE_F32, ROLE_OUT, (size_t)m);
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_floats(2 * m, k));
}

static enum cushim_status run_gate(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemv_swiglu_q4k_f32(
        c->device[GATE_W], c->device[GATE_X], c->device[GATE_NORM], c->device[GATE_Y], EPS,
        c->sizes[GATE_M], c->sizes[GATE_K], c->device[GATE_SCRATCH],
        cushim_gemv_q4k_scratch(2 * c->sizes[GATE_M], c->sizes[GATE_K]), stream);
}

static void ref_gate(const struct kernel_case *c) {
    cushim_gemv_swiglu_q4k_f32_ref(c->host[GATE_W], c->host[GATE_X], c->host[GATE_NORM],
                                   c->host[GATE_Y], EPS, c->sizes[GATE_M], c->sizes[GATE_K]);
}

/* What the errors of both halves may become; the slope of silu is at most 1.1. */
static double bound_gate(const struct kernel_case *c, int operand, size_t i) {
    int64_t k = c->sizes[GATE_K];
    const float *x = c->host[GATE_X], *norm = c->host[GATE_NORM];
    double rstd = rstd_of(x, norm, k), y = fabs((double)((const float *)c->host[GATE_Y])[i]);
    struct terms gate = terms_of(c->host[GATE_W], (int64_t)i, x, norm, k);
    struct terms up = terms_of(c->host[GATE_W], c->sizes[GATE_M] + (int64_t)i, x, norm, k);
    double g = rstd * gate.sum, u = rstd * up.sum, silu = fabs(g / (1 + exp(-g)));
    double gate_error = 0x1p-20 * rstd * gate.magnitude + lost_in_blocks(k, LARGEST_WEIGHT),
           up_error = 0x1p-20 * rstd * up.magnitude + lost_in_blocks(k, LARGEST_WEIGHT);
    (void)operand;
    return 1.1 * gate_error * (fabs(u) + up_error) + silu * up_error + 1e-6 * y + 0x1p-149;
}

static const struct kernel_subject gemv_gate = {.name = "gemv_swiglu_q4k_f32",
                                                .n_sizes = 3,
                                                .lay_out = lay_out_gate,
                                                .run = run_gate,
                                                .ref = ref_gate,
                                                .tolerance = {.nmse = 1e-11, .bound = bound_gate}};

static struct kernel_case *add_gate(struct kernel_table *table, const char *note, int64_t m,
                                    int64_t k, bool has_norm) {
    return table_add(table, &gemv_gate, note, (int64_t[]){m, k, has_norm}, NULL);
}

static void add_all_gate(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 256},   {3, 0},     {1, 256},  {5, 512},
                                       {16, 1280}, {33, 4352}, {300, 768}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        add_gate(table, NULL, sizes[i][0], sizes[i][1], true);
        add_gate(table, NULL, sizes[i][0], sizes[i][1], false);
    }
    add_gate(table, "blocks stay", 1070, 256, true);
    add_gate(table, "long", 20, 16640, true);
    add_gate(table, "wide spread", 40, 512, true)->operands[GATE_X].make = make_wide_spread;
    add_gate(table, "zeros", 40, 512, true)->operands[GATE_X].make = make_zero;
    add_gate(table, "w off 16", 20, 512, true)->operands[GATE_W].offset = 2;
    add_gate(table, "x off 16", 20, 512, true)->operands[GATE_X].offset = 4;
    add_gate(table, "norm off 16", 20, 512, true)->operands[GATE_NORM].offset = 4;
    add_gate(table, "y off 16", 20, 512, true)->operands[GATE_Y].offset = 4;
}

/* ---- queries, keys and values ---- */

enum {
    QKV_W,
    QKV_X,
    QKV_NORM,
    QKV_COS,
    QKV_SIN,
    QKV_POSITION,
    QKV_Q,
    QKV_KEYS,
    QKV_VALUES,
    QKV_SCRATCH
};
enum { QKV_Q_HEADS, QKV_KV_HEADS, QKV_DIM, QKV_K, QKV_HAS_NORM, QKV_HEAD_MAJOR };

static int64_t rows_of(const struct kernel_case *c) {
    return (c->sizes[QKV_Q_HEADS] + 2 * c->sizes[QKV_KV_HEADS]) * c->sizes[QKV_DIM];
}

static int64_t position_stride(const struct kernel_case *c) {
    return c->sizes[QKV_DIM] * (c->sizes[QKV_HEAD_MAJOR] ? 1 : c->sizes[QKV_KV_HEADS]);
}

static int64_t head_stride(const struct kernel_case *c) {
    return c->sizes[QKV_DIM] * (c->sizes[QKV_HEAD_MAJOR] ? MAX_LEN : 1);
}

static void make_position(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = (int32_t)(draw_bits(draw) % MAX_LEN);
}

static void make_no_position(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = draw_bits(draw) % 2 ? MAX_LEN : -1;
}

static void lay_out_qkv(struct kernel_case *c) {
    int64_t m = rows_of(c), k = c->sizes[QKV_K], dim = c->sizes[QKV_DIM];
    size_t n_table = (size_t)(MAX_LEN * dim / 2),
           n_cache = (size_t)(MAX_LEN * c->sizes[QKV_KV_HEADS] * dim);
    case_operand(c, "w", TYPE_U8, ROLE_IN, (size_t)(m * (k / Q4K_VALUES) * Q4K_BYTES))->make =
        make_q4k;
    case_operand(c, "x", TYPE_F32, ROLE_IN, (size_t)k)->make = make_gauss_f32;
    case_operand(c, "norm", TYPE_F32, ROLE_IN, c->sizes[QKV_HAS_NORM] ? (size_t)k : 0);
    case_operand(c, "cos_table", TYPE_F32, ROLE_IN, n_table);
    case_operand(c, "sin_table", TYPE_F32, ROLE_IN, n_table);
    case_operand(c, "position", TYPE_I32, ROLE_IN, 1)->make = make_position;
    case_operand(c, "q", TYPE_F32, ROLE_BOTH, (size_t)(c->sizes[QKV_Q_HEADS] * dim));
    case_operand(c, "keys", TYPE_F32, ROLE_BOTH, n_cache);
    case_operand(c, "values", TYPE_F32, ROLE_BOTH, n_cache);
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_floats(m, k));
}

static enum cushim_status run_qkv(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_gemv_qkv_q4k_f32(
        c->device[QKV_W], c->device[QKV_X], c->device[QKV_NORM], c->device[QKV_COS],
        c->device[QKV_SIN], c->device[QKV_POSITION], c->device[QKV_Q], c->device[QKV_KEYS],
        c->device[QKV_VALUES], EPS, s[QKV_Q_HEADS], s[QKV_KV_HEADS], s[QKV_DIM], s[QKV_K], MAX_LEN,
        position_stride(c), head_stride(c), c->device[QKV_SCRATCH],
        cushim_gemv_q4k_scratch(rows_of(c), s[QKV_K]), stream);
}

static void ref_qkv(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_gemv_qkv_q4k_f32_ref(c->host[QKV_W], c->host[QKV_X], c->host[QKV_NORM], c->host[QKV_COS],
                                c->host[QKV_SIN], c->host[QKV_POSITION], c->host[QKV_Q],
                                c->host[QKV_KEYS], c->host[QKV_VALUES], EPS, s[QKV_Q_HEADS],
                                s[QKV_KV_HEADS], s[QKV_DIM], s[QKV_K], MAX_LEN, position_stride(c),
                                head_stride(c));
}

/* The row from which an element of an output comes; false if it does not change. */
static bool row_of_output(const struct kernel_case *c, int operand, int64_t i, int64_t *row) {
    int64_t dim = c->sizes[QKV_DIM], n_q = c->sizes[QKV_Q_HEADS], n_kv = c->sizes[QKV_KV_HEADS];
    int32_t position = *(const int32_t *)c->host[QKV_POSITION];
    if (operand == QKV_Q) {
        *row = i;
        return position >= 0 && position < MAX_LEN;
    }
    int64_t of_head = i / head_stride(c) % n_kv, of_position = i / position_stride(c) % MAX_LEN;
    *row = (n_q + (operand == QKV_VALUES ? n_kv : 0) + of_head) * dim + i % dim;
    return of_position == position;
}

static double bound_qkv(const struct kernel_case *c, int operand, size_t i) {
    int64_t k = c->sizes[QKV_K], dim = c->sizes[QKV_DIM], row;
    const float *x = c->host[QKV_X], *norm = c->host[QKV_NORM];
    if (!row_of_output(c, operand, (int64_t)i, &row))
        return 0;
    int64_t partner = row % dim < dim / 2 ? row + dim / 2 : row - dim / 2;
    double magnitude = terms_of(c->host[QKV_W], row, x, norm, k).magnitude;
    if (operand != QKV_VALUES)
        magnitude += terms_of(c->host[QKV_W], partner, x, norm, k).magnitude;
    return 0x1p-20 * rstd_of(x, norm, k) * magnitude + lost_in_blocks(k, LARGEST_WEIGHT);
}

static const struct kernel_subject gemv_qkv = {.name = "gemv_qkv_q4k_f32",
                                               .n_sizes = 6,
                                               .lay_out = lay_out_qkv,
                                               .run = run_qkv,
                                               .ref = ref_qkv,
                                               .tolerance = {.nmse = 1e-12, .bound = bound_qkv}};

static struct kernel_case *add_qkv(struct kernel_table *table, const char *note, int64_t n_q,
                                   int64_t n_kv, int64_t dim, int64_t k) {
    return table_add(table, &gemv_qkv, note, (int64_t[]){n_q, n_kv, dim, k, 1, n_q % 2}, NULL);
}

static void add_all_qkv(struct kernel_table *table) {
    static const int64_t sizes[][4] = {{0, 0, 16, 256}, {1, 1, 16, 0},    {1, 1, 16, 256},
                                       {4, 2, 64, 512}, {3, 1, 128, 768}, {2, 2, 48, 256},
                                       {0, 1, 32, 256}, {2, 0, 32, 1280}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add_qkv(table, NULL, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
    table_add(table, &gemv_qkv, "no norm", (int64_t[]){2, 1, 32, 512, 0, 0}, NULL);
    add_qkv(table, "an odd half", 2, 1, 6, 256);
    add_qkv(table, "half is 12", 5, 2, 24, 256);
    add_qkv(table, "blocks stay", 36, 4, 64, 256);
    add_qkv(table, "no such position", 2, 1, 32, 256)->operands[QKV_POSITION].make =
        make_no_position;
    add_qkv(table, "no such position, an odd half", 2, 1, 6, 256)->operands[QKV_POSITION].make =
        make_no_position;
    add_qkv(table, "wide spread", 2, 1, 32, 512)->operands[QKV_X].make = make_wide_spread;
    add_qkv(table, "w off 16", 2, 1, 32, 512)->operands[QKV_W].offset = 2;
    add_qkv(table, "x off 16", 2, 1, 32, 512)->operands[QKV_X].offset = 4;
    add_qkv(table, "norm off 16", 2, 1, 32, 512)->operands[QKV_NORM].offset = 4;
}

void add_ends(struct kernel_table *table) {
    add_all_add(table);
    add_all_gate(table);
    add_all_qkv(table);
}
