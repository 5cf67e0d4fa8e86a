/*
 * Reductions: sums on every path (lanes, blocks, clusters, columns, tiles, with scratch and
 * without), checked against their bound; the largest element with ties, NaN and infinities
 * everywhere.
 */
#include <math.h>

#include "kernels/tests/cases/cases_bf16.h"
#include "kernels/tests/frame/case.h"

/* ---- sum_axis ---- */

enum { X, Y, SCRATCH };
enum { OUTER, AXIS, INNER, HAS_SCRATCH };

static size_t scratch_bytes_of_sum(const struct kernel_case *c) {
    return c->sizes[HAS_SCRATCH]
               ? cushim_sum_axis_f32_scratch(c->sizes[OUTER], c->sizes[AXIS], c->sizes[INNER])
               : 0;
}

static void lay_out_sum(struct kernel_case *c) {
    const int64_t *sizes = c->sizes;
    case_operand(c, "x", TYPE_F32, ROLE_IN, (size_t)(sizes[OUTER] * sizes[AXIS] * sizes[INNER]));
    case_operand(c, "y", TYPE_F32, ROLE_OUT, (size_t)(sizes[OUTER] * sizes[INNER]));
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_bytes_of_sum(c) / sizeof(float));
}

static enum cushim_status run_sum(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_sum_axis_f32(c->device[X], c->device[Y], c->sizes[OUTER], c->sizes[AXIS],
                               c->sizes[INNER], c->device[SCRATCH], scratch_bytes_of_sum(c),
                               stream);
}

static void ref_sum(const struct kernel_case *c) {
    cushim_sum_axis_f32_ref(c->host[X], c->host[Y], c->sizes[OUTER], c->sizes[AXIS],
                            c->sizes[INNER]);
}

static double bound_sum(const struct kernel_case *c, int operand, size_t i) {
    int64_t axis = c->sizes[AXIS], inner = c->sizes[INNER];
    const float *x =
        (const float *)c->host[X] + (int64_t)i / inner * axis * inner + (int64_t)i % inner;
    double sum = 0;
    (void)operand;
    for (int64_t a = 0; a < axis; a++)
        sum += fabs((double)x[a * inner]);
    return ldexp(4, -24) * fmax(1, log2((double)axis)) * sum;
}

/* All of one sign and nearly alike, so that roundings go one way. */
static void make_alike(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = 0.1f + (float)(draw_bits(draw) & 1) * 1e-7f;
}

/* Here and there an infinity or NaN. */
static void make_broken(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = draw_bits(draw) % 200;
        ((float *)values)[i] = kind == 0   ? INFINITY
                               : kind == 1 ? -INFINITY
                               : kind == 2 ? NAN
                                           : (float)draw_gauss(draw);
    }
}

static const struct kernel_subject sum_axis_f32 = {.name = "sum_axis_f32",
                                                   .n_sizes = 4,
                                                   .lay_out = lay_out_sum,
                                                   .run = run_sum,
                                                   .ref = ref_sum,
                                                   .tolerance = {.bound = bound_sum}};

static void add_sums(struct kernel_table *table) {
    static const int64_t sizes[][4] = {/* no sums, or sums of nothing */
                                       {0, 5, 3, 0},
                                       {3, 0, 5, 0},
                                       {3, 5, 0, 0},
                                       {7, 0, 1, 0},
                                       {2, 0, 4, 0},
                                       /* rows by lanes */
                                       {1, 1, 1, 0},
                                       {5, 2, 1, 0},
                                       {33, 3, 1, 0},
                                       {9, 4, 1, 0},
                                       {17, 31, 1, 0},
                                       {17, 32, 1, 0},
                                       {17, 33, 1, 0},
                                       {300, 64, 1, 0},
                                       {3, 127, 1, 0},
                                       {3, 128, 1, 0},
                                       {10, 1000, 1, 0},
                                       {3, 1023, 1, 0},
                                       {3, 1024, 1, 0},
                                       /* rows by blocks */
                                       {300, 1028, 1, 0},
                                       {5, 1025, 1, 0},
                                       {3, 4096, 1, 0},
                                       {2, 4099, 1, 0},
                                       /* rows by clusters or, with scratch, in parts */
                                       {1, 8193, 1, 0},
                                       {1, 8193, 1, 1},
                                       {2, 16384, 1, 0},
                                       {2, 16384, 1, 1},
                                       {1, 300000, 1, 0},
                                       {1, 100000, 1, 1},
                                       {3, 20001, 1, 1},
                                       /* columns by threads */
                                       {100, 3, 7, 0},
                                       {3, 8, 100, 0},
                                       {5, 5, 2, 0},
                                       {2, 8, 1000, 0},
                                       /* columns by tiles */
                                       {50, 20, 2, 0},
                                       {3, 33, 7, 0},
                                       {4, 64, 32, 0},
                                       {3, 65, 33, 0},
                                       {2, 100, 132, 0},
                                       {2, 9, 1000, 0},
                                       {1, 257, 31, 0},
                                       {300, 9, 4, 0},
                                       {2, 300, 128, 0},
                                       /* columns by clusters or in parts */
                                       {1, 5000, 2, 0},
                                       {1, 5000, 2, 1},
                                       {1, 3000, 8, 0},
                                       {1, 3000, 8, 1},
                                       {2, 1500, 33, 0},
                                       {2, 1500, 33, 1},
                                       {1, 700, 200, 0},
                                       {1, 700, 200, 1},
                                       {1, 20000, 3, 1},
                                       {1, 33, 1000, 1}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        table_add(table, &sum_axis_f32, NULL, sizes[i], NULL);
        if (i % 4 == 1) /* a few of every kind */
            table_add(table, &sum_axis_f32, "alike", sizes[i], NULL)->operands[X].make = make_alike;
        if (i % 4 == 3)
            table_add(table, &sum_axis_f32, "broken", sizes[i], NULL)->operands[X].make =
                make_broken;
    }
    static const int64_t offsets[][4] = {{5, 100, 1, 0}, {2, 2048, 1, 0}, {3, 4, 40, 0},
                                         {2, 40, 40, 0}, {1, 8200, 1, 1}, {1, 3000, 4, 1}};
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++)
        table_add_offsets(table, table_add(table, &sum_axis_f32, NULL, offsets[i], NULL));
    table_add(table, &sum_axis_f32, "off", (int64_t[]){1, 8200, 1, 0}, NULL)->operands[X].offset =
        4;
    table_add(table, &sum_axis_f32, "off", (int64_t[]){1, 3000, 4, 0}, NULL)->operands[Y].offset =
        8;
}

/* ---- argmax ---- */

enum { INDEX = 1 };
enum { LENGTH, IS_WITH_SCRATCH };

static size_t scratch_bytes_of_argmax(const struct kernel_case *c) {
    return c->sizes[IS_WITH_SCRATCH] ? cushim_argmax_f32_scratch(c->sizes[LENGTH]) : 0;
}

static void lay_out_argmax(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, (size_t)c->sizes[LENGTH])->make = make_gauss_f32;
    case_operand(c, "index", TYPE_I64, ROLE_OUT, 1);
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_bytes_of_argmax(c) / 4);
}

static enum cushim_status run_argmax(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_argmax_f32(c->device[X], c->device[INDEX], c->sizes[LENGTH], c->device[SCRATCH],
                             scratch_bytes_of_argmax(c), stream);
}

static void ref_argmax(const struct kernel_case *c) {
    cushim_argmax_f32_ref(c->host[X], c->host[INDEX], c->sizes[LENGTH]);
}

static const struct kernel_subject argmax_f32 = {.name = "argmax_f32",
                                                 .n_sizes = 2,
                                                 .lay_out = lay_out_argmax,
                                                 .run = run_argmax,
                                                 .ref = ref_argmax};

/* Only a few values. */
static void make_ties(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)(draw_bits(draw) % 3) - 5;
}

/* The largest is a zero, with either sign in different places. */
static void make_zeros(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = draw_bits(draw) % 64;
        ((float *)values)[i] = kind == 0 ? 0.0f : kind == 1 ? -0.0f : -1e-40f;
    }
}

static void make_lowest(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = -INFINITY;
}

/* Only one element is above -Inf. */
static void make_one_above(struct kernel_draw *draw, void *values, size_t n) {
    make_lowest(draw, values, n);
    ((float *)values)[draw_bits(draw) % n] = -3e38f;
}

static void make_nan_last(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    ((float *)values)[n - 1] = -NAN;
}

static void make_nan_first(struct kernel_draw *draw, void *values, size_t n) {
    make_nan_last(draw, values, n);
    ((float *)values)[0] = NAN;
}

/* Two NaN, of either sign, and infinities before and behind. */
static void make_nan_twice(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    ((float *)values)[draw_bits(draw) % n] = INFINITY;
    ((float *)values)[draw_bits(draw) % n] = INFINITY;
    ((float *)values)[draw_bits(draw) % n] = -NAN;
    ((float *)values)[draw_bits(draw) % n] = NAN;
}

/* All inputs for which one block works, or a cluster, or blocks with scratch; then lengths. */
static void add_argmaxes(struct kernel_table *table) {
    static const int64_t lengths[][2] = {{0, 0},     {1, 0},      {2, 0},       {3, 0},
                                         {31, 0},    {33, 0},     {257, 0},     {4096, 0},
                                         {8192, 0},  {8193, 1},   {32000, 0},   {32000, 1},
                                         {65537, 1}, {128256, 0}, {1 << 20, 1}, {(1 << 23) + 1, 1}};
    static const int64_t with_all_inputs[][2] = {
        {5, 0}, {1000, 0}, {8193, 0}, {9001, 1}, {500001, 0}};
    /* all threads of a block, a cluster, 264 blocks have 3, 3, 7 turns */
    static const int64_t last_turns[][2] = {{3 * 4096, 0}, {3 * 65536, 0}, {7 * 264 * 2048, 1}};
    static const struct {
        const char *note;
        kernel_make *make;
    } inputs[] = {{"ties", make_ties},           {"zeros", make_zeros},
                  {"lowest", make_lowest},       {"one above", make_one_above},
                  {"NaN first", make_nan_first}, {"NaN last", make_nan_last},
                  {"NaN twice", make_nan_twice}, {"specials", make_special_f32}};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        table_add(table, &argmax_f32, NULL, lengths[i], NULL);
    for (unsigned i = 0; i < sizeof with_all_inputs / sizeof *with_all_inputs; i++) {
        for (unsigned k = 0; k < sizeof inputs / sizeof *inputs; k++)
            table_add(table, &argmax_f32, inputs[k].note, with_all_inputs[i], NULL)
                ->operands[X]
                .make = inputs[k].make;
    }
    table_add_offsets(table, table_add(table, &argmax_f32, NULL, (int64_t[]){1003, 0}, NULL));
    table_add_offsets(table, table_add(table, &argmax_f32, NULL, (int64_t[]){9003, 1}, NULL));
    /* more than a cluster takes if there is scratch; then several steps per thread */
    table_add(table, &argmax_f32, "one above", (int64_t[]){(1 << 20) + 3, 1}, NULL)
        ->operands[X]
        .make = make_one_above;
    for (unsigned i = 0; i < sizeof last_turns / sizeof *last_turns; i++)
        table_add(table, &argmax_f32, "NaN last", last_turns[i], NULL)->operands[X].make =
            make_nan_last;
    for (unsigned k = 0; k < sizeof inputs / sizeof *inputs; k++) {
        struct kernel_case *c =
            table_add(table, &argmax_f32, inputs[k].note, (int64_t[]){6000007, 1}, NULL);
        c->operands[X].make = inputs[k].make;
        c->operands[X].offset = k % 2 ? 4 : 0;
    }
}

/* ---- selective_scan ---- */

enum { SCAN_X, SCAN_A, SCAN_B, SCAN_C, SCAN_D, SCAN_Y };
enum { BATCH, CHANNELS, STATES, SEQ, HAS_D };

static void lay_out_scan(struct kernel_case *c) {
    const int64_t *s = c->sizes;
    size_t n = (size_t)(s[BATCH] * s[CHANNELS] * s[SEQ]);
    size_t n_of_b = (size_t)(s[BATCH] * s[STATES] * s[SEQ]);
    case_operand(c, "x", TYPE_F32, ROLE_IN, n);
    case_operand(c, "a", TYPE_F32, ROLE_IN, (size_t)(s[CHANNELS] * s[STATES])); /* below 1 */
    case_operand(c, "b", TYPE_F32, ROLE_IN, n_of_b);
    case_operand(c, "c", TYPE_F32, ROLE_IN, n_of_b);
    case_operand(c, "d", TYPE_F32, ROLE_IN, (size_t)(s[HAS_D] * s[CHANNELS]));
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n);
}

static enum cushim_status run_scan(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_selective_scan_f32(c->device[SCAN_X], c->device[SCAN_A], c->device[SCAN_B],
                                     c->device[SCAN_C], c->device[SCAN_D], c->device[SCAN_Y],
                                     s[BATCH], s[CHANNELS], s[STATES], s[SEQ], stream);
}

static void ref_scan(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_selective_scan_f32_ref(c->host[SCAN_X], c->host[SCAN_A], c->host[SCAN_B],
                                  c->host[SCAN_C], s[HAS_D] ? c->host[SCAN_D] : NULL,
                                  c->host[SCAN_Y], s[BATCH], s[CHANNELS], s[STATES], s[SEQ]);
}

/* The recurrence of magnitudes, and of the errors of its steps. */
static double bound_scan(const struct kernel_case *c, int operand, size_t i) {
    const int64_t *s = c->sizes;
    const float *x = c->host[SCAN_X], *a = c->host[SCAN_A], *b = c->host[SCAN_B],
                *of_c = c->host[SCAN_C];
    int64_t row = (int64_t)i / s[SEQ], t = (int64_t)i % s[SEQ], channel = row % s[CHANNELS];
    double terms = s[HAS_D] ? fabs((double)((const float *)c->host[SCAN_D])[channel] * x[i]) : 0;
    double bound = 0;
    (void)operand;
    for (int64_t state = 0; state < s[STATES]; state++) {
        int64_t at = (row / s[CHANNELS] * s[STATES] + state) * s[SEQ];
        double h = 0, error = 0, by = fabs((double)a[channel * s[STATES] + state]);
        for (int64_t u = 0; u <= t; u++) {
            h = by * h + fabs((double)b[at + u] * x[row * s[SEQ] + u]);
            error = by * error + 0x1p-22 * h;
        }
        terms += fabs(of_c[at + t] * h);
        bound += fabs(of_c[at + t] * error);
    }
    return bound + 0x1p-21 * terms;
}

static const struct kernel_subject selective_scan = {.name = "selective_scan_f32",
                                                     .n_sizes = 5,
                                                     .lay_out = lay_out_scan,
                                                     .run = run_scan,
                                                     .ref = ref_scan,
                                                     .tolerance = {.bound = bound_scan}};

static void add_scans(struct kernel_table *table) {
    static const int64_t sizes[][5] = {{1, 1, 1, 1, 1},    {0, 3, 4, 5, 1},    {2, 0, 4, 5, 1},
                                       {2, 3, 0, 5, 1},    {2, 3, 4, 0, 1},    {2, 3, 0, 5, 0},
                                       {1, 2, 16, 16, 0},  {2, 3, 15, 17, 1},  {2, 5, 17, 31, 0},
                                       {1, 9, 63, 33, 1},  {1, 3, 64, 40, 1},  {2, 3, 65, 40, 1},
                                       {1, 3, 130, 20, 0}, {1, 1, 16, 300, 1}, {1, 70, 16, 64, 1}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &selective_scan, NULL, sizes[i], NULL);
    table_add_offsets(table, table_add(table, &selective_scan, NULL, sizes[7], NULL));
}

void cases_reduce(struct kernel_table *table) {
    add_sums(table);
    add_argmaxes(table);
    cases_bf16_reduce(table);
    add_scans(table);
}
