/* Products of floats: a matrix with a column, and many small matrices. */
#include <math.h>

#include "kernels/tests/cases/cases_gemv.h"

void make_late_infinity(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    if (n)
        ((float *)values)[n - 1] = INFINITY;
}

/* ---- a matrix with a column ---- */

enum { A, X, Y };
enum { SIZE_M, SIZE_N };

static void lay_out_gemv(struct kernel_case *c) {
    size_t m = (size_t)c->sizes[SIZE_M], n = (size_t)c->sizes[SIZE_N];
    case_operand(c, "a", TYPE_F32, ROLE_IN, m * n)->make = make_gauss_f32;
    case_operand(c, "x", TYPE_F32, ROLE_IN, n)->make = make_outliers_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, m);
}

static enum cushim_status run_gemv(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemv_f32(c->device[A], c->device[X], c->device[Y], c->sizes[SIZE_M],
                           c->sizes[SIZE_N], stream);
}

static void ref_gemv(const struct kernel_case *c) {
    cushim_gemv_f32_ref(c->host[A], c->host[X], c->host[Y], c->sizes[SIZE_M], c->sizes[SIZE_N]);
}

static double bound_gemv(const struct kernel_case *c, int operand, size_t i) {
    int64_t n = c->sizes[SIZE_N];
    double sum = 0;
    (void)operand;
    for (int64_t at = 0; at < n; at++)
        sum += fabs((double)((float *)c->host[A])[(int64_t)i * n + at] * ((float *)c->host[X])[at]);
    return sum * 0x1p-21;
}

static double flops_gemv(const struct kernel_case *c) {
    return 2.0 * (double)c->sizes[SIZE_M] * (double)c->sizes[SIZE_N];
}

static const struct kernel_subject gemv_f32 = {.name = "gemv_f32",
                                               .n_sizes = 2,
                                               .lay_out = lay_out_gemv,
                                               .run = run_gemv,
                                               .ref = ref_gemv,
                                               .tolerance = {.nmse = 1e-12, .bound = bound_gemv},
                                               .flops = flops_gemv};

/* Of one sign and with bits to lose, so that a single running sum would drift. */
static void make_thirds(struct kernel_draw *draw, void *values, size_t n) {
    float third = (float)(1 + draw_uniform(draw) / 8) / 3;
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = third;
}

static void make_subnormal(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)ldexp(draw_gauss(draw), -130);
}

static void add_gemv(struct kernel_table *table) {
    static const int64_t rows[] = {1, 2, 3, 4, 5, 33};
    static const int64_t cols[] = {0,   1,   2,   3,   5,   7,    31,   32,   33,   127,  128, 129,
                                   255, 256, 257, 511, 512, 1000, 1023, 1024, 1025, 4096, 8191};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
            table_add(table, &gemv_f32, NULL, (int64_t[]){rows[r], cols[i]}, NULL);
    }
    static const int64_t sizes[][2] = {
        {0, 7},      {1, 8192},  {1, 8193},  {3, 16384},  {2, 28672},  {1, 100001}, {1, 131072},
        {200, 9000}, {1100, 40}, {1101, 41}, {2300, 300}, {2301, 301}, {40000, 4},  {40001, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &gemv_f32, NULL, sizes[i], NULL);
    table_add_offsets(table, table_add(table, &gemv_f32, NULL, (int64_t[]){3, 260}, NULL));
    table_add_offsets(table, table_add(table, &gemv_f32, NULL, (int64_t[]){2, 8192}, NULL));
    table_add_offsets(table, table_add(table, &gemv_f32, NULL, (int64_t[]){2200, 12}, NULL));
    struct kernel_case *c;
    c = table_add(table, &gemv_f32, "one sign", (int64_t[]){3, 28672}, NULL);
    c->operands[A].make = c->operands[X].make = make_thirds;
    c = table_add(table, &gemv_f32, "one sign", (int64_t[]){2200, 1000}, NULL);
    c->operands[A].make = c->operands[X].make = make_thirds;
    c = table_add(table, &gemv_f32, "infinity", (int64_t[]){9, 515}, NULL);
    c->operands[X].make = make_late_infinity;
    c = table_add(table, &gemv_f32, "infinity", (int64_t[]){9, 516}, NULL);
    c->operands[A].make = make_late_infinity;
    c = table_add(table, &gemv_f32, "subnormal", (int64_t[]){9, 516}, NULL);
    c->operands[X].make = make_subnormal;
    c = table_add(table, &gemv_f32, "zeros", (int64_t[]){9, 516}, NULL);
    c->operands[X].make = make_zero;
}

/* ---- many small ones ---- */

enum { SMALL_A, SMALL_B, SMALL_C };
enum { SMALL_M, SMALL_N, SMALL_K, STRIDE_A, STRIDE_B, STRIDE_C, BATCH };

/* Elements of an operand: up to the end of the last matrix. */
static size_t extent(const struct kernel_case *c, int stride, int64_t n_of_matrix) {
    return c->sizes[BATCH] && n_of_matrix
               ? (size_t)((c->sizes[BATCH] - 1) * c->sizes[stride] + n_of_matrix)
               : 0;
}

static void lay_out_small(struct kernel_case *c) {
    int64_t m = c->sizes[SMALL_M], n = c->sizes[SMALL_N], k = c->sizes[SMALL_K];
    case_operand(c, "a", TYPE_F32, ROLE_IN, extent(c, STRIDE_A, m * k))->make = make_gauss_f32;
    case_operand(c, "b", TYPE_F32, ROLE_IN, extent(c, STRIDE_B, k * n))->make = make_gauss_f32;
    case_operand(c, "c", TYPE_F32, ROLE_OUT, extent(c, STRIDE_C, m * n));
}

static enum cushim_status run_small(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemm_batched_small_f32(c->device[SMALL_A], c->device[SMALL_B], c->device[SMALL_C],
                                         c->sizes[SMALL_M], c->sizes[SMALL_N], c->sizes[SMALL_K],
                                         c->sizes[STRIDE_A], c->sizes[STRIDE_B], c->sizes[STRIDE_C],
                                         c->sizes[BATCH], stream);
}

static void ref_small(const struct kernel_case *c) {
    cushim_gemm_batched_small_f32_ref(c->host[SMALL_A], c->host[SMALL_B], c->host[SMALL_C],
                                      c->sizes[SMALL_M], c->sizes[SMALL_N], c->sizes[SMALL_K],
                                      c->sizes[STRIDE_A], c->sizes[STRIDE_B], c->sizes[STRIDE_C],
                                      c->sizes[BATCH]);
}

/* Nothing is written between the matrices of c: 0. */
static double bound_small(const struct kernel_case *c, int operand, size_t i) {
    int64_t m = c->sizes[SMALL_M], n = c->sizes[SMALL_N], k = c->sizes[SMALL_K];
    int64_t which = c->sizes[BATCH] > 1 ? (int64_t)i / c->sizes[STRIDE_C] : 0;
    int64_t at = (int64_t)i - which * c->sizes[STRIDE_C], row = at / n, col = at % n;
    const float *a = (float *)c->host[SMALL_A] + which * c->sizes[STRIDE_A];
    const float *b = (float *)c->host[SMALL_B] + which * c->sizes[STRIDE_B];
    double sum = 0;
    (void)operand;
    if (row >= m)
        return 0;
    for (int64_t j = 0; j < k; j++)
        sum += fabs((double)a[row * k + j] * b[j * n + col]);
    return sum * 0x1p-21;
}

static double flops_small(const struct kernel_case *c) {
    return 2.0 * (double)(c->sizes[SMALL_M] * c->sizes[SMALL_N] * c->sizes[SMALL_K]) *
           (double)c->sizes[BATCH];
}

static const struct kernel_subject gemm_batched_small = {.name = "gemm_batched_small_f32",
                                                         .n_sizes = 7,
                                                         .lay_out = lay_out_small,
                                                         .run = run_small,
                                                         .ref = ref_small,
                                                         .tolerance = {.bound = bound_small},
                                                         .flops = flops_small};

/* Matrices side by side, with this many elements between them. */
static struct kernel_case *add_small(struct kernel_table *table, const char *note, int64_t m,
                                     int64_t n, int64_t k, int64_t between, int64_t batch) {
    return table_add(table, &gemm_batched_small, note,
                     (int64_t[]){m, n, k, m * k + between, k * n + between, m * n + between, batch},
                     NULL);
}

static void add_batched(struct kernel_table *table) {
    static const int64_t edges[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 33, 63, 64};
    enum { N_EDGES = sizeof edges / sizeof *edges };
    for (int i = 0; i < N_EDGES; i++) {
        int64_t m = edges[i], n = edges[(i * 5 + 3) % N_EDGES], k = edges[(i * 3 + 7) % N_EDGES];
        add_small(table, NULL, m, n, k, 0, 3);
        add_small(table, NULL, n, k, m, 4, 2);
        add_small(table, "with gaps", k, m, n, i % 5, 5);
        add_small(table, NULL, m, m, m, 0, 7);
    }
    static const int64_t sizes[][5] = {
        {0, 3, 3, 0, 2},      {3, 0, 3, 0, 2},    {3, 3, 0, 0, 2},    {3, 3, 3, 0, 0},
        {64, 64, 64, 0, 1},   {64, 64, 64, 0, 5}, {64, 64, 64, 4, 2}, {63, 62, 61, 1, 3},
        {1, 1, 64, 0, 300},   {64, 1, 1, 0, 40},  {1, 64, 1, 0, 40},  {64, 1, 64, 0, 9},
        {1, 64, 64, 0, 9},    {4, 4, 4, 0, 1000}, {3, 3, 3, 0, 1001}, {2, 2, 2, 0, 9000},
        {16, 16, 16, 0, 130}, {1, 1, 1, 0, 1},    {40, 50, 0, 0, 2},  {36, 64, 3, 0, 2},
        {64, 36, 33, 2, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add_small(table, NULL, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], sizes[i][4]);
    table_add(table, &gemm_batched_small, "one a for all", (int64_t[]){8, 12, 16, 0, 192, 96, 20},
              NULL);
    table_add(table, &gemm_batched_small, "one b for all", (int64_t[]){8, 12, 16, 128, 0, 96, 20},
              NULL);
    table_add(table, &gemm_batched_small, "overlapping inputs",
              (int64_t[]){8, 12, 16, 4, 1, 96, 20}, NULL);
    table_add(table, &gemm_batched_small, "strides of one count for nothing",
              (int64_t[]){8, 12, 16, 0, 7, 0, 1}, NULL);
    table_add_offsets(table, add_small(table, NULL, 8, 12, 16, 0, 3));
    table_add_offsets(table, add_small(table, NULL, 33, 20, 8, 0, 2));
    table_add_offsets(table, add_small(table, NULL, 36, 40, 8, 0, 2));
    add_small(table, "more of them than a grid", 1, 1, 1, 0, 40000);
    add_small(table, "infinity", 5, 6, 7, 0, 3)->operands[SMALL_A].make = make_late_infinity;
    add_small(table, "infinity", 5, 6, 7, 0, 3)->operands[SMALL_B].make = make_late_infinity;
    add_small(table, "infinity", 37, 38, 7, 0, 3)->operands[SMALL_A].make = make_late_infinity;
    add_small(table, "infinity", 37, 38, 7, 0, 3)->operands[SMALL_B].make = make_late_infinity;
}

/* ---- halves ---- */

static void lay_out_f16(struct kernel_case *c) {
    size_t m = (size_t)c->sizes[SIZE_M], n = (size_t)c->sizes[SIZE_N];
    case_operand(c, "a", TYPE_F16, ROLE_IN, m * n)->make = make_gauss_f16;
    case_operand(c, "x", TYPE_F16, ROLE_IN, n)->make = make_gauss_f16;
    case_operand(c, "y", TYPE_F16, ROLE_OUT, m);
}

static enum cushim_status run_f16(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemv_f16(c->device[A], c->device[X], c->device[Y], c->sizes[SIZE_M],
                           c->sizes[SIZE_N], stream);
}

static void ref_f16(const struct kernel_case *c) {
    cushim_gemv_f16_ref(c->host[A], c->host[X], c->host[Y], c->sizes[SIZE_M], c->sizes[SIZE_N]);
}

/* Of the sum, and a step of the result, whose least is 2^-24. */
static double bound_f16(const struct kernel_case *c, int operand, size_t i) {
    size_t n = (size_t)c->sizes[SIZE_N];
    double sum = 0, result = fabs(value_of(TYPE_F16, c->host[operand], i));
    for (size_t at = 0; at < n; at++)
        sum +=
            fabs(value_of(TYPE_F16, c->host[A], i * n + at) * value_of(TYPE_F16, c->host[X], at));
    return sum * 0x1p-20 + fmax(result * 0x1p-10, 0x1p-24);
}

static const struct kernel_subject gemv_f16 = {.name = "gemv_f16",
                                               .n_sizes = 2,
                                               .lay_out = lay_out_f16,
                                               .run = run_f16,
                                               .ref = ref_f16,
                                               .tolerance = {.bound = bound_f16},
                                               .flops = flops_gemv};

static void add_f16(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 7},    {3, 0},    {1, 1},    {2, 7},
                                       {3, 8},    {9, 31},   {8, 256},  {17, 264},
                                       {5, 4096}, {2, 4097}, {2, 8192}, {300, 40}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &gemv_f16, NULL, sizes[i], NULL);
    table_add_offsets(table, table_add(table, &gemv_f16, NULL, sizes[7], NULL));
    table_add(table, &gemv_f16, "special values", sizes[7], NULL)->operands[A].make =
        make_special_f16;
}

void add_dense(struct kernel_table *table) {
    add_f16(table);
    add_gemv(table);
    add_batched(table);
}
