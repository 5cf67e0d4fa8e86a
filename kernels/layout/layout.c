/* Transposition and strided copies: arguments, and the launch of their plan. */
#include "cushim/kernels/layout.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/layout/layout.h"
#include "kernels/layout/layout_plan.h"

static const struct cushim_kernel kernels[] = {
    [LAYOUT_EACH_1] = {.name = "layout_each_1"},
    [LAYOUT_EACH_1_LARGE] = {.name = "layout_each_1_large"},
    [LAYOUT_EACH_2] = {.name = "layout_each_2"},
    [LAYOUT_EACH_2_LARGE] = {.name = "layout_each_2_large"},
    [LAYOUT_EACH_4] = {.name = "layout_each_4"},
    [LAYOUT_EACH_4_LARGE] = {.name = "layout_each_4_large"},
    [LAYOUT_EACH_8] = {.name = "layout_each_8"},
    [LAYOUT_EACH_8_LARGE] = {.name = "layout_each_8_large"},
    [LAYOUT_EACH_16] = {.name = "layout_each_16"},
    [LAYOUT_EACH_16_LARGE] = {.name = "layout_each_16_large"},
    [LAYOUT_TILE_1] = {.name = "layout_tile_1"},
    [LAYOUT_TILE_2] = {.name = "layout_tile_2"},
    [LAYOUT_TILE_4] = {.name = "layout_tile_4"},
    [LAYOUT_TILE_8] = {.name = "layout_tile_8"},
    [LAYOUT_TILE_16] = {.name = "layout_tile_16"},
    [LAYOUT_TILE_2_WIDE] = {.name = "layout_tile_2_wide"},
    [LAYOUT_TILE_4_WIDE] = {.name = "layout_tile_4_wide"},
    [LAYOUT_TILE_4_LOW] = {.name = "layout_tile_4_low"},
    [LAYOUT_TILE_4_NARROW] = {.name = "layout_tile_4_narrow"},
    [LAYOUT_TILE_4_SMALL] = {.name = "layout_tile_4_small"},
    [LAYOUT_REPEAT_4] = {.name = "layout_repeat_4"},
    [LAYOUT_REPEAT_4_LARGE] = {.name = "layout_repeat_4_large"},
    [LAYOUT_REPEAT_4_OUT] = {.name = "layout_repeat_4_out"},
    [LAYOUT_REPEAT_4_OUT_LARGE] = {.name = "layout_repeat_4_out_large"},
    [LAYOUT_REPEAT_16] = {.name = "layout_repeat_16"},
    [LAYOUT_REPEAT_16_LARGE] = {.name = "layout_repeat_16_large"},
    [LAYOUT_REPEAT_16_OUT] = {.name = "layout_repeat_16_out"},
    [LAYOUT_REPEAT_16_OUT_LARGE] = {.name = "layout_repeat_16_out_large"},
    [LAYOUT_WALK_2] = {.name = "layout_walk_2"},
    [LAYOUT_WALK_2_ARRAYS] = {.name = "layout_walk_2_arrays"},
    [LAYOUT_WALK_4] = {.name = "layout_walk_4"},
    [LAYOUT_WALK_4_ARRAYS] = {.name = "layout_walk_4_arrays"},
};
CUSHIM_KERNEL_FAMILY(layout, kernels);

/* ---- the copy ---- */

struct copy {
    const void *src;
    void *dst;
    int64_t shape[LAYOUT_MOST_DIMS], strides[LAYOUT_MOST_DIMS];
    int ndim;
    size_t elem_bytes;
};

static unsigned log2_of(size_t unit_bytes) {
    return (unsigned)__builtin_ctzll(unit_bytes);
}

static enum cushim_status launch_each(const struct cushim_kernel_call *call, struct copy *copy,
                                      struct layout_plan *plan) {
    bool is_large = plan->each.n > INT32_MAX;
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(plan->each.n, LAYOUT_BLOCK_THREADS * LAYOUT_FLYING,
                                 (int64_t)call->n_sms * LAYOUT_BLOCKS_PER_SM)},
        .block = {LAYOUT_BLOCK_THREADS}};
    void *params[] = {&copy->src, &copy->dst, &plan->each};
    return cushim_kernel_call_launch(call, LAYOUT_EACH_1 + 2 * log2_of(plan->unit_bytes) + is_large,
                                     &shape, params);
}

static unsigned tile_kernel(const struct layout_plan *plan) {
    switch (plan->path) {
    case LAYOUT_BY_LOW_TILE:
        return LAYOUT_TILE_4_LOW;
    case LAYOUT_BY_NARROW_TILE:
        return LAYOUT_TILE_4_NARROW;
    case LAYOUT_BY_WIDE_TILE:
        return LAYOUT_TILE_2_WIDE + log2_of(plan->unit_bytes) - 1;
    default:
        return LAYOUT_TILE_1 + log2_of(plan->unit_bytes);
    }
}

static enum cushim_status launch_tiles(const struct cushim_kernel_call *call, struct copy *copy,
                                       struct layout_plan *plan) {
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(plan->tile.n_tiles, 1,
                                 plan->path == LAYOUT_BY_TILE
                                     ? (int64_t)call->n_sms * LAYOUT_BLOCKS_PER_SM
                                     : INT32_MAX)},
        .block = {LAYOUT_BLOCK_THREADS}};
    void *params[] = {&copy->src, &copy->dst, &plan->tile};
    return cushim_kernel_call_launch(call, tile_kernel(plan), &shape, params);
}

/*
 * A kernel with few parameters, for small copies: reading parameters for any axes would take a
 * multiprocessor longer than the copy.
 */
static enum cushim_status launch_small(const struct cushim_kernel_call *call, struct copy *copy,
                                       const struct layout_tile *tile) {
    const struct layout_axis *a = tile->axes, *b = a + 1,
                             *other = b + 1; /* zeros, if there are none */
    struct layout_small small = {.n_a = (uint32_t)tile->n_a,
                                 .n_b = (uint32_t)tile->n_b,
                                 .a_from = a->from,
                                 .b_to = b->to,
                                 .other_from = other->from,
                                 .other_to = other->to};
    int64_t per_other = tile->tiles_a.by * tile->tiles_b.by;
    struct cushim_kernel_shape shape = {.grid = {(unsigned)tile->tiles_b.by,
                                                 (unsigned)tile->tiles_a.by,
                                                 (unsigned)(tile->n_tiles / per_other)},
                                        .block = {LAYOUT_BLOCK_THREADS}};
    void *params[] = {&copy->src, &copy->dst, &small};
    return cushim_kernel_call_launch(call, LAYOUT_TILE_4_SMALL, &shape, params);
}

static enum cushim_status launch(const struct cushim_kernel_call *call, struct copy *copy) {
    struct layout_plan plan;
    layout_plan_make(&plan, copy->src, copy->dst, copy->shape, copy->strides, copy->ndim,
                     copy->elem_bytes, call->n_sms);
    if (plan.path == LAYOUT_BY_SMALL_TILE)
        return launch_small(call, copy, &plan.tile);
    return plan.path == LAYOUT_BY_UNIT ? launch_each(call, copy, &plan)
                                       : launch_tiles(call, copy, &plan);
}

/* ---- checks that the functions share ---- */

static enum cushim_status check_dims(const char *what, const int64_t *shape, int ndim,
                                     size_t elem_bytes, int64_t *n) {
    if (ndim < 0 || ndim > LAYOUT_MOST_DIMS)
        return cushim_fail(what, CUSHIM_INVALID, "ndim=%d is not in 0 .. %d", ndim,
                           LAYOUT_MOST_DIMS);
    for (int d = 0; d < ndim; d++)
        CUSHIM_TRY(cushim_check_size(what, "a size of shape", shape[d]));
    return cushim_check_count(what, "the output", shape, ndim, elem_bytes, n);
}

/* ---- strided_copy ---- */

/* The distance in bytes from the first element to the furthest on either side must not overflow. */
static enum cushim_status check_reach(const char *what, const struct copy *copy) {
    int64_t below = 0, above = 0;
    for (int d = 0; d < copy->ndim; d++) {
        int64_t reach, *side = copy->strides[d] < 0 ? &below : &above;
        if (copy->shape[d] == 1)
            continue;
        if (__builtin_mul_overflow(copy->strides[d], (int64_t)copy->elem_bytes, &reach) ||
            __builtin_mul_overflow(reach, copy->shape[d] - 1, &reach) ||
            __builtin_add_overflow(*side, reach, side))
            return cushim_fail(what, CUSHIM_INVALID,
                               "strides[%d]=%lld leads further than bytes can be counted", d,
                               (long long)copy->strides[d]);
    }
    return CUSHIM_OK;
}

static void run_reference_copy(const void *args) {
    const struct copy *copy = args;
    cushim_strided_copy_ref(copy->src, copy->dst, copy->shape, copy->strides, copy->ndim,
                            copy->elem_bytes);
}

enum cushim_status cushim_strided_copy(const void *src, void *dst, const int64_t *shape,
                                       const int64_t *strides, int ndim, size_t elem_bytes,
                                       struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct copy copy = {.src = src, .dst = dst, .ndim = ndim, .elem_bytes = elem_bytes};
    int64_t n;
    if (ndim > 0) {
        CUSHIM_TRY(cushim_check_host(__func__, "shape", shape));
        CUSHIM_TRY(cushim_check_host(__func__, "strides", strides));
    }
    if (elem_bytes == 0 || elem_bytes > INT64_MAX)
        return CUSHIM_FAIL(CUSHIM_INVALID, "elem_bytes=%zu is not in 1 .. 2^63 - 1", elem_bytes);
    CUSHIM_TRY(check_dims(__func__, shape, ndim, elem_bytes, &n));
    if (n == 0)
        return CUSHIM_OK;
    for (int d = 0; d < ndim; d++) {
        copy.shape[d] = shape[d];
        copy.strides[d] = strides[d];
    }
    CUSHIM_TRY(check_reach(__func__, &copy));
    CUSHIM_TRY(cushim_check_pointer(__func__, "src", src, 1));
    CUSHIM_TRY(cushim_check_pointer(__func__, "dst", dst, 1));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_layout, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, run_reference_copy, &copy, sizeof copy);
    return launch(&call, &copy);
}

/* ---- transposition ---- */

struct transpose {
    const void *x;
    void *y;
    int64_t shape[LAYOUT_MOST_DIMS]; /* of x */
    int32_t perm[LAYOUT_MOST_DIMS];
    int ndim;
};

static enum cushim_status check_perm(const char *what, const int32_t *perm, int ndim) {
    unsigned seen = 0;
    for (int d = 0; d < ndim; d++) {
        if (perm[d] < 0 || perm[d] >= ndim || seen >> perm[d] & 1)
            return cushim_fail(what, CUSHIM_INVALID, "perm[%d]=%d is out of range or a repetition",
                               d, (int)perm[d]);
        seen |= 1u << perm[d];
    }
    return CUSHIM_OK;
}

/* y is a view of x with its axes in another order. */
static struct copy copy_of(const struct transpose *transpose, size_t elem_bytes) {
    struct copy copy = {.src = transpose->x,
                        .dst = transpose->y,
                        .ndim = transpose->ndim,
                        .elem_bytes = elem_bytes};
    int64_t strides[LAYOUT_MOST_DIMS], stride = 1;
    for (int d = transpose->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= transpose->shape[d];
    }
    for (int d = 0; d < transpose->ndim; d++) {
        copy.shape[d] = transpose->shape[transpose->perm[d]];
        copy.strides[d] = strides[transpose->perm[d]];
    }
    return copy;
}

/* Sizes and perm were checked; there are n elements. */
static enum cushim_status run(const char *what, const struct transpose *transpose, int64_t n,
                              size_t elem_bytes, void (*reference)(const void *args),
                              struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "x", transpose->x, elem_bytes));
    CUSHIM_TRY(cushim_check_pointer(what, "y", transpose->y, elem_bytes));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_layout, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, transpose, sizeof *transpose);
    struct copy copy = copy_of(transpose, elem_bytes);
    return launch(&call, &copy);
}

static enum cushim_status run_2d(const char *what, const void *x, void *y, int64_t rows,
                                 int64_t cols, size_t elem_bytes,
                                 void (*reference)(const void *args), struct CUstream_st *stream) {
    struct transpose transpose = {.x = x, .y = y, .shape = {rows, cols}, .perm = {1, 0}, .ndim = 2};
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "rows", rows));
    CUSHIM_TRY(cushim_check_size(what, "cols", cols));
    CUSHIM_TRY(cushim_check_count(what, "y", transpose.shape, 2, elem_bytes, &n));
    return run(what, &transpose, n, elem_bytes, reference, stream);
}

static enum cushim_status run_nd(const char *what, const void *x, void *y, const int64_t *shape,
                                 const int32_t *perm, int ndim, size_t elem_bytes,
                                 void (*reference)(const void *args), struct CUstream_st *stream) {
    struct transpose transpose = {.x = x, .y = y, .ndim = ndim};
    int64_t n;
    if (ndim > 0) {
        CUSHIM_TRY(cushim_check_host(what, "shape", shape));
        CUSHIM_TRY(cushim_check_host(what, "perm", perm));
    }
    CUSHIM_TRY(check_dims(what, shape, ndim, elem_bytes, &n));
    CUSHIM_TRY(check_perm(what, perm, ndim));
    for (int d = 0; d < ndim; d++) {
        transpose.shape[d] = shape[d];
        transpose.perm[d] = perm[d];
    }
    return run(what, &transpose, n, elem_bytes, reference, stream);
}

#define TRANSPOSE(type, element)                                                                   \
    static void run_reference_2d_##type(const void *args) {                                        \
        const struct transpose *transpose = args;                                                  \
        cushim_transpose2d_##type##_ref(transpose->x, transpose->y, transpose->shape[0],           \
                                        transpose->shape[1]);                                      \
    }                                                                                              \
    enum cushim_status cushim_transpose2d_##type(const element *x, element *y, int64_t rows,       \
                                                 int64_t cols, struct CUstream_st *stream) {       \
        return run_2d(__func__, x, y, rows, cols, sizeof *x, run_reference_2d_##type, stream);     \
    }                                                                                              \
    static void run_reference_nd_##type(const void *args) {                                        \
        const struct transpose *transpose = args;                                                  \
        cushim_transpose_nd_##type##_ref(transpose->x, transpose->y, transpose->shape,             \
                                         transpose->perm, transpose->ndim);                        \
    }                                                                                              \
    enum cushim_status cushim_transpose_nd_##type(const element *x, element *y,                    \
                                                  const int64_t *shape, const int32_t *perm,       \
                                                  int ndim, struct CUstream_st *stream) {          \
        return run_nd(__func__, x, y, shape, perm, ndim, sizeof *x, run_reference_nd_##type,       \
                      stream);                                                                     \
    }

TRANSPOSE(f32, float)
TRANSPOSE(u16, uint16_t)
