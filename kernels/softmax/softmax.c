/* Softmax: arguments, the choice of a path, the launch. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/softmax.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/shared/row.h"
#include "kernels/softmax/softmax_args.h"

/*
 * The kernels of one type; those of the other follow.  If there are two widths, accesses of one
 * element come first.
 */
enum {
    ONE,
    ROWS = ONE + N_ONE_SHAPES,
    LONG = ROWS + N_ROW_SHAPES,
    CLUSTERS = LONG + N_LONG_SHAPES,
    STREAM = CLUSTERS + N_CLUSTER_SHAPES,
    STREAM_CLUSTER = STREAM + 2,
    TILES = STREAM_CLUSTER + 2,
    COLUMNS = TILES + 3,
    N_KERNELS
};

#define ALONE(text) {.name = text},
#define WIDE(text)  {.name = text, .is_wide = true},
#define PAIR(word, text)                                                                           \
    ALONE("softmax_" word "_one_" text)                                                            \
    ALONE("softmax_" word "_" text)
#define STREAMS(word) PAIR(word, "stream") PAIR(word, "stream_cluster")
#define REST(word)                                                                                 \
    STREAMS(word)                                                                                  \
    ALONE("softmax_" word "_tile_1")                                                               \
    ALONE("softmax_" word "_tile_4")                                                               \
    ALONE("softmax_" word "_tile_16")                                                              \
    ALONE("softmax_" word "_columns")

/* bfloat16 has those for rows of any length, then the one for columns. */
enum { BF16_KERNELS = 2 * N_KERNELS - STREAM, BF16_COLUMNS = TILES };
enum { SOFTMAX_MUL = BF16_KERNELS + BF16_COLUMNS + 1 };

/* clang-format off */
static const struct cushim_kernel kernels[] = {
#define ONE_SHAPE(T, E, when) ALONE("softmax_f32_one_row_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
#define ROW_SHAPE(T, E, when) ALONE("softmax_f32_row_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
#define LONG_SHAPE(T, E, when) ALONE("softmax_f32_row_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
#define CLUSTER_SHAPE(T, E, when) WIDE("softmax_f32_cluster_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
    REST("f32")
#define ONE_SHAPE(T, E, when) ALONE("softmax_f16_one_row_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
#define ROW_SHAPE(T, E, when) ALONE("softmax_f16_row_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
#define LONG_SHAPE(T, E, when) ALONE("softmax_f16_row_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
#define CLUSTER_SHAPE(T, E, when) WIDE("softmax_f16_cluster_" #T "_" #E)
#include "kernels/shared/row_shapes.def"
    REST("f16")
    STREAMS("bf16")
    ALONE("softmax_bf16_columns")
    ALONE("softmax_mul_f32")
};
/* clang-format on */
_Static_assert(sizeof kernels / sizeof *kernels == SOFTMAX_MUL + 1, "the order of the kernels");
CUSHIM_KERNEL_FAMILY(softmax, kernels);

enum {
    BLOCKS_PER_SM = 32,
    STREAM_SLICE = 8192, /* the least elements that a block of a cluster should have */
    TILE_DOWN = SOFTMAX_TILE_THREADS / SOFTMAX_TILE_ACROSS,
};

struct softmax {
    struct softmax_args args;
    size_t elem_bytes;
    bool is_bf16;
    unsigned kernels; /* the first of the type */
};

static enum cushim_status launch(const struct cushim_kernel_call *call, unsigned kernel,
                                 const struct cushim_kernel_shape *shape,
                                 struct softmax_args *args) {
    void *params[] = {args};
    return cushim_kernel_call_launch(call, kernel, shape, params);
}

/* ---- rows ---- */

/* Few long rows: enough blocks for each to fill the device. */
static enum cushim_status launch_stream(const struct cushim_kernel_call *call,
                                        struct softmax *softmax, bool is_wide,
                                        struct cushim_kernel_shape *shape) {
    struct softmax_args *args = &softmax->args;
    unsigned n_blocks = 1, first = STREAM, n_rows;
    while (call->has_clusters && n_blocks < CUSHIM_PORTABLE_CLUSTER &&
           args->outer <= (int64_t)(call->n_sms / (2 * n_blocks)) &&
           args->axis >= (int64_t)2 * n_blocks * STREAM_SLICE)
        n_blocks *= 2;
    n_rows = cushim_n_blocks(args->outer, 1, (int64_t)call->n_sms * BLOCKS_PER_SM);
    args->slice = args->axis;
    if (n_blocks > 1) {
        first = STREAM_CLUSTER;
        shape->cluster = n_blocks;
        args->slice = cushim_row_slice(args->axis, n_blocks);
    }
    shape->grid[0] = n_rows * n_blocks;
    shape->block[0] = SOFTMAX_STREAM_THREADS;
    shape->is_dependent = true;
    return launch(call, softmax->kernels + first + is_wide, shape, args);
}

static enum cushim_status launch_rows(const struct cushim_kernel_call *call,
                                      struct softmax *softmax) {
    struct softmax_args *args = &softmax->args;
    struct cushim_row_plan plan;
    bool is_wide = cushim_is_aligned(16, args->x, args->y, NULL, NULL) &&
                   args->axis % (16 / (int64_t)softmax->elem_bytes) == 0;
    struct cushim_row_kernels has = {.is_wide = is_wide,
                                     .is_half = softmax->elem_bytes == 2,
                                     .clusters = softmax->kernels + CLUSTERS,
                                     .stride = 1};
    if (softmax->is_bf16)
        plan = (struct cushim_row_plan){.kind = CUSHIM_ROW_STREAM,
                                        .shape.shared_bytes = CUSHIM_ROW_SHARED_BYTES};
    else
        CUSHIM_TRY(cushim_row_plan(call, &has, args->outer, args->axis, &plan));
    if (plan.kind == CUSHIM_ROW_STREAM)
        return launch_stream(call, softmax, is_wide, &plan.shape);
    args->slice = plan.slice;
    plan.shape.is_dependent = true;
    unsigned list = plan.kind == CUSHIM_ROW_ONE     ? ONE
                    : plan.kind == CUSHIM_ROW_BLOCK ? ROWS
                    : plan.kind == CUSHIM_ROW_LONG  ? LONG
                                                    : CLUSTERS;
    return launch(call, softmax->kernels + list + plan.index, &plan.shape, args);
}

/* ---- columns ---- */

static enum cushim_status launch_columns(const struct cushim_kernel_call *call,
                                         struct softmax *softmax) {
    static const int accesses[] = {1, 4, 16}; /* per thread of a tile in registers */
    struct softmax_args *args = &softmax->args;
    int64_t most = (int64_t)call->n_sms * BLOCKS_PER_SM, width = 16 / (int64_t)softmax->elem_bytes;
    struct cushim_kernel_shape shape = {.block = {SOFTMAX_TILE_THREADS}, .is_dependent = true};
    unsigned kernel = COLUMNS;
    int64_t n_across = 1; /* columns of a tile */
    if (!softmax->is_bf16 && cushim_is_aligned(16, args->x, args->y, NULL, NULL) &&
        args->inner % width == 0 && args->inner >= SOFTMAX_TILE_ACROSS * width / 2) {
        n_across = SOFTMAX_TILE_ACROSS * width;
        for (unsigned i = 3; i-- > 0;) {
            if (args->axis <= TILE_DOWN * accesses[i])
                kernel = TILES + i;
        }
    }
    if (kernel == COLUMNS) {
        n_across = 1;
        while (n_across < 32 && n_across < args->inner)
            n_across *= 2;
        args->across = (int)n_across;
    }
    int64_t n_tiles = (args->inner - 1) / n_across + 1;
    args->by_tiles = cushim_divider_of(n_tiles);
    shape.grid[0] = cushim_n_blocks(
        args->outer < most ? args->outer * (n_tiles < most ? n_tiles : most) : most, 1, most);
    return launch(call, softmax->kernels + (softmax->is_bf16 ? BF16_COLUMNS : kernel), &shape,
                  args);
}

/* ---- the public functions ---- */

static enum cushim_status run_softmax(const char *what, struct softmax softmax,
                                      void (*reference)(const void *args),
                                      struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct softmax_args *args = &softmax.args;
    int64_t n, sizes[] = {args->outer, args->axis, args->inner};
    CUSHIM_TRY(cushim_check_size(what, "outer", args->outer));
    CUSHIM_TRY(cushim_check_size(what, "axis", args->axis));
    CUSHIM_TRY(cushim_check_size(what, "inner", args->inner));
    CUSHIM_TRY(cushim_check_count(what, "x", sizes, 3, softmax.elem_bytes, &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "x", args->x, softmax.elem_bytes));
    CUSHIM_TRY(cushim_check_pointer(what, "y", args->y, softmax.elem_bytes));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_softmax, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, args, sizeof *args);
    return args->inner == 1 ? launch_rows(&call, &softmax) : launch_columns(&call, &softmax);
}

static void f32_reference(const void *arguments) {
    const struct softmax_args *args = arguments;
    cushim_scaled_softmax_f32_ref(args->x, args->y, args->scale, args->outer, args->axis,
                                  args->inner);
}

static void f16_reference(const void *arguments) {
    const struct softmax_args *args = arguments;
    cushim_scaled_softmax_f16_ref(args->x, args->y, args->scale, args->outer, args->axis,
                                  args->inner);
}

static void bf16_reference(const void *arguments) {
    const struct softmax_args *args = arguments;
    cushim_scaled_softmax_bf16_ref(args->x, args->y, args->scale, args->outer, args->axis,
                                   args->inner);
}

enum cushim_status cushim_softmax_f32(const float *x, float *y, int64_t outer, int64_t axis,
                                      int64_t inner, struct CUstream_st *stream) {
    struct softmax softmax = {
        .args = {.x = x, .y = y, .scale = 1, .outer = outer, .axis = axis, .inner = inner},
        .elem_bytes = sizeof *x,
        .kernels = 0};
    return run_softmax(__func__, softmax, f32_reference, stream);
}

enum cushim_status cushim_scaled_softmax_f32(const float *x, float *y, float scale, int64_t outer,
                                             int64_t axis, int64_t inner,
                                             struct CUstream_st *stream) {
    struct softmax softmax = {
        .args = {.x = x, .y = y, .scale = scale, .outer = outer, .axis = axis, .inner = inner},
        .elem_bytes = sizeof *x,
        .kernels = 0};
    return run_softmax(__func__, softmax, f32_reference, stream);
}

enum cushim_status cushim_scaled_softmax_f16(const uint16_t *x, uint16_t *y, float scale,
                                             int64_t outer, int64_t axis, int64_t inner,
                                             struct CUstream_st *stream) {
    struct softmax softmax = {
        .args = {.x = x, .y = y, .scale = scale, .outer = outer, .axis = axis, .inner = inner},
        .elem_bytes = sizeof *x,
        .kernels = N_KERNELS};
    return run_softmax(__func__, softmax, f16_reference, stream);
}

enum cushim_status cushim_scaled_softmax_bf16(const uint16_t *x, uint16_t *y, float scale,
                                              int64_t outer, int64_t axis, int64_t inner,
                                              struct CUstream_st *stream) {
    struct softmax softmax = {
        .args = {.x = x, .y = y, .scale = scale, .outer = outer, .axis = axis, .inner = inner},
        .elem_bytes = sizeof *x,
        .is_bf16 = true,
        .kernels = BF16_KERNELS};
    return run_softmax(__func__, softmax, bf16_reference, stream);
}

/* ---- its product ---- */

struct softmax_mul {
    const float *scores, *v;
    float *y, scale;
    int64_t rows, n, d;
};

static void mul_reference(const void *arguments) {
    const struct softmax_mul *m = arguments;
    cushim_softmax_mul_f32_ref(m->scores, m->v, m->y, m->scale, m->rows, m->n, m->d);
}

enum cushim_status cushim_softmax_mul_f32(const float *scores, const float *v, float *y,
                                          float scale, int64_t rows, int64_t n, int64_t d,
                                          struct CUstream_st *stream) {
    enum { THREADS = 256, LEAST_WIDTH = 32 };
    const char *what = __func__;
    struct softmax_mul args = {scores, v, y, scale, rows, n, d};
    struct cushim_kernel_call call;
    int64_t n_scores, n_values, n_outputs;
    CUSHIM_TRY(cushim_check_size(what, "rows", rows));
    CUSHIM_TRY(cushim_check_size(what, "n", n));
    CUSHIM_TRY(cushim_check_size(what, "d", d));
    CUSHIM_TRY(
        cushim_check_count(what, "scores", (int64_t[]){rows, n}, 2, sizeof *scores, &n_scores));
    CUSHIM_TRY(cushim_check_count(what, "v", (int64_t[]){rows, n, d}, 3, sizeof *v, &n_values));
    CUSHIM_TRY(cushim_check_count(what, "y", (int64_t[]){rows, d}, 2, sizeof *y, &n_outputs));
    if (n_outputs == 0)
        return CUSHIM_OK;
    if (n_values) {
        CUSHIM_TRY(cushim_check_pointer(what, "scores", scores, sizeof *scores));
        CUSHIM_TRY(cushim_check_pointer(what, "v", v, sizeof *v));
    }
    CUSHIM_TRY(cushim_check_pointer(what, "y", y, sizeof *y));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_softmax, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, mul_reference, &args, sizeof args);
    int width = LEAST_WIDTH;
    while (width < THREADS && width < d)
        width *= 2;
    struct cushim_kernel_shape shape = {.grid = {cushim_n_blocks(rows, 1, INT32_MAX)},
                                        .block = {THREADS}};
    void *params[] = {&scores, &v, &y, &scale, &rows, &n, &d, &width};
    return cushim_kernel_call_launch(&call, SOFTMAX_MUL, &shape, params);
}
