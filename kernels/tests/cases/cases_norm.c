/* RMS norm in its five kinds: every shape of kernel, at and around the lengths where the next one
 * takes over. */
#include <math.h>

#include "kernels/tests/cases/cases_bf16.h"
#include "kernels/tests/frame/case.h"

enum { ROWS, D };
enum { N_SPECIAL_ROWS = 8 };

static size_t n_of(const struct kernel_case *c) {
    return (size_t)(c->sizes[ROWS] * c->sizes[D]);
}

static float eps_of(const struct kernel_case *c) {
    return (float)c->scalars[0];
}

/* y = x r w loses no digits, but what is added to it afterwards may cancel. */
static double bound_of_y(const struct kernel_case *c, int operand, size_t i) {
    return 2e-6 * fabs(value_of(TYPE_F32, c->host[operand], i)) + 1e-37;
}

/* ---- rms_norm_f32 ---- */

enum { RMS_X, RMS_W, RMS_Y, RMS_RSTD };

static void lay_out_rms(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_outliers_f32;
    case_operand(c, "w", TYPE_F32, ROLE_IN, (size_t)c->sizes[D])->make = make_gauss_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n_of(c));
    case_operand(c, "rstd", TYPE_F32, ROLE_OUT, n_of(c) ? (size_t)c->sizes[ROWS] : 0);
}

static enum cushim_status run_rms(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_rms_norm_f32(c->device[RMS_X], c->device[RMS_W], c->device[RMS_Y],
                               c->device[RMS_RSTD], eps_of(c), c->sizes[ROWS], c->sizes[D], stream);
}

static void ref_rms(const struct kernel_case *c) {
    cushim_rms_norm_f32_ref(c->host[RMS_X], c->host[RMS_W], c->host[RMS_Y], c->host[RMS_RSTD],
                            eps_of(c), c->sizes[ROWS], c->sizes[D]);
}

static double bound_rms(const struct kernel_case *c, int operand, size_t i) {
    return operand == RMS_RSTD ? 3e-7 * fabs(value_of(TYPE_F32, c->host[operand], i))
                               : bound_of_y(c, operand, i);
}

static const struct kernel_subject rms_norm_f32 = {
    .name = "rms_norm_f32",
    .n_sizes = 2,
    .n_scalars = 1,
    .lay_out = lay_out_rms,
    .run = run_rms,
    .ref = ref_rms,
    .tolerance = {.nmse = 1e-12, .bound = bound_rms}};

/* ---- add_rms_norm_f32 ---- */

enum { ADD_X, ADD_RESIDUAL, ADD_W, ADD_Y, ADD_SUM };

static void lay_out_add(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_gauss_f32;
    case_operand(c, "residual", TYPE_F32, ROLE_IN, n_of(c))->make = make_outliers_f32;
    case_operand(c, "w", TYPE_F32, ROLE_IN, (size_t)c->sizes[D]);
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n_of(c));
    case_operand(c, "sum", TYPE_F32, ROLE_OUT, n_of(c));
}

static enum cushim_status run_add(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_add_rms_norm_f32(c->device[ADD_X], c->device[ADD_RESIDUAL], c->device[ADD_W],
                                   c->device[ADD_Y], c->device[ADD_SUM], eps_of(c), c->sizes[ROWS],
                                   c->sizes[D], stream);
}

static void ref_add(const struct kernel_case *c) {
    cushim_add_rms_norm_f32_ref(c->host[ADD_X], c->host[ADD_RESIDUAL], c->host[ADD_W],
                                c->host[ADD_Y], c->host[ADD_SUM], eps_of(c), c->sizes[ROWS],
                                c->sizes[D]);
}

static double bound_add(const struct kernel_case *c, int operand, size_t i) {
    return operand == ADD_SUM ? 0 : bound_of_y(c, operand, i);
}

static const struct kernel_subject add_rms_norm_f32 = {
    .name = "add_rms_norm_f32",
    .n_sizes = 2,
    .n_scalars = 1,
    .lay_out = lay_out_add,
    .run = run_add,
    .ref = ref_add,
    .tolerance = {.nmse = 1e-12, .bound = bound_add}};

/* ---- rms_norm_add_f32 ---- */

enum { AFTER_X, AFTER_W, AFTER_RESIDUAL, AFTER_Y };

static void lay_out_after(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_outliers_f32;
    case_operand(c, "w", TYPE_F32, ROLE_IN, (size_t)c->sizes[D]);
    case_operand(c, "residual", TYPE_F32, ROLE_IN, n_of(c))->make = make_gauss_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n_of(c));
}

static enum cushim_status run_after(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_rms_norm_add_f32(c->device[AFTER_X], c->device[AFTER_W],
                                   c->device[AFTER_RESIDUAL], c->device[AFTER_Y], eps_of(c),
                                   c->sizes[ROWS], c->sizes[D], stream);
}

static void ref_after(const struct kernel_case *c) {
    cushim_rms_norm_add_f32_ref(c->host[AFTER_X], c->host[AFTER_W], c->host[AFTER_RESIDUAL],
                                c->host[AFTER_Y], eps_of(c), c->sizes[ROWS], c->sizes[D]);
}

static double bound_after(const struct kernel_case *c, int operand, size_t i) {
    return bound_of_y(c, operand, i) + 1e-5;
}

static const struct kernel_subject rms_norm_add_f32 = {
    .name = "rms_norm_add_f32",
    .n_sizes = 2,
    .n_scalars = 1,
    .lay_out = lay_out_after,
    .run = run_after,
    .ref = ref_after,
    .tolerance = {.nmse = 1e-12, .bound = bound_after}};

/* ---- binary16 and e4m3 ---- */

enum { SMALL_X, SMALL_W, SMALL_Y };

static void lay_out_f16(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F16, ROLE_IN, n_of(c))->make = make_gauss_f16;
    case_operand(c, "w", TYPE_F16, ROLE_IN, (size_t)c->sizes[D])->make = make_gauss_f16;
    case_operand(c, "y", TYPE_F16, ROLE_OUT, n_of(c));
}

static void lay_out_e4m3(struct kernel_case *c) {
    case_operand(c, "x", TYPE_E4M3, ROLE_IN, n_of(c));
    case_operand(c, "w", TYPE_F16, ROLE_IN, (size_t)c->sizes[D])->make = make_gauss_f16;
    case_operand(c, "y", TYPE_F16, ROLE_OUT, n_of(c));
}

static enum cushim_status run_f16(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_rms_norm_f16(c->device[SMALL_X], c->device[SMALL_W], c->device[SMALL_Y],
                               eps_of(c), c->sizes[ROWS], c->sizes[D], stream);
}

static void ref_f16(const struct kernel_case *c) {
    cushim_rms_norm_f16_ref(c->host[SMALL_X], c->host[SMALL_W], c->host[SMALL_Y], eps_of(c),
                            c->sizes[ROWS], c->sizes[D]);
}

static enum cushim_status run_e4m3(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_rms_norm_e4m3_f16(c->device[SMALL_X], c->device[SMALL_W], c->device[SMALL_Y],
                                    (float)c->scalars[1], eps_of(c), c->sizes[ROWS], c->sizes[D],
                                    stream);
}

static void ref_e4m3(const struct kernel_case *c) {
    cushim_rms_norm_e4m3_f16_ref(c->host[SMALL_X], c->host[SMALL_W], c->host[SMALL_Y],
                                 (float)c->scalars[1], eps_of(c), c->sizes[ROWS], c->sizes[D]);
}

static const struct kernel_subject rms_norm_f16 = {.name = "rms_norm_f16",
                                                   .n_sizes = 2,
                                                   .n_scalars = 1,
                                                   .lay_out = lay_out_f16,
                                                   .run = run_f16,
                                                   .ref = ref_f16,
                                                   .tolerance = {.ulps = 1}};
static const struct kernel_subject rms_norm_e4m3_f16 = {.name = "rms_norm_e4m3_f16",
                                                        .n_sizes = 2,
                                                        .n_scalars = 2,
                                                        .lay_out = lay_out_e4m3,
                                                        .run = run_e4m3,
                                                        .ref = ref_e4m3,
                                                        .tolerance = {.ulps = 1}};

/* ---- inputs ---- */

/* Eight rows: zeros; sums too large for a float; NaN; Inf; one number; subnormal; small; ordinary.
 */
static double special(struct kernel_draw *draw, size_t row, size_t i, size_t n) {
    switch (row) {
    case 0:
        return i % 2 ? 0.0 : -0.0;
    case 1:
        return i == n / 2 ? -2e19 : draw_gauss(draw);
    case 2:
        return i == n - 1 ? NAN : draw_gauss(draw);
    case 3:
        return i == 0 ? INFINITY : draw_gauss(draw);
    case 4:
        return 1.0 / 3;
    case 5:
        return draw_gauss(draw) * 1e-40;
    case 6:
        return draw_gauss(draw) * 1e-15;
    default:
        return draw_gauss(draw) * 1e12;
    }
}

static void make_special_rows(struct kernel_draw *draw, void *values, size_t n) {
    size_t n_row = n / N_SPECIAL_ROWS;
    for (size_t i = 0; i < n; i++)
        value_set(TYPE_F32, values, i, special(draw, i / n_row, i % n_row, n_row));
}

/* Some of the codes in one half are 0x7F and 0xFF. */
static void make_all_codes(struct kernel_draw *draw, void *values, size_t n) {
    uint8_t *codes = values;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)draw_bits(draw) & (i < n / 2 ? 0xFF : 0xF7);
}

/* Eight rows: zeros; the largest; the least; NaN; one that is not 0; of one sign; ordinary ones. */
static uint8_t special_code(struct kernel_draw *draw, size_t row, size_t i, size_t n) {
    uint8_t any = (uint8_t)draw_bits(draw), sign = any & 0x80;
    switch (row) {
    case 0:
        return sign;
    case 1:
        return sign | 0x7E;
    case 2:
        return sign | 0x01;
    case 3:
        return i == n - 1 ? sign | 0x7F : any & 0xF7;
    case 4:
        return i == n / 2 ? 0x81 : sign;
    case 5:
        return any & 0x77;
    default:
        return any & 0xF7;
    }
}

static void make_special_codes(struct kernel_draw *draw, void *values, size_t n) {
    size_t n_row = n / N_SPECIAL_ROWS;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)values)[i] = special_code(draw, i / n_row, i % n_row, n_row);
}

static void make_special_half(struct kernel_draw *draw, void *values, size_t n) {
    static const double rows[] = {0, 65504, 6e-8, 1, -0.25, 1e-3, 400, -65504};
    size_t n_row = n / N_SPECIAL_ROWS;
    for (size_t i = 0; i < n; i++)
        value_set(TYPE_F16, values, i, rows[i / n_row] * (i % 3 ? 1 : draw_uniform(draw)));
    value_set(TYPE_F16, values, n / 2, NAN);
    value_set(TYPE_F16, values, n - 1, INFINITY);
}

/* ---- the table ---- */

static const struct kernel_subject *const subjects[] = {
    &rms_norm_f32, &add_rms_norm_f32, &rms_norm_add_f32, &rms_norm_f16, &rms_norm_e4m3_f16};
enum { N_SUBJECTS = 5 };

static struct kernel_case *add(struct kernel_table *table, unsigned subject, const char *note,
                               int64_t rows, int64_t d) {
    return table_add(table, subjects[subject], note, (int64_t[]){rows, d},
                     (double[]){1e-5, 0.03125});
}

static void add_sizes(struct kernel_table *table, unsigned subject) {
    static const int64_t limits[] = {8, 64, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        add(table, subject, NULL, 3, limits[i] - 1);
        add(table, subject, NULL, 2, limits[i]);
        add(table, subject, NULL, 1, limits[i] + 1);
        add(table, subject, NULL, 2, limits[i] + 8);
    }
    for (int64_t d = 1; d <= 9; d++)
        add(table, subject, NULL, 37, d);
    add(table, subject, "many rows", 1000, 24);
    add(table, subject, "many rows", 999, 77);
    add(table, subject, "many rows", 300, 600);
    add(table, subject, "many rows", 290, 601);
    add(table, subject, "many rows", 280, 2056);
    add(table, subject, "many rows", 280, 2049);
    add(table, subject, "many rows", 270, 4104);
    add(table, subject, "many rows", 270, 4101);
    add(table, subject, "many rows", 70, 16400);
    add(table, subject, "a warp a row", 8460, 516);
    add(table, subject, "a warp a row", 8460, 1032);
    add(table, subject, "long", 20, 33000);
    add(table, subject, "long", 1, 65536);
    add(table, subject, "long", 1, 140001);
    add(table, subject, "long", 1, 262152);
    add(table, subject, "long", 1, 530000);
}

/*
 * Scales that are applied once per row, up to the last of them on either side, and others, whose
 * squares or products with a code are not normal numbers.  Without eps zeros have no r; with the
 * least eps theirs is large.
 */
static void add_scales(struct kernel_table *table, const int64_t *sizes) {
    static const double scales[] = {1,         0,    -3,    NAN,   0x1p40, -0x1p-40, 0x1.2p40,
                                    0x1.8p-41, 1e30, 1e-30, 1e-44, 3e38,   INFINITY};
    static const double epses[] = {1e-6, 1e-45, 0};
    for (unsigned k = 0; k < sizeof scales / sizeof *scales; k++) {
        table_add(table, &rms_norm_e4m3_f16, "all codes", sizes, (double[]){1e-6, scales[k]})
            ->operands[SMALL_X]
            .make = make_all_codes;
        for (unsigned i = 0; i < sizeof epses / sizeof *epses; i++)
            table_add(table, &rms_norm_e4m3_f16, "special codes", sizes,
                      (double[]){epses[i], scales[k]})
                ->operands[SMALL_X]
                .make = make_special_codes;
    }
}

static void add_values(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{8, 48}, {8, 45}, {8, 1000}, {8, 9000}, {8, 33001}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int has_eps = 0; has_eps < 2; has_eps++) {
            /* without eps the squares of subnormal rows vanish, and r is infinite */
            double eps = has_eps ? 1e-6 : 0;
            for (unsigned s = 0; s < 3; s++)
                table_add(table, subjects[s], "special values", sizes[i], &eps)->operands[0].make =
                    make_special_rows;
            table_add(table, &rms_norm_f16, "special values", sizes[i], &eps)->operands[0].make =
                make_special_half;
        }
        add_scales(table, sizes[i]);
    }
    table_add(table, &rms_norm_f32, "negative eps", (int64_t[]){3, 100}, (double[]){-100});
    table_add(table, &rms_norm_f32, "eps=NaN", (int64_t[]){3, 100}, (double[]){NAN});
    table_add(table, &rms_norm_f32, "eps=Inf", (int64_t[]){3, 100}, (double[]){INFINITY});
}

static void add_in_place(struct kernel_table *table, int64_t rows, int64_t d) {
    static const int pairs[][2] = {{ADD_X, -1},           {-1, ADD_X},
                                   {ADD_RESIDUAL, -1},    {-1, ADD_RESIDUAL},
                                   {ADD_X, ADD_RESIDUAL}, {ADD_RESIDUAL, ADD_X}}; /* of y, of sum */
    add(table, 0, "in place", rows, d)->operands[RMS_Y].in_place_of = 1 + RMS_X;
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct kernel_case *c = add(table, 1, "in place", rows, d);
        c->operands[ADD_Y].in_place_of = 1 + pairs[i][0];
        c->operands[ADD_SUM].in_place_of = 1 + pairs[i][1];
    }
    add(table, 2, "in place of x", rows, d)->operands[AFTER_Y].in_place_of = 1 + AFTER_X;
    add(table, 2, "in place of residual", rows, d)->operands[AFTER_Y].in_place_of =
        1 + AFTER_RESIDUAL;
    add(table, 3, "in place", rows, d)->operands[SMALL_Y].in_place_of = 1 + SMALL_X;
}

void cases_norm(struct kernel_table *table) {
    for (unsigned s = 0; s < N_SUBJECTS; s++) {
        add(table, s, "empty", 0, 5);
        add(table, s, "empty", 5, 0);
        add_sizes(table, s);
        table_add_offsets(table, add(table, s, NULL, 3, 1000));
        table_add_offsets(table, add(table, s, NULL, 2, 33000));
    }
    add(table, 0, "without rstd", 3, 1000)->operands[RMS_RSTD].n = 0;
    add(table, 0, "without rstd", 3, 33000)->operands[RMS_RSTD].n = 0;
    add_values(table);
    add_in_place(table, 3, 40);
    add_in_place(table, 3, 1000);
    add_in_place(table, 2, 4001);
    add_in_place(table, 2, 33000);
    cases_bf16_norm(table);
}
