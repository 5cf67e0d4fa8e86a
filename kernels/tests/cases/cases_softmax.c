/* Softmax: every shape of kernel, at and around the lengths at which the next one takes over. */
#include <float.h>
#include <math.h>

#include "kernels/tests/cases/cases_bf16.h"
#include "kernels/tests/frame/case.h"

enum { X, Y };
enum { OUTER, AXIS, INNER };
enum { N_SPECIAL_ROWS = 8 };

static size_t n_of(const struct kernel_case *c) {
    return (size_t)(c->sizes[OUTER] * c->sizes[AXIS] * c->sizes[INNER]);
}

static void lay_out_f32(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_outliers_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n_of(c));
}

static void lay_out_f16(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F16, ROLE_IN, n_of(c))->make = make_gauss_f16;
    case_operand(c, "y", TYPE_F16, ROLE_OUT, n_of(c));
}

static enum cushim_status run_plain(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_softmax_f32(c->device[X], c->device[Y], s[OUTER], s[AXIS], s[INNER], stream);
}

static void ref_plain(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_softmax_f32_ref(c->host[X], c->host[Y], s[OUTER], s[AXIS], s[INNER]);
}

static enum cushim_status run_f32(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_scaled_softmax_f32(c->device[X], c->device[Y], (float)c->scalars[0], s[OUTER],
                                     s[AXIS], s[INNER], stream);
}

static void ref_f32(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_scaled_softmax_f32_ref(c->host[X], c->host[Y], (float)c->scalars[0], s[OUTER], s[AXIS],
                                  s[INNER]);
}

static enum cushim_status run_f16(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    return cushim_scaled_softmax_f16(c->device[X], c->device[Y], (float)c->scalars[0], s[OUTER],
                                     s[AXIS], s[INNER], stream);
}

static void ref_f16(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    cushim_scaled_softmax_f16_ref(c->host[X], c->host[Y], (float)c->scalars[0], s[OUTER], s[AXIS],
                                  s[INNER]);
}

static double bound_f32(const struct kernel_case *c, int operand, size_t i) {
    return 1e-5 * fabs(value_of(TYPE_F32, c->host[operand], i)) + 1e-37;
}

/* Each slice along the axis sums to 1, or is NaN. */
static const char *sums_to_1(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    for (int64_t o = 0; o < s[OUTER]; o++) {
        for (int64_t i = 0; i < s[INNER]; i++) {
            double sum = 0;
            for (int64_t a = 0; a < s[AXIS]; a++)
                sum += value_of(TYPE_F32, c->got[Y], (size_t)((o * s[AXIS] + a) * s[INNER] + i));
            if (s[AXIS] > 0 && fabs(sum - 1) > 1e-5)
                return "a slice does not sum to 1";
        }
    }
    return NULL;
}

static const struct kernel_subject softmax_f32 = {
    .name = "softmax_f32",
    .n_sizes = 3,
    .lay_out = lay_out_f32,
    .run = run_plain,
    .ref = ref_plain,
    .tolerance = {.relative = 1e-5, .absolute = 1e-37, .nmse = 1e-12, .bound = bound_f32},
    .check = sums_to_1};
static const struct kernel_subject scaled_softmax_f32 = {
    .name = "scaled_softmax_f32",
    .n_sizes = 3,
    .n_scalars = 1,
    .lay_out = lay_out_f32,
    .run = run_f32,
    .ref = ref_f32,
    .tolerance = {.relative = 1e-5, .absolute = 1e-37, .nmse = 1e-12, .bound = bound_f32},
    .check = sums_to_1};
static const struct kernel_subject scaled_softmax_f16 = {
    .name = "scaled_softmax_f16",
    .n_sizes = 3,
    .n_scalars = 1,
    .lay_out = lay_out_f16,
    .run = run_f16,
    .ref = ref_f16,
    .tolerance = {.ulps = 1, .relative = 1e-3}};

/* ---- inputs ---- */

/* Eight slices of an outer index each. */
static double special(struct kernel_draw *draw, size_t row, size_t i, size_t n, double largest) {
    switch (row) {
    case 0:
        return -INFINITY;
    case 1:
        return i == n / 2 ? INFINITY : draw_gauss(draw);
    case 2:
        return i == n / 3 ? NAN : draw_gauss(draw);
    case 3:
        return 0.75;
    case 4:
        return i == 0 ? 30 : draw_gauss(draw) - (i % 5 == 0 ? 90 : 0);
    case 5:
        return i == n - 1 ? 30 : i % 3 == 0 ? -INFINITY : draw_gauss(draw);
    case 6:
        return draw_uniform(draw) * 100 - 100;
    default:
        return i % 2 ? largest : -largest;
    }
}

static void make_special(struct kernel_draw *draw, enum kernel_type type, void *values, size_t n,
                         double largest) {
    size_t n_row = n / N_SPECIAL_ROWS;
    for (size_t i = 0; i < n; i++)
        value_set(type, values, i, special(draw, i / n_row, i % n_row, n_row, largest));
}

static void make_special_rows_f32(struct kernel_draw *draw, void *values, size_t n) {
    make_special(draw, TYPE_F32, values, n, FLT_MAX);
}

static void make_special_rows_f16(struct kernel_draw *draw, void *values, size_t n) {
    make_special(draw, TYPE_F16, values, n, 65504);
}

/*
 * Far apart and far below 0, with only -Inf in the first half of each 4096, so that warps and
 * blocks have no top.
 */
static void make_gaps(struct kernel_draw *draw, enum kernel_type type, void *values, size_t n,
                      double spread) {
    for (size_t i = 0; i < n; i++)
        value_set(type, values, i,
                  i % 4096 < 2048 && i + 1 < n ? -INFINITY : (draw_gauss(draw) - 15) * spread);
}

static void make_gaps_f32(struct kernel_draw *draw, void *values, size_t n) {
    make_gaps(draw, TYPE_F32, values, n, 20);
}

static void make_gaps_f16(struct kernel_draw *draw, void *values, size_t n) {
    make_gaps(draw, TYPE_F16, values, n, 100);
}

/* ---- the table ---- */

static const struct kernel_subject *const subjects[] = {&softmax_f32, &scaled_softmax_f32,
                                                        &scaled_softmax_f16};
enum { N_SUBJECTS = 3 };

static struct kernel_case *add(struct kernel_table *table, unsigned subject, const char *note,
                               int64_t outer, int64_t axis, int64_t inner) {
    return table_add(table, subjects[subject], note, (int64_t[]){outer, axis, inner},
                     subjects[subject]->n_scalars ? (double[]){0.125} : NULL);
}

/* Lengths of rows at the limits of shapes; if asked, more rows than the few of a device. */
static void add_rows(struct kernel_table *table, unsigned subject) {
    static const int64_t limits[] = {8, 64, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        add(table, subject, NULL, 3, limits[i] - 1, 1);
        add(table, subject, NULL, 2, limits[i], 1);
        add(table, subject, NULL, 1, limits[i] + 1, 1);
        add(table, subject, NULL, 2, limits[i] + 8, 1);
    }
    for (int64_t axis = 1; axis <= 9; axis++)
        add(table, subject, NULL, 37, axis, 1);
    add(table, subject, "many rows", 1000, 24, 1);
    add(table, subject, "many rows", 999, 77, 1);
    add(table, subject, "many rows", 300, 600, 1);
    add(table, subject, "many rows", 290, 601, 1);
    add(table, subject, "many rows", 280, 2056, 1);
    add(table, subject, "many rows", 280, 2049, 1);
    add(table, subject, "many rows", 270, 4104, 1);
    add(table, subject, "many rows", 270, 4101, 1);
    add(table, subject, "many rows", 70, 16400, 1);
    add(table, subject, "a warp a row", 8460, 516, 1);
    add(table, subject, "a warp a row", 8460, 1032, 1);
}

static void add_long_rows(struct kernel_table *table, unsigned subject) {
    static const int64_t axes[] = {40000,  65537,  128256, 131072, 131073,
                                   140000, 262152, 262145, 524296, 530001};
    for (unsigned i = 0; i < sizeof axes / sizeof *axes; i++)
        add(table, subject, "long", 1, axes[i], 1);
    add(table, subject, "long, several", 20, 33000, 1);
}

static void add_columns(struct kernel_table *table, unsigned subject) {
    static const int64_t inners[] = {2, 3, 7, 32, 33, 64, 1000};
    static const int64_t axes[] = {1, 5, 33, 64, 65, 129};
    for (unsigned i = 0; i < sizeof inners / sizeof *inners; i++) {
        for (unsigned j = 0; j < sizeof axes / sizeof *axes; j++)
            add(table, subject, NULL, 2, axes[j], inners[i]);
    }
    add(table, subject, NULL, 1, 256, 40);
    add(table, subject, NULL, 1, 257, 40);
    add(table, subject, NULL, 3, 512, 72);
    add(table, subject, NULL, 1, 513, 72);
    add(table, subject, NULL, 1, 1024, 36);
    add(table, subject, NULL, 1, 1025, 64);
    add(table, subject, "whole tiles", 2, 256, 64);
    add(table, subject, "whole tiles", 2, 1024, 64);
    add(table, subject, "a row short of whole tiles", 2, 255, 64);
    add(table, subject, "a row short of whole tiles", 2, 1023, 64);
    static const int64_t axes_of_gaps[] = {64, 100, 256, 1000, 1024};
    for (unsigned i = 0; i < sizeof axes_of_gaps / sizeof *axes_of_gaps; i++)
        add(table, subject, "gaps", 2, axes_of_gaps[i], 64)->operands[X].make =
            subject == 2 ? make_gaps_f16 : make_gaps_f32;
    add(table, subject, NULL, 1, 5000, 3);
    add(table, subject, "many tiles", 5000, 3, 9);
    add(table, subject, "many tiles", 5000, 3, 32);
}

static void add_values(struct kernel_table *table, unsigned subject) {
    static const double scales[] = {1, -1, 0, -0.0, 1e-38, 1e38, -1e38, 3, -0.3, INFINITY, NAN};
    static const int64_t shapes[][3] = {{8, 48, 1},    {8, 45, 1},  {8, 1000, 1}, {8, 9000, 1},
                                        {8, 9001, 1},  {8, 40, 64}, {8, 40, 7},   {2048, 3, 1},
                                        {8, 34000, 1}, {8, 300, 5}, {8, 64, 64},  {8, 1024, 32}};
    kernel_make *make = subject == 2 ? make_special_rows_f16 : make_special_rows_f32;
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (unsigned k = 0; k < (subject == 0 ? 1 : sizeof scales / sizeof *scales); k++) {
            if (shapes[i][AXIS] > 2000 && k > 2)
                continue;
            table_add(table, subjects[subject], "special values", shapes[i],
                      subject == 0 ? NULL : &scales[k])
                ->operands[X]
                .make = make;
        }
    }
}

/* ---- its product ---- */

enum { SCORES, V, MEANS };
enum { MUL_ROWS, MUL_N, MUL_D };

static void lay_out_mul(struct kernel_case *c) {
    size_t rows = (size_t)c->sizes[MUL_ROWS], n = (size_t)c->sizes[MUL_N],
           d = (size_t)c->sizes[MUL_D];
    case_operand(c, "scores", TYPE_F32, ROLE_IN, rows * n)->make = make_outliers_f32;
    case_operand(c, "v", TYPE_F32, ROLE_IN, rows * n * d)->make = make_gauss_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, rows * d);
}

static enum cushim_status run_mul(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_softmax_mul_f32(c->device[SCORES], c->device[V], c->device[MEANS],
                                  (float)c->scalars[0], c->sizes[MUL_ROWS], c->sizes[MUL_N],
                                  c->sizes[MUL_D], stream);
}

static void ref_mul(const struct kernel_case *c) {
    cushim_softmax_mul_f32_ref(c->host[SCORES], c->host[V], c->host[MEANS], (float)c->scalars[0],
                               c->sizes[MUL_ROWS], c->sizes[MUL_N], c->sizes[MUL_D]);
}

static double bound_mul(const struct kernel_case *c, int operand, size_t i) {
    int64_t n = c->sizes[MUL_N], d = c->sizes[MUL_D], row = (int64_t)i / d;
    const float *scores = (const float *)c->host[SCORES] + row * n;
    const float *v = (const float *)c->host[V] + row * n * d + (int64_t)i % d;
    double top = -INFINITY, sum = 0, total = 0;
    (void)operand;
    for (int64_t k = 0; k < n; k++)
        top = fmax(top, scores[k] * c->scalars[0]);
    for (int64_t k = 0; k < n; k++) {
        double weight = exp(scores[k] * c->scalars[0] - top);
        sum += weight;
        total += weight * fabs((double)v[k * d]);
    }
    return n ? 0x1p-17 * total / sum : 0;
}

static const struct kernel_subject softmax_mul = {.name = "softmax_mul_f32",
                                                  .n_sizes = 3,
                                                  .n_scalars = 1,
                                                  .lay_out = lay_out_mul,
                                                  .run = run_mul,
                                                  .ref = ref_mul,
                                                  .tolerance = {.bound = bound_mul}};

/* The first row is whole; of the others one has a NaN, one +Inf, one only -Inf, one some -Inf. */
static void make_strange_scores(struct kernel_draw *draw, void *values, size_t n) {
    float *scores = values;
    size_t per_row = n / 5;
    make_outliers_f32(draw, values, n);
    scores[per_row + 3] = NAN;
    scores[2 * per_row] = INFINITY;
    for (size_t i = 0; i < per_row; i++) {
        scores[3 * per_row + i] = -INFINITY;
        if (i % 3)
            scores[4 * per_row + i] = -INFINITY;
    }
}

static void add_mul(struct kernel_table *table) {
    static const int64_t sizes[][3] = {{0, 3, 4},      {3, 0, 4},     {3, 4, 0},    {1, 1, 1},
                                       {2, 3, 5},      {5, 31, 32},   {4, 256, 64}, {3, 257, 33},
                                       {2, 1000, 128}, {2, 300, 257}, {1, 70, 600}, {700, 5, 8}};
    static const double scales[] = {0.125, -3, 0};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &softmax_mul, NULL, sizes[i], &scales[i % 3]);
    table_add(table, &softmax_mul, "one above all", (int64_t[]){3, 600, 40}, (double[]){40});
    for (int i = 0; i < 2; i++)
        table_add(table, &softmax_mul, "special values", (int64_t[]){5, 300, 40},
                  &scales[i ? 2 : 0])
            ->operands[SCORES]
            .make = make_strange_scores;
    table_add_offsets(table, table_add(table, &softmax_mul, NULL, sizes[7], scales));
}

void cases_softmax(struct kernel_table *table) {
    for (unsigned s = 0; s < N_SUBJECTS; s++) {
        add(table, s, "empty", 0, 5, 1);
        add(table, s, "empty", 5, 0, 1);
        add(table, s, "empty", 5, 5, 0);
        add_rows(table, s);
        add_columns(table, s);
        add_values(table, s);
        table_add_offsets(table, add(table, s, NULL, 3, 1000, 1));
        table_add_offsets(table, add(table, s, NULL, 2, 40, 64));
        add(table, s, "in place", 3, 1000, 1)->operands[Y].in_place_of = 1 + X;
        add(table, s, "in place", 2, 33001, 1)->operands[Y].in_place_of = 1 + X;
        add(table, s, "in place", 2, 65, 64)->operands[Y].in_place_of = 1 + X;
        add(table, s, "in place", 2, 256, 64)->operands[Y].in_place_of = 1 + X;
        add(table, s, "in place", 2, 2000, 7)->operands[Y].in_place_of = 1 + X;
    }
    add_long_rows(table, 0);
    add_long_rows(table, 2);
    static const int64_t lengths[] = {6000, 9000, 20000, 33000, 140000, 270000};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        add(table, 0, "gaps", 1, lengths[i], 1)->operands[X].make = make_gaps_f32;
    cases_bf16_softmax(table);
    add_mul(table);
}
