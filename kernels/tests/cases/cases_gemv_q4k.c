/* Products with a q4k matrix and one column: by rows, and by blocks that stay. */
#include <math.h>

#include "kernels/tests/cases/cases_gemv.h"
#include "kernels/tests/cases/cases_q4k.h"

enum { SIZE_M, SIZE_K };
enum { W, X, Y };

static void lay_out(struct kernel_case *c) {
    size_t m = (size_t)c->sizes[SIZE_M], k = (size_t)c->sizes[SIZE_K];
    case_operand(c, "w", TYPE_U8, ROLE_IN, m * (k / Q4K_VALUES) * Q4K_BYTES)->make = make_q4k;
    case_operand(c, "x", TYPE_F32, ROLE_IN, k)->make = make_outliers_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, m);
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gemv_q4k_f32(c->device[W], c->device[X], c->device[Y], c->sizes[SIZE_M],
                               c->sizes[SIZE_K], stream);
}

static void ref(const struct kernel_case *c) {
    cushim_gemv_q4k_f32_ref(c->host[W], c->host[X], c->host[Y], c->sizes[SIZE_M], c->sizes[SIZE_K]);
}

static double bound(const struct kernel_case *c, int operand, size_t i) {
    int64_t k = c->sizes[SIZE_K];
    const uint8_t *row = (const uint8_t *)c->host[W] + (int64_t)i * (k / Q4K_VALUES) * Q4K_BYTES;
    double sum = 0, largest = 0;
    float weights[Q4K_VALUES];
    (void)operand;
    for (int64_t at = 0; at < k; at++) {
        if (at % Q4K_VALUES == 0)
            cushim_dequant_q4k_f32_ref(row + at / Q4K_VALUES * Q4K_BYTES, weights, 1, Q4K_VALUES);
        sum += fabs((double)weights[at % Q4K_VALUES] * ((float *)c->host[X])[at]);
        largest = fmax(largest, fabs((double)weights[at % Q4K_VALUES]));
    }
    return sum * 0x1p-21 + lost_in_blocks(k, largest);
}

static double flops(const struct kernel_case *c) {
    return 2.0 * (double)c->sizes[SIZE_M] * (double)c->sizes[SIZE_K];
}

static const struct kernel_subject gemv_q4k = {.name = "gemv_q4k_f32",
                                               .n_sizes = 2,
                                               .lay_out = lay_out,
                                               .run = run,
                                               .ref = ref,
                                               .tolerance = {.nmse = 1e-12, .bound = bound},
                                               .flops = flops};

static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t m, int64_t k) {
    return table_add(table, &gemv_q4k, note, (int64_t[]){m, k}, NULL);
}

void add_column(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 256},  {3, 0},      {1, 256},   {1, 512},   {2, 768},
                                       {3, 2048}, {5, 2304},   {17, 256},  {33, 1280}, {130, 512},
                                       {3, 8192}, {300, 1024}, {17, 8448}, {3, 28672}, {1, 28672}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add(table, NULL, sizes[i][0], sizes[i][1]);
    add(table, "any bytes", 40, 1024)->operands[W].make = make_q4k_bits;
    add(table, "scales at their edges", 40, 512)->operands[W].make = make_q4k_edges;
    add(table, "no minimum", 9, 512)->operands[W].make = make_q4k_without_dmin;
    add(table, "not finite", 40, 512)->operands[X].make = make_seldom_finite;
    add(table, "not finite in a slice", 6, 17408)->operands[X].make = make_late_infinity;
    add(table, "wide spread", 40, 512)->operands[X].make = make_wide_spread;
    add(table, "tiny", 5, 512)->operands[X].make = make_tiny;
    add(table, "subnormal column", 100, 512)->operands[X].make = make_below_normal;
    add(table, "zeros", 5, 512)->operands[X].make = make_zero;
    for (size_t offset = 2; offset < 16; offset += 2)
        add(table, "w off 16", 5, 768)->operands[W].offset = offset;
    for (size_t offset = 4; offset < 16; offset += 4) {
        add(table, "x off 16", 5, 768)->operands[X].offset = offset;
        add(table, "y off 16", 5, 768)->operands[Y].offset = offset;
    }
    add(table, "more rows than a grid", 9000, 256);
    static kernel_make *const odd_weights[] = {NULL, make_q4k_bits, make_q4k_edges};
    for (size_t i = 0; i < sizeof odd_weights / sizeof *odd_weights; i++) {
        struct kernel_case *c = add(table, "blocks stay", 2101, 512);
        if (odd_weights[i])
            c->operands[W].make = odd_weights[i];
    }
    static kernel_make *const odd_columns[] = {make_seldom_finite, make_wide_spread, make_tiny,
                                               make_huge, make_zero};
    for (size_t i = 0; i < sizeof odd_columns / sizeof *odd_columns; i++)
        add(table, "blocks stay", 2101, 512)->operands[X].make = odd_columns[i];
    add(table, "blocks stay, x off 16", 2101, 512)->operands[X].offset = 4;
    add(table, "blocks stay", 2101, 4352);
    add(table, "two blocks share k", 2101, 16896);
    add(table, "blocks stay for long", 17000, 256);
    add(table, "two blocks stay", 67601, 512);
}
