/* RMS norm: arguments, the choice of a path, the launch. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/norm.h"

#include <math.h>

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/norm/norm_args.h"
#include "kernels/shared/row.h"
#include "kernels/launch/variants.h"

/* FINITE means that no code is a NaN. */
enum kind {
    RMS_F32,
    ADD_RMS_F32,
    RMS_ADD_F32,
    RMS_F16,
    RMS_E4M3,
    RMS_E4M3_FINITE,
    ADD_RMS_BF16,
    RMS_ADD_BF16,
    N_KINDS
};
enum { N_ROW_KINDS = RMS_E4M3_FINITE }; /* the kinds that rows in registers have */

enum {
    ONE,
    ROWS = ONE + N_ROW_KINDS * N_ONE_SHAPES,
    LONG = ROWS + N_ROW_KINDS * N_ROW_SHAPES,
    CLUSTERS = LONG + N_ROW_KINDS * N_LONG_SHAPES,
    STREAM_ONE = CLUSTERS + N_ROW_KINDS * N_CLUSTER_SHAPES,
    STREAM = STREAM_ONE + N_KINDS,
    N_KERNELS = STREAM + N_KINDS
};

#define EACH(width, text, in_clusters)                                                             \
    {.name = "norm_rms_f32" width text, .is_wide = in_clusters},                                   \
        {.name = "norm_add_rms_f32" width text, .is_wide = in_clusters},                           \
        {.name = "norm_rms_add_f32" width text, .is_wide = in_clusters},                           \
        {.name = "norm_rms_f16" width text, .is_wide = in_clusters},                               \
        {.name = "norm_rms_e4m3" width text, .is_wide = in_clusters},

/* The kinds that have only kernels for rows of any length. */
#define STREAMS(text)                                                                              \
    {.name = "norm_rms_e4m3_finite" text}, {.name = "norm_add_rms_bf16" text},                     \
        {.name = "norm_rms_add_bf16" text},

/* clang-format off */
static const struct cushim_kernel kernels[] = {
#define ONE_SHAPE(T, E, when) EACH("_one", "_row_" #T "_" #E, false)
#include "kernels/shared/row_shapes.def"
#define ROW_SHAPE(T, E, when) EACH("", "_row_" #T "_" #E, false)
#include "kernels/shared/row_shapes.def"
#define LONG_SHAPE(T, E, when) EACH("", "_row_" #T "_" #E, false)
#include "kernels/shared/row_shapes.def"
#define CLUSTER_SHAPE(T, E, when) EACH("", "_cluster_" #T "_" #E, true)
#include "kernels/shared/row_shapes.def"
    EACH("_one", "_stream", false) STREAMS("_one_stream")
    EACH("", "_stream", false) STREAMS("_stream")
};
/* clang-format on */
_Static_assert(sizeof kernels / sizeof *kernels == N_KERNELS, "the order of the kernels");
CUSHIM_KERNEL_FAMILY(norm, kernels);

enum { STREAM_BLOCKS_PER_SM = 4 };

struct norm {
    enum kind kind;
    struct norm_args args;
};

static size_t elem_bytes_of_x(enum kind kind) {
    return kind == RMS_E4M3 || kind == RMS_E4M3_FINITE ? 1 : kind <= RMS_ADD_F32 ? 4 : 2;
}

static bool adds_before(enum kind kind) {
    return kind == ADD_RMS_F32 || kind == ADD_RMS_BF16;
}

static bool adds_after(enum kind kind) {
    return kind == RMS_ADD_F32 || kind == RMS_ADD_BF16;
}

static size_t elem_bytes_of_y(enum kind kind) {
    return kind <= RMS_ADD_F32 ? 4 : 2;
}

/*
 * Wide accesses are 16 bytes of weights and output, and of everything else except rstd and codes.
 */
static bool is_wide(const struct norm *norm) {
    const struct norm_args *args = &norm->args;
    size_t elem_bytes = elem_bytes_of_y(norm->kind);
    int64_t width = 16 / (int64_t)elem_bytes;
    return args->d % width == 0 &&
           cushim_is_aligned((size_t)width * elem_bytes_of_x(norm->kind), args->x, NULL, NULL,
                             NULL) &&
           cushim_is_aligned(16, args->w, args->y, args->residual,
                             adds_before(norm->kind) ? args->extra : NULL);
}

/*
 * Whether the squares' sum and r may be multiplied by the scale instead of each code.  With codes
 * of 2^-9 to 448 and an r of at most 2^75 the result is then a normal number, as each element times
 * the scale is, or it is 0 or NaN like all of them.
 */
static bool scale_enters_once(float scale) {
    return scale == 0 || isnan(scale) || (fabsf(scale) >= 0x1p-40F && fabsf(scale) <= 0x1p40F);
}

static enum cushim_status launch(const struct cushim_kernel_call *call, struct norm *norm) {
    struct norm_args *args = &norm->args;
    struct cushim_row_plan plan = {.kind = CUSHIM_ROW_STREAM,
                                   .shape.shared_bytes = CUSHIM_ROW_SHARED_BYTES};
    bool wide = is_wide(norm);
    struct cushim_row_kernels has = {.is_wide = wide,
                                     .is_half = elem_bytes_of_y(norm->kind) == 2,
                                     .is_heavy = adds_before(norm->kind) || adds_after(norm->kind),
                                     .clusters = CLUSTERS + norm->kind,
                                     .stride = N_ROW_KINDS};
    void *params[] = {args};
    if (norm->kind < RMS_E4M3 || (norm->kind == RMS_E4M3 && scale_enters_once(args->scale)))
        CUSHIM_TRY(cushim_row_plan(call, &has, args->rows, args->d, &plan));
    args->slice = plan.slice;
    unsigned kernel = 0;
    switch (plan.kind) {
    case CUSHIM_ROW_ONE:
        kernel = ONE + plan.index * N_ROW_KINDS + norm->kind;
        break;
    case CUSHIM_ROW_BLOCK:
        kernel = ROWS + plan.index * N_ROW_KINDS + norm->kind;
        break;
    case CUSHIM_ROW_LONG:
        kernel = LONG + plan.index * N_ROW_KINDS + norm->kind;
        break;
    case CUSHIM_ROW_CLUSTER:
        kernel = CLUSTERS + plan.index * N_ROW_KINDS + norm->kind;
        break;
    case CUSHIM_ROW_STREAM:
        kernel = (wide ? STREAM : STREAM_ONE) + norm->kind;
        plan.shape.block[0] = NORM_STREAM_THREADS;
        plan.shape.grid[0] =
            cushim_n_blocks(args->rows, 1, (int64_t)call->n_sms * STREAM_BLOCKS_PER_SM);
        break;
    }
    plan.shape.is_dependent = true;
    return cushim_kernel_call_launch(call, kernel, &plan.shape, params);
}

/* ---- arguments ---- */

static enum cushim_status check(const char *what, const struct norm *norm, bool *is_empty) {
    const struct norm_args *args = &norm->args;
    size_t x_bytes = elem_bytes_of_x(norm->kind), y_bytes = elem_bytes_of_y(norm->kind);
    bool has_residual = adds_before(norm->kind) || adds_after(norm->kind);
    int64_t n, sizes[] = {args->rows, args->d};
    CUSHIM_TRY(cushim_check_size(what, "rows", args->rows));
    CUSHIM_TRY(cushim_check_size(what, "d", args->d));
    CUSHIM_TRY(cushim_check_count(what, "y", sizes, 2, y_bytes, &n));
    *is_empty = n == 0;
    if (*is_empty)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "x", args->x, x_bytes));
    if (has_residual)
        CUSHIM_TRY(cushim_check_pointer(what, "residual", args->residual, y_bytes));
    CUSHIM_TRY(cushim_check_pointer(what, "w", args->w, y_bytes));
    CUSHIM_TRY(cushim_check_pointer(what, "y", args->y, y_bytes));
    if (adds_before(norm->kind))
        CUSHIM_TRY(cushim_check_pointer(what, "sum", args->extra, y_bytes));
    else if (args->extra)
        CUSHIM_TRY(cushim_check_pointer(what, "rstd", args->extra, sizeof(float)));
    return CUSHIM_OK;
}

static void run_reference(const void *argument) {
    const struct norm *norm = argument;
    const struct norm_args *args = &norm->args;
    switch (norm->kind) {
    case RMS_F32:
        cushim_rms_norm_f32_ref(args->x, args->w, args->y, args->extra, args->eps, args->rows,
                                args->d);
        break;
    case ADD_RMS_F32:
        cushim_add_rms_norm_f32_ref(args->x, args->residual, args->w, args->y, args->extra,
                                    args->eps, args->rows, args->d);
        break;
    case RMS_ADD_F32:
        cushim_rms_norm_add_f32_ref(args->x, args->w, args->residual, args->y, args->eps,
                                    args->rows, args->d);
        break;
    case RMS_F16:
        cushim_rms_norm_f16_ref(args->x, args->w, args->y, args->eps, args->rows, args->d);
        break;
    case RMS_E4M3:
        cushim_rms_norm_e4m3_f16_ref(args->x, args->w, args->y, args->scale, args->eps, args->rows,
                                     args->d);
        break;
    case ADD_RMS_BF16:
        cushim_add_rms_norm_bf16_ref(args->x, args->residual, args->w, args->y, args->extra,
                                     args->eps, args->rows, args->d);
        break;
    case RMS_ADD_BF16:
        cushim_rms_norm_add_bf16_ref(args->x, args->w, args->residual, args->y, args->eps,
                                     args->rows, args->d);
        break;
    default:
        cushim_variant_rms_norm_e4m3_f16_ref(args->x, args->w, args->y, args->scale, args->eps,
                                             args->rows, args->d);
    }
}

static enum cushim_status run_norm(const char *what, enum kind kind, struct norm_args args,
                                   struct CUstream_st *stream) {
    struct norm norm = {kind, args};
    struct cushim_kernel_call call;
    bool is_empty;
    CUSHIM_TRY(check(what, &norm, &is_empty));
    if (is_empty)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_norm, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, run_reference, &norm, sizeof norm);
    return launch(&call, &norm);
}

/* ---- the public functions ---- */

enum cushim_status cushim_rms_norm_f32(const float *x, const float *w, float *y, float *rstd,
                                       float eps, int64_t rows, int64_t d,
                                       struct CUstream_st *stream) {
    struct norm_args args = {
        .x = x, .w = w, .y = y, .extra = rstd, .eps = eps, .rows = rows, .d = d};
    return run_norm(__func__, RMS_F32, args, stream);
}

/* The kinds that add, of floats and of bfloat16: the sum is an output of those that add before. */
#define ADDING(type, element, add_rms, rms_add)                                                    \
    enum cushim_status cushim_add_rms_norm_##type(                                                 \
        const element *x, const element *residual, const element *w, element *y, element *sum,     \
        float eps, int64_t rows, int64_t d, struct CUstream_st *stream) {                          \
        struct norm_args args = {.x = x,                                                           \
                                 .w = w,                                                           \
                                 .residual = residual,                                             \
                                 .y = y,                                                           \
                                 .extra = sum,                                                     \
                                 .eps = eps,                                                       \
                                 .rows = rows,                                                     \
                                 .d = d};                                                          \
        return run_norm(__func__, add_rms, args, stream);                                          \
    }                                                                                              \
    enum cushim_status cushim_rms_norm_add_##type(                                                 \
        const element *x, const element *w, const element *residual, element *y, float eps,        \
        int64_t rows, int64_t d, struct CUstream_st *stream) {                                     \
        struct norm_args args = {                                                                  \
            .x = x, .w = w, .residual = residual, .y = y, .eps = eps, .rows = rows, .d = d};       \
        return run_norm(__func__, rms_add, args, stream);                                          \
    }

ADDING(f32, float, ADD_RMS_F32, RMS_ADD_F32)
ADDING(bf16, uint16_t, ADD_RMS_BF16, RMS_ADD_BF16)

enum cushim_status cushim_rms_norm_f16(const uint16_t *x, const uint16_t *w, uint16_t *y, float eps,
                                       int64_t rows, int64_t d, struct CUstream_st *stream) {
    struct norm_args args = {.x = x, .w = w, .y = y, .eps = eps, .rows = rows, .d = d};
    return run_norm(__func__, RMS_F16, args, stream);
}

enum cushim_status cushim_rms_norm_e4m3_f16(const uint8_t *x, const uint16_t *w, uint16_t *y,
                                            float scale, float eps, int64_t rows, int64_t d,
                                            struct CUstream_st *stream) {
    struct norm_args args = {
        .x = x, .w = w, .y = y, .scale = scale, .eps = eps, .rows = rows, .d = d};
    return run_norm(__func__, RMS_E4M3, args, stream);
}

enum cushim_status cushim_variant_rms_norm_e4m3_f16(const uint8_t *x, const uint16_t *w,
                                                    uint16_t *y, float scale, float eps,
                                                    int64_t rows, int64_t d,
                                                    struct CUstream_st *stream) {
    struct norm_args args = {
        .x = x, .w = w, .y = y, .scale = scale, .eps = eps, .rows = rows, .d = d};
    return run_norm(__func__, RMS_E4M3_FINITE, args, stream);
}
