/* Elementwise kernels of training: dropout and AdamW. */
#include "kernels/tests/cases/cases_elementwise.h"

#include <math.h>

/* ---- dropout ---- */

enum { P, KEEP_SCALE, KEY_LOW, KEY_HIGH }; /* scalars */

static void lay_out_dropout(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "in", TYPE_F32, ROLE_IN, n)->make = make_special_f32;
    case_operand(c, "out", TYPE_F32, ROLE_OUT, n);
}

static uint64_t key_of(const struct kernel_case *c) {
    return (uint64_t)c->scalars[KEY_HIGH] << 32 | (uint64_t)c->scalars[KEY_LOW];
}

static enum cushim_status run_dropout(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_dropout_f32(c->device[0], c->device[1], (float)c->scalars[P],
                              (float)c->scalars[KEEP_SCALE], key_of(c), c->sizes[0], stream);
}

static void ref_dropout(const struct kernel_case *c) {
    cushim_dropout_f32_ref(c->host[0], c->host[1], (float)c->scalars[P],
                           (float)c->scalars[KEEP_SCALE], key_of(c), c->sizes[0]);
}

static const struct kernel_subject dropout_f32 = {.name = "dropout_f32",
                                                  .n_sizes = 1,
                                                  .n_scalars = 4,
                                                  .lay_out = lay_out_dropout,
                                                  .run = run_dropout,
                                                  .ref = ref_dropout};

static void cases_of_dropout(struct kernel_table *table) {
    static const double ordinary[] = {0.1, 1 / 0.9, 0x12345678, 0x9ABCDEF0};
    static const double further[][4] = {
        {0, 7, 1, 2},
        {-0.0, 7, 1, 2},
        {-1, 0.5, 1, 2},
        {0x1p-32, 1, 3, 0},
        {0x1p-140, 1, 3, 0},
        {0.5, 2, 0, 0},
        {0.999, 1000, 0xFFFFFFFF, 0xFFFFFFFF},
        {0x1.fffffep-1, 3, 5, 6},
        {1, 3, 5, 6},
        {0x1.000002p0, 3, 5, 6},
        {INFINITY, 3, 5, 6},
        {-INFINITY, 3, 5, 6},
        {NAN, 3, 5, 6},
        {0.3, INFINITY, 5, 6},
        {0.3, 0, 5, 6},
    };
    add_sizes(table, &dropout_f32, INT64_MAX, ordinary);
    add_steps(table, &dropout_f32, ordinary);
    add_in_place(table, &dropout_f32, 1, 0, ordinary);
    add_in_place(table, &dropout_f32, 1, 0, further[0]);
    for (unsigned i = 0; i < sizeof further / sizeof *further; i++)
        table_add(table, &dropout_f32, NULL, (int64_t[]){3001}, further[i]);
}

/* ---- AdamW ---- */

enum { PARAM, M, V, GRAD };

/* A second moment is not negative; some are 0, as at the first step. */
static void make_second_moment(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double g = draw_gauss(draw) * 0.1;
        value_set(TYPE_F64, values, i, draw_bits(draw) % 4 ? g * g : 0);
    }
}

static void lay_out_adamw(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "param", TYPE_F32, ROLE_BOTH, n)->make = make_gauss_f32;
    case_operand(c, "m", TYPE_F32, ROLE_BOTH, n)->make = make_gauss_f32;
    case_operand(c, "v", TYPE_F64, ROLE_BOTH, n)->make = make_second_moment;
    case_operand(c, "grad", TYPE_F32, ROLE_BOTH, n)->make = make_outliers_f32;
}

/* Scalars: the betas, their complements, eps, alpha, lr_wd. */
static enum cushim_status run_adamw(const struct kernel_case *c, struct CUstream_st *stream) {
    const double *s = c->scalars;
    return cushim_adamw_f32(c->device[PARAM], c->device[M], c->device[V], c->device[GRAD], s[0],
                            s[1], s[2], s[3], s[4], s[5], s[6], c->sizes[0], stream);
}

static void ref_adamw(const struct kernel_case *c) {
    const double *s = c->scalars;
    cushim_adamw_f32_ref(c->host[PARAM], c->host[M], c->host[V], c->host[GRAD], s[0], s[1], s[2],
                         s[3], s[4], s[5], s[6], c->sizes[0]);
}

/* A step of a double is at most 2.3e-16 of it, so 4e-16 allows one. */
static const struct kernel_subject adamw_f32 = {.name = "adamw_f32",
                                                .n_sizes = 1,
                                                .n_scalars = 7,
                                                .lay_out = lay_out_adamw,
                                                .run = run_adamw,
                                                .ref = ref_adamw,
                                                .tolerance = {.ulps = 1}};

static void cases_of_adamw(struct kernel_table *table) {
    static const double ordinary[] = {0.9, 0.999, 1 - 0.9, 1 - 0.999, 1e-8, 3e-4, 3e-6};
    static const double plain[] = {0, 0, 1, 1, 0, 1, 0}; /* p - g / |g|: NaN if g is 0 */
    static const double large[] = {0.95, 0.5, 5, 50, 1e-3, -7, 2};
    add_sizes(table, &adamw_f32, ORDINARY_MOST, ordinary);
    table_add(table, &adamw_f32, "many steps per thread", (int64_t[]){1200001}, ordinary);
    table_add(table, &adamw_f32, "moments forgotten", (int64_t[]){1025}, plain);
    table_add(table, &adamw_f32, "unusual numbers", (int64_t[]){1025}, large);
    struct kernel_case *c =
        table_add(table, &adamw_f32, "special gradients", (int64_t[]){4099}, ordinary);
    c->operands[GRAD].make = c->operands[M].make = make_special_f32;
}

void cases_elementwise_train(struct kernel_table *table) {
    cases_of_dropout(table);
    cases_of_adamw(table);
}
