/*
 * Products with quantised matrices: every path by its number of columns, sizes around tiles, chunks
 * and slices, weights and columns at their edges.
 */
#include <math.h>
#include <string.h>

#include "kernels/tests/cases/cases_gemv.h"
#include "kernels/tests/frame/quantise.h"

enum { SCALES, VALUES, B, C, SCRATCH }; /* without separate scales: an operand of no elements */
enum { SIZE_M, SIZE_K, SIZE_N, HAS_NO_SCRATCH };

/* ---- weights ---- */

static const uint16_t edge_halves[] = {0,      1,      0x03FF, 0x0400, 0x3C00,
                                       0x7BFF, 0x8000, 0x8001, 0xBC00};
enum { N_EDGE_HALVES = sizeof edge_halves / sizeof *edge_halves };

static void draw_values(struct kernel_draw *draw, float values[Q_VALUES]) {
    int is_zero = draw_bits(draw) % 10 == 0;
    for (int i = 0; i < Q_VALUES; i++)
        values[i] = is_zero ? 0 : (float)draw_gauss(draw);
}

/* Scales and nibbles are made separately from the same values, with their own key. */
static void make_scales_q4_0(struct kernel_draw *draw, void *values, size_t n) {
    struct kernel_draw own = {7};
    uint8_t nibbles[Q4_0_BYTES];
    float of_block[Q_VALUES];
    (void)draw;
    for (size_t i = 0; i < n; i++) {
        draw_values(&own, of_block);
        quantise_q4_0(of_block, (uint16_t *)values + i, nibbles);
    }
}

static void make_nibbles_q4_0(struct kernel_draw *draw, void *values, size_t n) {
    struct kernel_draw own = {7};
    uint16_t scale;
    float of_block[Q_VALUES];
    (void)draw;
    for (size_t i = 0; i + Q4_0_BYTES <= n; i += Q4_0_BYTES) {
        draw_values(&own, of_block);
        quantise_q4_0(of_block, &scale, (uint8_t *)values + i);
    }
}

static void make_edge_halves(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)values)[i] = edge_halves[draw_bits(draw) % N_EDGE_HALVES];
}

/* In 0x80 every nibble is -8 or 0, in 0xFF 7; as bytes they are the least, 0, the largest. */
static void make_edge_bytes(struct kernel_draw *draw, void *values, size_t n) {
    static const uint8_t bytes[] = {0x00, 0xFF, 0x08, 0x80, 0x88, 0x7F, 0xF0};
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)values)[i] = bytes[draw_bits(draw) % sizeof bytes];
}

/* Some blocks of weights above 0 are infinite, and so are their sums with a positive column. */
static void make_infinite_halves(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)values)[i] = draw_bits(draw) % 16 ? 0x3C00 : 0x7C00;
}

static void make_nibbles_above_0(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)values)[i] = (uint8_t)(0x99 + draw_bits(draw) % 7 * 0x11);
}

static void make_q8_0(struct kernel_draw *draw, void *values, size_t n) {
    float of_block[Q_VALUES];
    for (size_t i = 0; i + Q8_0_BYTES <= n; i += Q8_0_BYTES) {
        draw_values(draw, of_block);
        quantise_q8_0(of_block, (uint8_t *)values + i);
    }
}

static void make_q8f(struct kernel_draw *draw, void *values, size_t n) {
    float of_block[Q_VALUES];
    for (size_t i = 0; i + Q8F_BYTES <= n; i += Q8F_BYTES) {
        draw_values(draw, of_block);
        quantise_q8f(of_block, (uint8_t *)values + i);
    }
}

static void make_edge_q8_0(struct kernel_draw *draw, void *values, size_t n) {
    make_edge_bytes(draw, values, n);
    for (size_t i = 0; i + Q8_0_BYTES <= n; i += Q8_0_BYTES)
        memcpy((uint8_t *)values + i, &edge_halves[draw_bits(draw) % N_EDGE_HALVES], 2);
}

static void make_edge_q8f(struct kernel_draw *draw, void *values, size_t n) {
    static const float scales[] = {0, -0.f, 0x1p-149f, 0x1.8p-130f, 0x1p-126f, 1, -1, 0x1p60f};
    make_edge_bytes(draw, values, n);
    for (size_t i = 0; i + Q8F_BYTES <= n; i += Q8F_BYTES)
        memcpy((uint8_t *)values + i, &scales[draw_bits(draw) % (sizeof scales / 4)], 4);
}

/* Rows of scales whose product with a small number is subnormal. */
static void make_small_q8f(struct kernel_draw *draw, void *values, size_t n) {
    static const float scales[] = {0x1.8p-112f, -0x1p-114f, 0x1.4p-110f};
    make_q8f(draw, values, n);
    for (size_t i = 0; i + Q8F_BYTES <= n; i += Q8F_BYTES)
        memcpy((uint8_t *)values + i, &scales[draw_bits(draw) % (sizeof scales / 4)], 4);
}

/* ---- columns ---- */

/*
 * Value 5 of each block is 2^40 (or 2^20) times the others and is multiplied by a weight of 0, so
 * that what is lost beside it shows.  For this many columns.
 */
enum { HIDDEN = 5 };

static void make_hidden(struct kernel_draw *draw, float *values, size_t n, size_t cols, int log2) {
    for (size_t i = 0; i < n; i++)
        values[i] = (float)ldexp(draw_gauss(draw), i / cols % Q_VALUES == HIDDEN ? log2 : 0);
}

#define MAKE_HIDDEN(cols, log2)                                                                    \
    static void make_hidden_##cols##_##log2(struct kernel_draw *draw, void *values, size_t n) {    \
        make_hidden(draw, values, n, cols, log2);                                                  \
    }
MAKE_HIDDEN(1, 40)
MAKE_HIDDEN(2, 40)
MAKE_HIDDEN(8, 40)
MAKE_HIDDEN(40, 40)
MAKE_HIDDEN(1, 20)
MAKE_HIDDEN(2, 20)
MAKE_HIDDEN(8, 20)
MAKE_HIDDEN(40, 20)

static void make_hiding_q4_0(struct kernel_draw *draw, void *values, size_t n) {
    uint8_t *bytes = values;
    make_nibbles_q4_0(draw, values, n);
    for (size_t i = HIDDEN; i < n; i += Q4_0_BYTES)
        bytes[i] = (uint8_t)((bytes[i] & 0xF0) | 8);
}

static void make_hiding_q8_0(struct kernel_draw *draw, void *values, size_t n) {
    make_q8_0(draw, values, n);
    for (size_t i = 2 + HIDDEN; i < n; i += Q8_0_BYTES)
        ((uint8_t *)values)[i] = 0;
}

static void make_hiding_q8f(struct kernel_draw *draw, void *values, size_t n) {
    make_q8f(draw, values, n);
    for (size_t i = 4 + HIDDEN; i < n; i += Q8F_BYTES)
        ((uint8_t *)values)[i] = 0;
}

/* ---- subjects ---- */

/* T_mat: 2^-21 of the sum of the terms' magnitudes, plus what no float holds. */
static double bound_of(const struct kernel_case *c, size_t i,
                       double weight(const struct kernel_case *c, int64_t i)) {
    int64_t k = c->sizes[SIZE_K], n = c->sizes[SIZE_N];
    int64_t row = (int64_t)i / n, col = (int64_t)i % n;
    double sum = 0, largest = 0;
    for (int64_t at = 0; at < k; at++) {
        double w = weight(c, row * k + at);
        sum += fabs(w * ((float *)c->host[B])[at * n + col]);
        largest = fmax(largest, fabs(w));
    }
    return sum * 0x1p-21 + lost_in_blocks(k, largest);
}

static double weight_of_q4_0(const struct kernel_case *c, int64_t i) {
    return weight_q4_0(c->host[SCALES], c->host[VALUES], i);
}

static double weight_of_q8_0(const struct kernel_case *c, int64_t i) {
    return weight_q8_0(c->host[VALUES], i);
}

static double weight_of_q8f(const struct kernel_case *c, int64_t i) {
    return weight_q8f(c->host[VALUES], i);
}

static double flops(const struct kernel_case *c) {
    return 2.0 * (double)c->sizes[SIZE_M] * (double)c->sizes[SIZE_K] * (double)c->sizes[SIZE_N];
}

static size_t scratch_bytes(const struct kernel_case *c) {
    return c->sizes[HAS_NO_SCRATCH] ? 0 : cushim_gemm_scratch(c->sizes[SIZE_K], c->sizes[SIZE_N]);
}

static void lay_out(struct kernel_case *c, size_t scales_per_block, size_t bytes_per_block,
                    kernel_make *make_scales, kernel_make *make_values) {
    size_t m = (size_t)c->sizes[SIZE_M], k = (size_t)c->sizes[SIZE_K], n = (size_t)c->sizes[SIZE_N],
           n_blocks = m * (k / Q_VALUES);
    case_operand(c, "scales", TYPE_U16, ROLE_IN, n_blocks * scales_per_block)->make = make_scales;
    case_operand(c, "values", TYPE_U8, ROLE_IN, n_blocks * bytes_per_block)->make = make_values;
    case_operand(c, "b", TYPE_F32, ROLE_IN, k * n)->make = make_outliers_f32;
    case_operand(c, "c", TYPE_F32, ROLE_OUT, m * n);
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_bytes(c) / sizeof(float));
}

static void lay_out_q4_0(struct kernel_case *c) {
    lay_out(c, 1, Q4_0_BYTES, make_scales_q4_0, make_nibbles_q4_0);
}

static void lay_out_q8_0(struct kernel_case *c) {
    lay_out(c, 0, Q8_0_BYTES, NULL, make_q8_0);
}

static void lay_out_q8f(struct kernel_case *c) {
    lay_out(c, 0, Q8F_BYTES, NULL, make_q8f);
}

static enum cushim_status run_q4_0(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemm_q4_0_f32(c->device[SCALES], c->device[VALUES], c->device[B], c->device[C],
                                c->sizes[SIZE_M], c->sizes[SIZE_K], c->sizes[SIZE_N],
                                c->device[SCRATCH], scratch_bytes(c), stream);
}

static void ref_q4_0(const struct kernel_case *c) {
    cushim_gemm_q4_0_f32_ref(c->host[SCALES], c->host[VALUES], c->host[B], c->host[C],
                             c->sizes[SIZE_M], c->sizes[SIZE_K], c->sizes[SIZE_N]);
}

#define OF_BYTES(format)                                                                           \
    static enum cushim_status run_##format(const struct kernel_case *c,                            \
                                           struct CUstream_st *stream) {                           \
        return cushim_gemm_##format##_f32(c->device[VALUES], c->device[B], c->device[C],           \
                                          c->sizes[SIZE_M], c->sizes[SIZE_K], c->sizes[SIZE_N],    \
                                          c->device[SCRATCH], scratch_bytes(c), stream);           \
    }                                                                                              \
    static void ref_##format(const struct kernel_case *c) {                                        \
        cushim_gemm_##format##_f32_ref(c->host[VALUES], c->host[B], c->host[C], c->sizes[SIZE_M],  \
                                       c->sizes[SIZE_K], c->sizes[SIZE_N]);                        \
    }
OF_BYTES(q8_0)
OF_BYTES(q8f)

#define SUBJECT(format)                                                                            \
    static double bound_##format(const struct kernel_case *c, int operand, size_t i) {             \
        (void)operand;                                                                             \
        return bound_of(c, i, weight_of_##format);                                                 \
    }                                                                                              \
    static const struct kernel_subject gemm_##format = {                                           \
        .name = "gemm_" #format "_f32",                                                            \
        .n_sizes = 4,                                                                              \
        .lay_out = lay_out_##format,                                                               \
        .run = run_##format,                                                                       \
        .ref = ref_##format,                                                                       \
        .tolerance = {.nmse = 1e-12, .bound = bound_##format},                                     \
        .flops = flops};
SUBJECT(q4_0)
SUBJECT(q8_0)
SUBJECT(q8f)

/* ---- cases ---- */

/*
 * Rows enough for blocks that stay, on a device of 132 multiprocessors: one tile of 16 for each of
 * them, or, of bytes with one column, three sets of 4 for each of their 16 warps (k up to 1024).
 */
static int64_t rows_to_stay(const struct kernel_subject *subject, int64_t n) {
    return subject != &gemm_q4_0 && n == 1 ? 25350 : 2101;
}

/* m, k, n, and 1 for no scratch: around tiles, chunks and warps. */
static const int64_t sizes_at_edges[][4] = {
    {0, 64, 3},   {4, 64, 0},     {5, 0, 3},      {3, 0, 40},     {1, 32, 1},     {1, 64, 9},
    {2, 32, 40},  {64, 256, 9},   {127, 256, 2},  {129, 160, 65}, {300, 64, 5},   {5, 1024, 1},
    {3, 1056, 1}, {3, 8192, 1},   {2, 8224, 1},   {3, 28672, 1},  {1, 28672, 8},  {3, 2112, 2},
    {2, 1280, 8}, {9, 2048, 16},  {2, 4352, 33},  {33, 4096, 64}, {17, 1312, 12}, {1200, 128, 1},
    {700, 96, 3}, {257, 96, 132}, {130, 288, 31}, {300, 96, 35}};

static const struct {
    const struct kernel_subject *only; /* NULL means every format */
    const char *note;
    int64_t sizes[4];
} noted_sizes[] = {
    {NULL, "more rows than a grid", {18000, 32, 1}},
    {NULL, "blocks stay", {2101, 64, 1}},
    {NULL, "blocks stay", {2101, 320, 1}},
    {NULL, "blocks stay", {2101, 384, 1}},
    {NULL, "blocks stay", {2101, 4352, 1}},
    {NULL, "blocks stay", {2101, 64, 2}},
    {NULL, "blocks stay", {2101, 320, 2}},
    {NULL, "blocks stay", {2101, 384, 2}},
    {NULL, "blocks stay", {2101, 4352, 2}},
    {&gemm_q4_0, "a long column", {2101, 19648, 1}},
    {&gemm_q8_0, "a long column", {2101, 19712, 1}},
    {&gemm_q8f, "a long column", {2101, 19712, 1}},
    {NULL, "blocks stay for long", {17000, 256, 1}},
    {&gemm_q8_0, "two blocks share k", {2101, 8704, 2}},
    {&gemm_q8_0, "more tiles than a block has sums for", {4229, 6400, 2}},
    {&gemm_q8_0, "more tiles than two blocks have sums for", {2101, 13312, 2}},
    /* Two tiles of rows, a chunk that is not whole, parts of k; then the same with scratch. */
    {NULL, NULL, {257, 96, 132, 1}},
    {NULL, NULL, {130, 288, 31, 1}},
    {NULL, NULL, {5, 4096, 140, 1}},
    {NULL, NULL, {200, 32, 260}},
    {NULL, NULL, {5, 4128, 140}},
    /* Some groups of warps have no tile; the last block of a cluster has a slice less; columns of
     * two blocks; more tiles than a block has sums for. */
    {NULL, "slices of k", {33, 1280, 3}},
    {NULL, "slices of k", {2130, 4352, 8}},
    {NULL, "slices of k", {530, 4352, 11}},
    {NULL, "slices of k", {300, 1280, 16}},
    {&gemm_q4_0, "slices of k", {2900, 32512, 2}},
};

static void add_sizes(struct kernel_table *table, const struct kernel_subject *subject) {
    static const int64_t columns[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 65, 128, 129};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        table_add(table, subject, NULL, (int64_t[4]){5, 96, columns[i]}, NULL);
        table_add(table, subject, NULL, (int64_t[4]){37, 256, columns[i]}, NULL);
        if (columns[i] > 8)
            table_add(table, subject, "no scratch", (int64_t[4]){37, 256, columns[i], 1}, NULL);
    }
    for (size_t i = 0; i < sizeof sizes_at_edges / sizeof *sizes_at_edges; i++)
        table_add(table, subject, NULL, sizes_at_edges[i], NULL);
    for (size_t i = 0; i < sizeof noted_sizes / sizeof *noted_sizes; i++) {
        const struct kernel_subject *only = noted_sizes[i].only;
        if (!only || only == subject)
            table_add(table, subject, noted_sizes[i].note, noted_sizes[i].sizes, NULL);
    }
}

static void take_values(struct kernel_case *c, kernel_make *scales, kernel_make *values,
                        kernel_make *columns) {
    if (scales)
        c->operands[SCALES].make = scales;
    if (values)
        c->operands[VALUES].make = values;
    if (columns)
        c->operands[B].make = columns;
}

/* Each path with such columns and weights; NULL means ordinary ones. */
static void add_values(struct kernel_table *table, const struct kernel_subject *subject,
                       const char *note, kernel_make *scales, kernel_make *values,
                       kernel_make *columns) {
    static const int64_t n[] = {1, 2, 5, 8, 19, 70, 135};
    /* With subnormal scales some of many rows have subnormal results, for which no sum of floats
     * holds a relative bound. */
    size_t n_stay = values == make_edge_q8f ? 0 : 2;
    for (size_t i = 0; i < sizeof n / sizeof *n + n_stay; i++) {
        int64_t stays = (int64_t)i - (int64_t)(sizeof n / sizeof *n) + 1; /* or as many columns */
        struct kernel_case *c =
            stays <= 0 ? table_add(table, subject, note, (int64_t[4]){18, 512, n[i]}, NULL)
                       : table_add(table, subject, note,
                                   (int64_t[4]){rows_to_stay(subject, stays), 256, stays}, NULL);
        take_values(c, scales, values, columns);
    }
    for (int64_t i = 25; i < 80; i += 50) /* tiles of both widths whose blocks make terms */
        take_values(table_add(table, subject, note, (int64_t[4]){18, 512, i, 1}, NULL), scales,
                    values, columns);
}

static void add_hidden(struct kernel_table *table, const struct kernel_subject *subject,
                       kernel_make *weights) {
    static kernel_make *const columns[] = {make_hidden_8_20, make_hidden_8_40, make_hidden_40_20,
                                           make_hidden_40_40};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct kernel_case *c = table_add(table, subject, "a weight of 0 hides outliers",
                                          (int64_t[4]){18, 512, i < 2 ? 8 : 40}, NULL);
        c->operands[VALUES].make = weights;
        c->operands[B].make = columns[i];
    }
    static kernel_make *const few[] = {make_hidden_1_20, make_hidden_1_40, make_hidden_2_20,
                                       make_hidden_2_40};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        int64_t n = i < 2 ? 1 : 2;
        struct kernel_case *c = table_add(table, subject, "a weight of 0 hides outliers",
                                          (int64_t[4]){rows_to_stay(subject, n), 256, n}, NULL);
        c->operands[VALUES].make = weights;
        c->operands[B].make = few[i];
    }
}

static void add_offsets(struct kernel_table *table, const struct kernel_subject *subject,
                        size_t step) {
    static const int64_t n[] = {1, 2, 6, 12, 40};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        const int64_t sizes[4] = {7, 256, n[i]};
        for (size_t offset = step; offset < 16; offset += step == 1 ? 5 : step)
            table_add(table, subject, "weights off 16", sizes, NULL)->operands[VALUES].offset =
                offset;
        for (size_t offset = 4; offset < 16; offset += 4) {
            table_add(table, subject, "b off 16", sizes, NULL)->operands[B].offset = offset;
            table_add(table, subject, "c off 16", sizes, NULL)->operands[C].offset = offset;
            if (n[i] > 8)
                table_add(table, subject, "scratch off 16", sizes, NULL)->operands[SCRATCH].offset =
                    offset;
        }
        if (n[i] <= 2)
            table_add(table, subject, "b off 16, blocks stay",
                      (int64_t[4]){rows_to_stay(subject, n[i]), 256, n[i]}, NULL)
                ->operands[B]
                .offset = 4;
        if (subject == &gemm_q4_0)
            table_add(table, subject, "scales off 4", sizes, NULL)->operands[SCALES].offset = 2;
    }
}

static void add_format(struct kernel_table *table, const struct kernel_subject *subject,
                       size_t alignment, kernel_make *edge_scales, kernel_make *edge_values,
                       kernel_make *hiding) {
    add_sizes(table, subject);
    add_values(table, subject, "not finite", NULL, NULL, make_seldom_finite);
    add_values(table, subject, "wide spread", NULL, NULL, make_wide_spread);
    add_values(table, subject, "wide blocks", NULL, NULL, make_wide_blocks);
    add_values(table, subject, "tiny", NULL, NULL, make_tiny);
    add_values(table, subject, "huge", NULL, NULL, make_huge);
    add_values(table, subject, "zeros", NULL, NULL, make_zero);
    add_values(table, subject, "weights at their edges", edge_scales, edge_values, NULL);
    for (int64_t cols = 1; cols <= 20; cols += cols < 4 ? 1 : 8)
        table_add(table, subject, "subnormal columns", (int64_t[4]){12, 512, cols}, NULL)
            ->operands[B]
            .make = make_below_normal;
    add_hidden(table, subject, hiding);
    add_offsets(table, subject, alignment);
}

void cases_gemv(struct kernel_table *table) {
    add_format(table, &gemm_q4_0, 1, make_edge_halves, make_edge_bytes, make_hiding_q4_0);
    for (int64_t n = 1; n <= 8; n++)
        take_values(table_add(table, &gemm_q4_0, "infinite scales", (int64_t[4]){18, 512, n}, NULL),
                    make_infinite_halves, make_nibbles_above_0, make_positive_f32);
    add_format(table, &gemm_q8_0, 2, NULL, make_edge_q8_0, make_hiding_q8_0);
    add_format(table, &gemm_q8f, 4, NULL, make_edge_q8f, make_hiding_q8f);
    table_add(table, &gemm_q8f, "small scales", (int64_t[4]){18, 512, 19}, NULL)
        ->operands[VALUES]
        .make = make_small_q8f;
    table_add(table, &gemm_q8f, "small scales", (int64_t[4]){18, 512, 70}, NULL)
        ->operands[VALUES]
        .make = make_small_q8f;
    add_column(table);
    add_ends(table);
    add_decoder(table);
    add_dense(table);
}
