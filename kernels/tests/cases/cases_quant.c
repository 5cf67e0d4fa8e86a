/*
 * Dequantisation: real blocks and blocks at every edge, compared bit by bit.  Products of the same
 * formats.
 */
#include <math.h>
#include <string.h>

#include "kernels/tests/frame/case.h"
#include "kernels/tests/cases/cases_gemv.h"
#include "kernels/tests/cases/cases_q4k.h"
#include "kernels/tests/frame/terms_quantised.h"

enum { W, Y };
enum { SIZE_ROWS, SIZE_K, SIZE_N, HAS_NO_SCRATCH };

static void lay_out(struct kernel_case *c) {
    size_t n = (size_t)(c->sizes[SIZE_ROWS] * c->sizes[SIZE_K]);
    case_operand(c, "w", TYPE_U8, ROLE_IN, n / Q4K_VALUES * Q4K_BYTES)->make = make_q4k;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n);
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_dequant_q4k_f32(c->device[W], c->device[Y], c->sizes[SIZE_ROWS], c->sizes[SIZE_K],
                                  stream);
}

static void ref(const struct kernel_case *c) {
    cushim_dequant_q4k_f32_ref(c->host[W], c->host[Y], c->sizes[SIZE_ROWS], c->sizes[SIZE_K]);
}

static const struct kernel_subject dequant_q4k = {
    .name = "dequant_q4k_f32", .n_sizes = 2, .lay_out = lay_out, .run = run, .ref = ref};

static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t rows,
                               int64_t k, kernel_make *make) {
    struct kernel_case *c = table_add(table, &dequant_q4k, note, (int64_t[]){rows, k}, NULL);
    c->operands[W].make = make;
    return c;
}

/* ---- five and six bits ---- */

/* Any bytes, but each half of a block is a number: `bytes` of a block, halves at `at` and behind.
 */
static void make_blocks(struct kernel_draw *draw, void *values, size_t n, size_t bytes, size_t at,
                        size_t n_halves) {
    make_bits_u8(draw, values, n);
    for (size_t block = 0; block < n; block += bytes) {
        for (size_t i = 0; i < n_halves; i++)
            value_set(TYPE_F16, (uint8_t *)values + block + at, i, draw_gauss(draw) / 16);
    }
}

static void make_q5_0(struct kernel_draw *draw, void *values, size_t n) {
    make_blocks(draw, values, n, 22, 0, 1);
}

static void make_q5k(struct kernel_draw *draw, void *values, size_t n) {
    make_blocks(draw, values, n, 176, 0, 2);
}

static void make_q6k(struct kernel_draw *draw, void *values, size_t n) {
    make_blocks(draw, values, n, 210, 208, 1);
}

enum { OF_X = 1, OF_Y, SCRATCH };

/* Sums of these grow with each product, so that what units truncate adds up. */
static void make_positive(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)fabs(draw_gauss(draw));
}

static const struct {
    const char *note;
    kernel_make *make;
} columns[] = {{"not finite", make_seldom_finite},
               {"wide spread", make_wide_spread},
               {"tiny", make_tiny},
               {"huge", make_huge},
               {"all positive", make_positive}};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static size_t scratch_bytes(const struct kernel_case *c) {
    return c->sizes[HAS_NO_SCRATCH] ? 0 : cushim_gemm_scratch(c->sizes[SIZE_K], c->sizes[SIZE_N]);
}

/* The subject gemm_<name>; the bound is also that of gemv_<name>, which has one column. */
#define MANY_COLUMNS(name_, format, values, bytes, alignment)                                      \
    static void lay_out_gemm_##name_(struct kernel_case *c) {                                      \
        size_t m = (size_t)c->sizes[SIZE_ROWS], k = (size_t)c->sizes[SIZE_K];                      \
        size_t n = (size_t)c->sizes[SIZE_N];                                                       \
        case_operand(c, "w", TYPE_U8, ROLE_IN, m *k / (values) * (bytes))->make = make_##name_;    \
        case_operand(c, "b", TYPE_F32, ROLE_IN, k *n)->make = make_gauss_f32;                      \
        case_operand(c, "c", TYPE_F32, ROLE_OUT, m *n);                                            \
        case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_bytes(c) / sizeof(float));      \
    }                                                                                              \
    static enum cushim_status run_gemm_##name_(const struct kernel_case *c,                        \
                                               struct CUstream_st *stream) {                       \
        return cushim_gemm_##name_##_f32(c->device[W], c->device[OF_X], c->device[OF_Y],           \
                                         c->sizes[SIZE_ROWS], c->sizes[SIZE_K], c->sizes[SIZE_N],  \
                                         c->device[SCRATCH], scratch_bytes(c), stream);            \
    }                                                                                              \
    static void ref_gemm_##name_(const struct kernel_case *c) {                                    \
        cushim_gemm_##name_##_f32_ref(c->host[W], c->host[OF_X], c->host[OF_Y],                    \
                                      c->sizes[SIZE_ROWS], c->sizes[SIZE_K], c->sizes[SIZE_N]);    \
    }                                                                                              \
    static double bound_##name_(const struct kernel_case *c, int operand, size_t i) {              \
        int64_t k = c->sizes[SIZE_K];                                                              \
        size_t n = c->subject->n_sizes > SIZE_N ? (size_t)c->sizes[SIZE_N] : 1;                    \
        const uint8_t *w = (const uint8_t *)c->host[W] + i / n * (size_t)k / (values) * (bytes);   \
        const float *b = (const float *)c->host[OF_X] + i % n;                                     \
        (void)operand;                                                                             \
        return 0x1p-20 * terms_quantised(format, w, b, k, (int64_t)n);                             \
    }                                                                                              \
    static const struct kernel_subject gemm_##name_ = {.name = "gemm_" #name_ "_f32",              \
                                                       .n_sizes = 4,                               \
                                                       .lay_out = lay_out_gemm_##name_,            \
                                                       .run = run_gemm_##name_,                    \
                                                       .ref = ref_gemm_##name_,                    \
                                                       .tolerance = {.bound = bound_##name_}};     \
    static void add_many_columns_##name_(struct kernel_table *table) {                             \
        static const int64_t sizes[][4] = {                                                        \
            {0, 256, 3},   {3, 256, 0},    {2, 0, 3},       {5, 256, 1},   {1, 256, 2},            \
            {63, 512, 9},  {65, 256, 64},  {64, 768, 65},   {3, 4096, 2},  {70, 256, 130},         \
            {17, 2048, 2}, {33, 2048, 3},  {130, 2048, 8},  {3, 1024, 16}, {257, 256, 17},         \
            {2, 256, 512}, {3, 256, 9, 1}, {5, 768, 65, 1}, {3, 6144, 5},  {2, 32768, 2},          \
            {2, 34816, 4}, {3, 512, 33},   {129, 256, 8},   {35, 1280, 4}};                        \
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)                                \
            table_add(table, &gemm_##name_, NULL, sizes[i], NULL);                                 \
        table_add(table, &gemm_##name_, "one block", (int64_t[4]){5, values, 4}, NULL);            \
        table_add(table, &gemm_##name_, "2,048 columns", (int64_t[4]){2, 256, 2048}, NULL);        \
        table_add(table, &gemm_##name_, "w off 16", sizes[5], NULL)->operands[W].offset = 2;       \
        table_add(table, &gemm_##name_, "w off 16", sizes[11], NULL)->operands[W].offset = 2;      \
        table_add(table, &gemm_##name_, "w off 16", sizes[16], NULL)->operands[W].offset = 2;      \
        if (alignment == 1)                                                                        \
            table_add(table, &gemm_##name_, "odd address", sizes[4], NULL)->operands[W].offset =   \
                1;                                                                                 \
        static const unsigned paths[] = {4, 11, 13, 16, 21, 23};                                   \
        enum { N_PATHS = sizeof paths / sizeof *paths };                                           \
        for (unsigned i = 0; i < N_COLUMNS * N_PATHS; i++) {                                       \
            struct kernel_case *c = table_add(table, &gemm_##name_, columns[i / N_PATHS].note,     \
                                              sizes[paths[i % N_PATHS]], NULL);                    \
            c->operands[OF_X].make = columns[i / N_PATHS].make;                                    \
        }                                                                                          \
        /* Blocks that stay, whose rows are multiples of 16 bytes: tiles that are not whole, a     \
         * step for each warp or more, two tiles and more for a block. */                          \
        enum { K = (bytes) % 16 == 0 || (values) == 32 ? 512 : 2048 };                             \
        static const int64_t of_blocks[][4] = {{2101, K, 2}, {2112, 4096 + K, 2}, {4229, K, 2}};   \
        for (unsigned i = 0; i < sizeof of_blocks / sizeof *of_blocks; i++)                        \
            table_add(table, &gemm_##name_, "blocks stay", of_blocks[i], NULL);                    \
        for (unsigned i = 0; i < N_COLUMNS; i++)                                                   \
            table_add(table, &gemm_##name_, columns[i].note, of_blocks[0], NULL)                   \
                ->operands[OF_X]                                                                   \
                .make = columns[i].make;                                                           \
        table_add(table, &gemm_##name_, "b off 16, blocks stay", of_blocks[0], NULL)               \
            ->operands[OF_X]                                                                       \
            .offset = 8;                                                                           \
        table_add(table, &gemm_##name_, "two blocks share k", (int64_t[4]){2101, 8192 + K, 2},     \
                  NULL)                                                                            \
            ->operands[OF_X]                                                                       \
            .make = make_wide_spread;                                                              \
    }

/* The subjects of a format: dequant_<name>, gemv_<name>, gemm_<name>. */
#define FORMAT(name_, format, values, bytes)                                                       \
    MANY_COLUMNS(name_, format, values, bytes, 1)                                                  \
    FEW_COLUMNS(name_, values, bytes)

#define FEW_COLUMNS(name_, values, bytes)                                                          \
    static void lay_out_##name_(struct kernel_case *c) {                                           \
        size_t n = (size_t)(c->sizes[SIZE_ROWS] * c->sizes[SIZE_K]);                               \
        case_operand(c, "w", TYPE_U8, ROLE_IN, n / (values) * (bytes))->make = make_##name_;       \
        case_operand(c, "y", TYPE_F32, ROLE_OUT, n);                                               \
    }                                                                                              \
    static enum cushim_status run_##name_(const struct kernel_case *c,                             \
                                          struct CUstream_st *stream) {                            \
        return cushim_dequant_##name_##_f32(c->device[W], c->device[Y], c->sizes[SIZE_ROWS],       \
                                            c->sizes[SIZE_K], stream);                             \
    }                                                                                              \
    static void ref_##name_(const struct kernel_case *c) {                                         \
        cushim_dequant_##name_##_f32_ref(c->host[W], c->host[Y], c->sizes[SIZE_ROWS],              \
                                         c->sizes[SIZE_K]);                                        \
    }                                                                                              \
    static const struct kernel_subject dequant_##name_ = {.name = "dequant_" #name_ "_f32",        \
                                                          .n_sizes = 2,                            \
                                                          .lay_out = lay_out_##name_,              \
                                                          .run = run_##name_,                      \
                                                          .ref = ref_##name_};                     \
    static void lay_out_gemv_##name_(struct kernel_case *c) {                                      \
        size_t n = (size_t)(c->sizes[SIZE_ROWS] * c->sizes[SIZE_K]);                               \
        case_operand(c, "w", TYPE_U8, ROLE_IN, n / (values) * (bytes))->make = make_##name_;       \
        case_operand(c, "x", TYPE_F32, ROLE_IN, (size_t)c->sizes[SIZE_K])->make = make_gauss_f32;  \
        case_operand(c, "y", TYPE_F32, ROLE_OUT, (size_t)c->sizes[SIZE_ROWS]);                     \
    }                                                                                              \
    static enum cushim_status run_gemv_##name_(const struct kernel_case *c,                        \
                                               struct CUstream_st *stream) {                       \
        return cushim_gemv_##name_##_f32(c->device[W], c->device[OF_X], c->device[OF_Y],           \
                                         c->sizes[SIZE_ROWS], c->sizes[SIZE_K], stream);           \
    }                                                                                              \
    static void ref_gemv_##name_(const struct kernel_case *c) {                                    \
        cushim_gemv_##name_##_f32_ref(c->host[W], c->host[OF_X], c->host[OF_Y],                    \
                                      c->sizes[SIZE_ROWS], c->sizes[SIZE_K]);                      \
    }                                                                                              \
    static const struct kernel_subject gemv_##name_ = {.name = "gemv_" #name_ "_f32",              \
                                                       .n_sizes = 2,                               \
                                                       .lay_out = lay_out_gemv_##name_,            \
                                                       .run = run_gemv_##name_,                    \
                                                       .ref = ref_gemv_##name_,                    \
                                                       .tolerance = {.bound = bound_##name_}};     \
    static void add_##name_(struct kernel_table *table) {                                          \
        static const int64_t sizes[][2] = {{0, 256}, {1, 0},    {1, 256},   {3, 512},              \
                                           {9, 768}, {17, 256}, {2, 14336}, {300, 256}};           \
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {                              \
            table_add(table, &dequant_##name_, NULL, sizes[i], NULL);                              \
            table_add(table, &gemv_##name_, NULL, sizes[i], NULL);                                 \
        }                                                                                          \
        table_add(table, &gemv_##name_, "one block", (int64_t[]){5, values}, NULL);                \
        table_add(table, &dequant_##name_, "odd address", sizes[3], NULL)->operands[W].offset = 1; \
        table_add(table, &gemv_##name_, "odd address", sizes[3], NULL)->operands[W].offset = 1;    \
        /* Blocks that stay: tiles that are not whole, more of k than a block has warps for, two   \
         * tiles and more for a block. */                                                          \
        for (unsigned i = 0; i < N_COLUMNS; i++)                                                   \
            table_add(table, &gemv_##name_, columns[i].note, (int64_t[]){2101, 2048}, NULL)        \
                ->operands[OF_X]                                                                   \
                .make = columns[i].make;                                                           \
        table_add(table, &gemv_##name_, "blocks stay", (int64_t[]){2101, 6144}, NULL);             \
        table_add(table, &gemv_##name_, "blocks stay", (int64_t[]){4229, 2048}, NULL);             \
        table_add(table, &gemv_##name_, "two blocks share k", (int64_t[]){2101, 19712}, NULL)      \
            ->operands[OF_X]                                                                       \
            .make = make_wide_spread;                                                              \
        add_many_columns_##name_(table);                                                           \
    }

MANY_COLUMNS(q4k, QUANT_Q4K, 256, 144, 2)
FORMAT(q5_0, QUANT_Q5_0, 32, 22)
FORMAT(q5k, QUANT_Q5K, 256, 176)
FORMAT(q6k, QUANT_Q6K, 256, 210)

/* Rows at even places, of a matrix that begins and ends at multiples of 16 bytes: for blocks that
 * stay, slices, and tiles of both sizes, without scratch and with it. */
static void add_odd_rows_of_q6k(struct kernel_table *table) {
    static const int64_t sizes[][4] = {{2104, 768, 2},  {2104, 4352, 2},  {24, 1280, 3},
                                       {40, 3328, 8},   {24, 768, 16},    {264, 768, 17},
                                       {264, 1280, 65}, {264, 768, 40, 1}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &gemm_q6k, "odd rows", sizes[i], NULL);
    table_add(table, &gemv_q6k, "odd rows", sizes[0], NULL);
    table_add(table, &gemv_q6k, "odd rows", sizes[1], NULL);
}

/* ---- two bits ---- */

static void lay_out_ternary(struct kernel_case *c) {
    size_t m = (size_t)c->sizes[SIZE_ROWS], k = (size_t)c->sizes[SIZE_K];
    case_operand(c, "w", TYPE_U8, ROLE_IN, m * ((k + 3) / 4))->make = make_bits_u8;
    case_operand(c, "x", TYPE_F32, ROLE_IN, k)->make = make_outliers_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, m);
}

static enum cushim_status run_ternary(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemv_ternary_f32(c->device[W], c->device[OF_X], c->device[OF_Y],
                                   c->sizes[SIZE_ROWS], c->sizes[SIZE_K], stream);
}

static void ref_ternary(const struct kernel_case *c) {
    cushim_gemv_ternary_f32_ref(c->host[W], c->host[OF_X], c->host[OF_Y], c->sizes[SIZE_ROWS],
                                c->sizes[SIZE_K]);
}

static double bound_ternary(const struct kernel_case *c, int operand, size_t i) {
    int64_t k = c->sizes[SIZE_K];
    const uint8_t *row = (const uint8_t *)c->host[W] + i * (size_t)((k + 3) / 4);
    double terms = 0;
    (void)operand;
    for (int64_t j = 0; j < k; j++) {
        if ((row[j / 4] >> 2 * (j % 4)) % 2 == 0)
            terms += fabs((double)((const float *)c->host[OF_X])[j]);
    }
    return 0x1p-20 * terms;
}

static const struct kernel_subject gemv_ternary = {.name = "gemv_ternary_f32",
                                                   .n_sizes = 2,
                                                   .lay_out = lay_out_ternary,
                                                   .run = run_ternary,
                                                   .ref = ref_ternary,
                                                   .tolerance = {.bound = bound_ternary}};

static void add_ternary(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 5},   {3, 0},     {1, 1},   {2, 3},
                                       {7, 4},   {9, 127},   {8, 128}, {17, 129},
                                       {3, 515}, {2, 14336}, {300, 66}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &gemv_ternary, NULL, sizes[i], NULL);
    table_add(table, &gemv_ternary, "not finite", sizes[9], NULL)->operands[OF_X].make =
        make_seldom_finite;
    table_add(table, &gemv_ternary, "odd address", sizes[8], NULL)->operands[W].offset = 1;
    table_add(table, &gemv_ternary, "x off 16", sizes[8], NULL)->operands[OF_X].offset = 4;
}

/* ---- e2m1 ---- */

enum { E2M1_W, E2M1_SCALES, E2M1_X, E2M1_Y };

static void lay_out_e2m1(struct kernel_case *c) {
    size_t m = (size_t)c->sizes[SIZE_ROWS], k = (size_t)c->sizes[SIZE_K];
    case_operand(c, "w", TYPE_U8, ROLE_IN, m * k / 2)->make = make_bits_u8;
    case_operand(c, "scales", TYPE_F16, ROLE_IN, m * k / 16)->make = make_gauss_f16;
    case_operand(c, "x", TYPE_F16, ROLE_IN, k)->make = make_gauss_f16;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, m);
}

static enum cushim_status run_e2m1(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemv_e2m1_f16_f32(c->device[E2M1_W], c->device[E2M1_SCALES], c->device[E2M1_X],
                                    c->device[E2M1_Y], c->sizes[SIZE_ROWS], c->sizes[SIZE_K],
                                    stream);
}

static void ref_e2m1(const struct kernel_case *c) {
    cushim_gemv_e2m1_f16_f32_ref(c->host[E2M1_W], c->host[E2M1_SCALES], c->host[E2M1_X],
                                 c->host[E2M1_Y], c->sizes[SIZE_ROWS], c->sizes[SIZE_K]);
}

/* The reference of one row with magnitudes instead of the values sums the terms. */
static double bound_e2m1(const struct kernel_case *c, int operand, size_t i) {
    size_t k = (size_t)c->sizes[SIZE_K];
    const uint8_t *w = (const uint8_t *)c->host[E2M1_W] + i * k / 2;
    static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    double terms = 0;
    (void)operand;
    for (size_t j = 0; j < k; j++)
        terms += fabs(magnitudes[w[j / 2] >> 4 * (j % 2) & 7] *
                      value_of(TYPE_F16, c->host[E2M1_SCALES], (i * k + j) / 16) *
                      value_of(TYPE_F16, c->host[E2M1_X], j));
    return 0x1p-20 * terms;
}

static const struct kernel_subject gemv_e2m1 = {.name = "gemv_e2m1_f16_f32",
                                                .n_sizes = 2,
                                                .lay_out = lay_out_e2m1,
                                                .run = run_e2m1,
                                                .ref = ref_e2m1,
                                                .tolerance = {.bound = bound_e2m1}};

static void make_least_f16(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        value_set(TYPE_F16, values, i, 0x1p-20 * draw_gauss(draw));
}

static void add_e2m1(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 16},  {3, 0},    {1, 16},    {7, 32},  {8, 240},
                                       {9, 256}, {17, 272}, {2, 14336}, {300, 64}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &gemv_e2m1, NULL, sizes[i], NULL);
    table_add(table, &gemv_e2m1, "odd address", sizes[6], NULL)->operands[E2M1_W].offset = 1;
    table_add(table, &gemv_e2m1, "scales off 16", sizes[6], NULL)->operands[E2M1_SCALES].offset = 2;
    table_add(table, &gemv_e2m1, "x off 16", sizes[6], NULL)->operands[E2M1_X].offset = 6;
    struct kernel_case *c = table_add(table, &gemv_e2m1, "subnormal", sizes[5], NULL);
    c->operands[E2M1_SCALES].make = c->operands[E2M1_X].make = make_least_f16;
}

void cases_quant(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 256},  {1, 0},    {1, 256},  {1, 512},  {3, 256},
                                       {1, 4096}, {17, 768}, {31, 256}, {33, 512}, {3, 28672}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add(table, NULL, sizes[i][0], sizes[i][1], make_q4k);
    add(table, "many blocks", 2500, 256, make_q4k);
    add(table, "any bytes", 9, 1024, make_q4k_bits);
    add(table, "scales at their edges", 40, 256, make_q4k_edges);
    add(table, "no minimum", 5, 512, make_q4k_without_dmin);
    for (size_t offset = 2; offset < 16; offset += 2)
        add(table, "w off 16", 3, 512, make_q4k)->operands[W].offset = offset;
    for (size_t offset = 4; offset < 16; offset += 4)
        add(table, "y off 16", 3, 512, make_q4k)->operands[Y].offset = offset;
    struct kernel_case *c = add(table, "both off 16", 2, 512, make_q4k);
    c->operands[W].offset = 2;
    c->operands[Y].offset = 4;
    add_many_columns_q4k(table);
    add_ternary(table);
    add_e2m1(table);
    add_q5_0(table);
    add_q5k(table);
    add_q6k(table);
    add_odd_rows_of_q6k(table);
}
