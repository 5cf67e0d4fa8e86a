/* Layer norm, GELU and the gradients: rows at the edges of warps, and values at saturation. */
#include <math.h>

#include "kernels/tests/frame/case.h"

enum { ROWS, D };

static size_t n_of(const struct kernel_case *c) {
    return (size_t)(c->sizes[ROWS] * c->sizes[D]);
}

/* ---- layer norm ---- */

enum { X, W, B, Y, RSTD };

static void lay_out_norm(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_gauss_f32;
    case_operand(c, "w", TYPE_F32, ROLE_IN, (size_t)c->sizes[D]);
    case_operand(c, "b", TYPE_F32, ROLE_IN, (size_t)c->sizes[D]);
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n_of(c));
    case_operand(c, "rstd", TYPE_F32, ROLE_OUT, c->scalars[1] == 0 ? 0 : (size_t)c->sizes[ROWS]);
}

static enum cushim_status run_norm(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_layer_norm_f32(c->device[X], c->device[W], c->device[B], c->device[Y],
                                 c->device[RSTD], (float)c->scalars[0], c->sizes[ROWS], c->sizes[D],
                                 stream);
}

static void ref_norm(const struct kernel_case *c) {
    cushim_layer_norm_f32_ref(c->host[X], c->host[W], c->host[B], c->host[Y],
                              c->operands[RSTD].n ? c->host[RSTD] : NULL, (float)c->scalars[0],
                              c->sizes[ROWS], c->sizes[D]);
}

static const struct kernel_subject layer_norm = {.name = "layer_norm_f32",
                                                 .n_sizes = 2,
                                                 .n_scalars = 2,
                                                 .lay_out = lay_out_norm,
                                                 .run = run_norm,
                                                 .ref = ref_norm,
                                                 .tolerance = {.nmse = 1e-11}};

enum { BACK_DY, BACK_X, BACK_W, BACK_RSTD, BACK_DX, BACK_DW };

static void lay_out_back(struct kernel_case *c) {
    case_operand(c, "dy", TYPE_F32, ROLE_IN, n_of(c))->make = make_gauss_f32;
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_gauss_f32;
    case_operand(c, "w", TYPE_F32, ROLE_IN, (size_t)c->sizes[D]);
    case_operand(c, "rstd", TYPE_F32, ROLE_IN, (size_t)c->sizes[ROWS])->make = make_positive_f32;
    case_operand(c, "dx", TYPE_F32, ROLE_OUT, n_of(c));
    case_operand(c, "dw", TYPE_F32, ROLE_OUT, n_of(c));
}

static enum cushim_status run_back(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_layer_norm_backward_f32(c->device[BACK_DY], c->device[BACK_X], c->device[BACK_W],
                                          c->device[BACK_RSTD], c->device[BACK_DX],
                                          c->device[BACK_DW], c->sizes[ROWS], c->sizes[D], stream);
}

static void ref_back(const struct kernel_case *c) {
    cushim_layer_norm_backward_f32_ref(c->host[BACK_DY], c->host[BACK_X], c->host[BACK_W],
                                       c->host[BACK_RSTD], c->host[BACK_DX], c->host[BACK_DW],
                                       c->sizes[ROWS], c->sizes[D]);
}

static const struct kernel_subject layer_norm_backward = {
    .name = "layer_norm_backward_f32",
    .n_sizes = 2,
    .lay_out = lay_out_back,
    .run = run_back,
    .ref = ref_back,
    .tolerance = {.absolute = 1e-5, .relative = 1e-5, .nmse = 1e-11}};

/* ---- softmax ---- */

enum { OF_X, OF_Y, OF_DX };

static void lay_out_two(struct kernel_case *c) {
    case_operand(c, "y", TYPE_F32, ROLE_IN, n_of(c))->make = make_positive_f32;
    case_operand(c, "dy", TYPE_F32, ROLE_IN, n_of(c))->make = make_gauss_f32;
    case_operand(c, "dx", TYPE_F32, ROLE_OUT, n_of(c));
}

static enum cushim_status run_softmax(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_softmax_backward_f32(c->device[OF_X], c->device[OF_Y], c->device[OF_DX],
                                       c->sizes[ROWS], c->sizes[D], stream);
}

static void ref_softmax(const struct kernel_case *c) {
    cushim_softmax_backward_f32_ref(c->host[OF_X], c->host[OF_Y], c->host[OF_DX], c->sizes[ROWS],
                                    c->sizes[D]);
}

static double bound_softmax(const struct kernel_case *c, int operand, size_t i) {
    const float *y = c->host[OF_X], *dy = c->host[OF_Y];
    size_t d = (size_t)c->sizes[D], first = i / d * d;
    double terms = fabs((double)dy[i]);
    (void)operand;
    for (size_t j = first; j < first + d; j++)
        terms += fabs((double)y[j] * dy[j]);
    return 0x1p-20 * y[i] * terms;
}

static const struct kernel_subject softmax_backward = {.name = "softmax_backward_f32",
                                                       .n_sizes = 2,
                                                       .lay_out = lay_out_two,
                                                       .run = run_softmax,
                                                       .ref = ref_softmax,
                                                       .tolerance = {.bound = bound_softmax}};

/* ---- GELU: one row ---- */

/* [-30, 30), with zeros, infinities and NaN. */
static void make_steep(struct kernel_draw *draw, void *values, size_t n) {
    make_special_f32(draw, values, n);
    for (size_t i = 0; i < n; i++) {
        if (draw_bits(draw) % 8)
            value_set(TYPE_F32, values, i, (draw_bits(draw) % 2 ? 30 : 3) * draw_uniform(draw));
    }
}

static void lay_out_gelu(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_steep;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n_of(c));
}

static enum cushim_status run_gelu(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gelu_f32(c->device[0], c->device[1], c->sizes[D], stream);
}

static void ref_gelu(const struct kernel_case *c) {
    cushim_gelu_f32_ref(c->host[0], c->host[1], c->sizes[D]);
}

static double bound_gelu(const struct kernel_case *c, int operand, size_t i) {
    double x = value_of(TYPE_F32, c->host[0], i), y = fabs(value_of(TYPE_F32, c->host[operand], i));
    return y > 0 ? 1e-6 * (1 + 1.6 * fabs(x + 0.044715 * x * x * x)) * y + 1e-37 : 1e-37;
}

static const struct kernel_subject gelu = {.name = "gelu_f32",
                                           .n_sizes = 2,
                                           .lay_out = lay_out_gelu,
                                           .run = run_gelu,
                                           .ref = ref_gelu,
                                           .tolerance = {.bound = bound_gelu}};

static void lay_out_gelu_back(struct kernel_case *c) {
    case_operand(c, "x", TYPE_F32, ROLE_IN, n_of(c))->make = make_steep;
    case_operand(c, "dy", TYPE_F32, ROLE_IN, n_of(c))->make = make_gauss_f32;
    case_operand(c, "dx", TYPE_F32, ROLE_OUT, n_of(c));
}

static enum cushim_status run_gelu_back(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gelu_backward_f32(c->device[0], c->device[1], c->device[2], c->sizes[D], stream);
}

static void ref_gelu_back(const struct kernel_case *c) {
    cushim_gelu_backward_f32_ref(c->host[0], c->host[1], c->host[2], c->sizes[D]);
}

static double bound_gelu_back(const struct kernel_case *c, int operand, size_t i) {
    (void)operand;
    return 1e-5 * fabs(value_of(TYPE_F32, c->host[1], i));
}

static const struct kernel_subject gelu_backward = {.name = "gelu_backward_f32",
                                                    .n_sizes = 2,
                                                    .lay_out = lay_out_gelu_back,
                                                    .run = run_gelu_back,
                                                    .ref = ref_gelu_back,
                                                    .tolerance = {.bound = bound_gelu_back}};

void cases_encoder(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 5},  {3, 0},   {1, 2},    {3, 31},   {5, 32},
                                       {9, 33}, {4, 127}, {17, 128}, {3, 1000}, {700, 6}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        table_add(table, &layer_norm, NULL, sizes[i], (double[]){1e-5, i % 2});
        table_add(table, &layer_norm_backward, NULL, sizes[i], NULL);
        table_add(table, &softmax_backward, NULL, sizes[i], NULL);
    }
    table_add(table, &layer_norm, "a row of one", (int64_t[]){7, 1}, (double[]){0.25, 1});
    table_add(table, &layer_norm, "in place", sizes[5], (double[]){1e-5, 1})
        ->operands[Y]
        .in_place_of = 1 + X;
    table_add(table, &layer_norm_backward, "in place", sizes[5], NULL)
        ->operands[BACK_DX]
        .in_place_of = 1 + BACK_DY;
    table_add_offsets(table, table_add(table, &layer_norm, NULL, sizes[5], (double[]){1e-5, 1}));
    for (int i = 0; i < n_edge_sizes; i++) {
        const int64_t size[] = {1, edge_sizes[i]};
        table_add(table, &gelu, NULL, size, NULL);
        table_add(table, &gelu_backward, NULL, size, NULL);
    }
}
