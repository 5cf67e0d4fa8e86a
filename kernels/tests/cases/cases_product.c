/*
 * Products of matrices at any strides: every layout, the edges of tiles, what is added, and batches
 * that share a matrix; codes of e4m3.
 */
#include <math.h>

#include "kernels/tests/frame/case.h"

enum { A, B, C };
enum { BATCH, M, N, K, LAYOUT, N_SIZES }; /* LAYOUT: bits below */
enum { A_TURNED = 1, B_TURNED = 2, C_TURNED = 4, B_SHARED = 8, SPREAD = 16 };
enum { ALPHA, BETA };

/* A matrix of a batch; turned: its transpose is contiguous; spread: every third element. */
static struct cushim_matrix_strides strides_of(int64_t rows, int64_t columns, bool is_turned,
                                               bool is_shared, bool is_spread) {
    int64_t by = is_spread ? 3 : 1;
    struct cushim_matrix_strides strides = {by * rows * columns, by * columns, by};
    if (is_turned)
        strides.row = by, strides.column = by * rows;
    if (is_shared)
        strides.batch = 0;
    return strides;
}

static struct cushim_matrix_strides of_a(const struct kernel_case *c) {
    return strides_of(c->sizes[M], c->sizes[K], c->sizes[LAYOUT] & A_TURNED, false,
                      c->sizes[LAYOUT] & SPREAD);
}

static struct cushim_matrix_strides of_b(const struct kernel_case *c) {
    return strides_of(c->sizes[K], c->sizes[N], c->sizes[LAYOUT] & B_TURNED,
                      c->sizes[LAYOUT] & B_SHARED, false);
}

static struct cushim_matrix_strides of_c(const struct kernel_case *c) {
    return strides_of(c->sizes[M], c->sizes[N], c->sizes[LAYOUT] & C_TURNED, false, false);
}

static void lay_out_strided(struct kernel_case *c) {
    const int64_t *s = c->sizes;
    size_t of_spread = s[LAYOUT] & SPREAD ? 3 : 1;
    size_t n_of_b = (size_t)(s[LAYOUT] & B_SHARED ? 1 : s[BATCH]);
    case_operand(c, "a", TYPE_F32, ROLE_IN, (size_t)(s[BATCH] * s[M] * s[K]) * of_spread);
    case_operand(c, "b", TYPE_F32, ROLE_IN, n_of_b * (size_t)(s[K] * s[N]));
    case_operand(c, "c", TYPE_F32, c->scalars[BETA] == 0 ? ROLE_OUT : ROLE_BOTH,
                 (size_t)(s[BATCH] * s[M] * s[N]));
}

static enum cushim_status run_strided(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    struct cushim_matrix_strides a = of_a(c), b = of_b(c), out = of_c(c);
    enum cushim_status status = cushim_gemm_strided_f32(
        c->device[A], c->device[B], c->device[C], (float)c->scalars[ALPHA], (float)c->scalars[BETA],
        s[BATCH], s[M], s[N], s[K], &a, &b, &out, stream);
    a = b = out = (struct cushim_matrix_strides){-1, -1, -1}; /* a replay must not read them */
    return status;
}

static void ref_strided(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    struct cushim_matrix_strides a = of_a(c), b = of_b(c), out = of_c(c);
    cushim_gemm_strided_f32_ref(c->host[A], c->host[B], c->host[C], (float)c->scalars[ALPHA],
                                (float)c->scalars[BETA], s[BATCH], s[M], s[N], s[K], &a, &b, &out);
}

/*
 * 2^-20 of the sum of the terms' magnitudes.  What was added is not known any more; it is at most
 * the result and the terms.
 */
static double bound_strided(const struct kernel_case *c, int operand, size_t i) {
    const struct cushim_matrix_strides a = of_a(c), b = of_b(c);
    int64_t n = c->sizes[N], m = c->sizes[M], at = (int64_t)i % (m * n),
            batch = (int64_t)i / (m * n);
    int64_t row = c->sizes[LAYOUT] & C_TURNED ? at % m : at / n;
    int64_t col = c->sizes[LAYOUT] & C_TURNED ? at / m : at % n;
    double terms = 0;
    for (int64_t d = 0; d < c->sizes[K]; d++)
        terms +=
            fabs((double)((const float *)c->host[A])[batch * a.batch + row * a.row + d * a.column] *
                 ((const float *)c->host[B])[batch * b.batch + d * b.row + col * b.column]);
    terms *= fabs(c->scalars[ALPHA]);
    return 0x1p-20 *
           (terms +
            (c->scalars[BETA] == 0 ? 0 : terms + fabs(value_of(TYPE_F32, c->host[operand], i))));
}

static const struct kernel_subject gemm_strided = {.name = "gemm_strided_f32",
                                                   .n_sizes = N_SIZES,
                                                   .n_scalars = 2,
                                                   .lay_out = lay_out_strided,
                                                   .run = run_strided,
                                                   .ref = ref_strided,
                                                   .tolerance = {.bound = bound_strided}};

static void lay_out_e4m3(struct kernel_case *c) {
    const int64_t *s = c->sizes;
    case_operand(c, "a", TYPE_E4M3, ROLE_IN, (size_t)(s[M] * s[K]));
    case_operand(c, "b", TYPE_E4M3, ROLE_IN, (size_t)(s[K] * s[N]));
    case_operand(c, "c", TYPE_F16, ROLE_OUT, (size_t)(s[M] * s[N]));
}

static enum cushim_status run_e4m3(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_gemm_e4m3_f16(c->device[A], c->device[B], c->device[C], (float)c->scalars[0],
                                (float)c->scalars[1], s[M], s[N], s[K], stream);
}

static void ref_e4m3(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_gemm_e4m3_f16_ref(c->host[A], c->host[B], c->host[C], (float)c->scalars[0],
                             (float)c->scalars[1], s[M], s[N], s[K]);
}

/* A step of the half, because the sum may lie on the other side of the middle of two. */
static double bound_e4m3(const struct kernel_case *c, int operand, size_t i) {
    size_t n = (size_t)c->sizes[N], k = (size_t)c->sizes[K];
    double terms = 0, value = fabs(value_of(TYPE_F16, c->host[operand], i));
    for (size_t d = 0; d < k; d++)
        terms += fabs(value_of(TYPE_E4M3, c->host[A], i / n * k + d) *
                      value_of(TYPE_E4M3, c->host[B], d * n + i % n));
    return fmax(value * 0x1p-10, 0x1p-24) + 0x1p-20 * fabs(c->scalars[0] * c->scalars[1]) * terms;
}

static const struct kernel_subject gemm_e4m3 = {.name = "gemm_e4m3_f16",
                                                .n_sizes = 4,
                                                .n_scalars = 2,
                                                .lay_out = lay_out_e4m3,
                                                .run = run_e4m3,
                                                .ref = ref_e4m3,
                                                .tolerance = {.bound = bound_e4m3}};

/* Codes of which one in 500 is NaN. */
static void make_seldom_nan(struct kernel_draw *draw, void *values, size_t n) {
    make_codes_e4m3(draw, values, n);
    for (size_t i = 0; i < n; i++) {
        if (draw_bits(draw) % 500 == 0)
            ((uint8_t *)values)[i] = draw_bits(draw) % 2 ? 0x7F : 0xFF;
    }
}

void cases_product(struct kernel_table *table) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1},      {1, 0, 5, 3},    {0, 2, 3, 4},
                                       {1, 5, 0, 3},      {2, 3, 5, 0},    {1, 7, 9, 31},
                                       {1, 64, 64, 32},   {1, 65, 63, 33}, {3, 17, 70, 40},
                                       {1, 130, 66, 100}, {2, 4, 5, 700}};
    static const double factors[][2] = {{1, 0}, {-0.75, 0}, {1, 1}, {0.5, -2}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *s = sizes[i];
        for (int64_t layout = 0; layout < 2 * SPREAD; layout++) {
            /* each layout at one size, and each size in four */
            if (layout % 8 != (int64_t)i % 8 && i != 5 && i != 8)
                continue;
            table_add(table, &gemm_strided, NULL, (int64_t[]){s[0], s[1], s[2], s[3], layout},
                      factors[(i + (size_t)layout) % 4]);
        }
        if (s[0] != 1)
            continue;
        table_add(table, &gemm_e4m3, NULL, s, i % 2 ? (double[]){1, 1} : (double[]){-0.75, 0.5});
    }
    table_add(table, &gemm_strided, "many of a batch", (int64_t[]){1030, 1, 2, 1, 0}, factors[0]);
    table_add(table, &gemm_strided, "a long sum", (int64_t[]){1, 2, 3, 20000, 0}, factors[0]);
    table_add(table, &gemm_e4m3, "scales", (int64_t[]){1, 9, 11, 50}, (double[]){0x1p-9, 3});
    table_add(table, &gemm_e4m3, "to infinity", (int64_t[]){1, 9, 11, 50}, (double[]){64, 64});
    table_add(table, &gemm_e4m3, "NaN", (int64_t[]){1, 70, 66, 40}, (double[]){1, 0.25})
        ->operands[B]
        .make = make_seldom_nan;
    table_add_offsets(
        table, table_add(table, &gemm_e4m3, NULL, (int64_t[]){1, 5, 6, 40}, (double[]){1, 1}));
    table_add_offsets(
        table, table_add(table, &gemm_strided, NULL, (int64_t[]){2, 5, 6, 40, 0}, factors[2]));
}
