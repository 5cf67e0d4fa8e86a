/* Sums along an axis: arguments, the launches of their plan. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/reduce.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/arguments.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/reduce_plan.h"

/* Blocks beyond this many loop. */
enum { BLOCKS_PER_SM = 1024 };

struct sum_axis {
    const float *x;
    float *y;
    int64_t outer, axis, inner;
};

static void run_reference(const void *args) {
    const struct sum_axis *s = args;
    cushim_sum_axis_f32_ref(s->x, s->y, s->outer, s->axis, s->inner);
}

static bool is_of_clusters(const struct reduce_plan *plan) {
    return plan->way == REDUCE_ROW_CLUSTER || plan->way == REDUCE_TILE_CLUSTER;
}

static unsigned kernel_of(const struct reduce_plan *plan, const float *x, const float *y) {
    enum reduce_unit unit = plan->width == 1                          ? REDUCE_UNIT_1
                            : cushim_is_aligned(16, x, y, NULL, NULL) ? REDUCE_UNIT_4
                                                                      : REDUCE_UNIT_4_ANY;
    return REDUCE_SUM_LANES + plan->way * REDUCE_N_UNITS + unit;
}

static enum cushim_status launch_plan(const struct cushim_kernel_call *call,
                                      struct reduce_plan *plan, const float *x, float *y,
                                      unsigned n_cluster) {
    unsigned kernel = kernel_of(plan, x, y);
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(plan->n_blocks, 1, (int64_t)call->n_sms * BLOCKS_PER_SM)},
        .block = {plan->n_threads}};
    if (is_of_clusters(plan)) {
        shape.cluster = n_cluster;
        shape.grid[0] *= n_cluster;
        shape.shared_bytes = call->family->kernels[kernel].shared_bytes;
    }
    void *params[] = {&x, &y, &plan->sum};
    return cushim_kernel_call_launch(call, kernel, &shape, params);
}

/* In one launch: a block or a cluster has all of each of its sums. */
static enum cushim_status launch_whole(const struct cushim_kernel_call *call,
                                       const struct sum_axis *s) {
    struct reduce_plan plan;
    unsigned n_cluster = call->has_clusters ? REDUCE_MOST_CLUSTER_BLOCKS : 1;
    reduce_plan_make(&plan, s->outer, s->axis, s->inner, 1, n_cluster, call->n_sms);
    if (is_of_clusters(&plan)) {
        CUSHIM_TRY(reduce_find_cluster(call, kernel_of(&plan, s->x, s->y), &n_cluster));
        reduce_plan_make(&plan, s->outer, s->axis, s->inner, 1, n_cluster, call->n_sms);
    }
    return launch_plan(call, &plan, s->x, s->y, n_cluster);
}

/* The sums of parts, then the sums of those. */
static enum cushim_status launch_parts(const struct cushim_kernel_call *call,
                                       const struct sum_axis *s, int64_t n_parts, float *sums) {
    struct reduce_plan plan;
    reduce_plan_make(&plan, s->outer, s->axis, s->inner, n_parts, 1, call->n_sms);
    CUSHIM_TRY(launch_plan(call, &plan, s->x, sums, 1));
    reduce_plan_make(&plan, s->outer, n_parts, s->inner, 1, 1, call->n_sms);
    return launch_plan(call, &plan, sums, s->y, 1);
}

/* ---- the public functions ---- */

size_t cushim_sum_axis_f32_scratch(int64_t outer, int64_t axis, int64_t inner) {
    if (outer <= 0 || axis <= 0 || inner <= 0)
        return 0;
    int64_t n_parts = reduce_n_parts(outer, axis, inner);
    return n_parts == 1 ? 0 : (size_t)(outer * n_parts * inner) * sizeof(float);
}

enum cushim_status cushim_sum_axis_f32(const float *x, float *y, int64_t outer, int64_t axis,
                                       int64_t inner, void *scratch, size_t scratch_bytes,
                                       struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct sum_axis s = {x, y, outer, axis, inner};
    int64_t n_in, n_out;
    bool has_scratch;
    CUSHIM_TRY(cushim_check_size(__func__, "outer", outer));
    CUSHIM_TRY(cushim_check_size(__func__, "axis", axis));
    CUSHIM_TRY(cushim_check_size(__func__, "inner", inner));
    CUSHIM_TRY(cushim_check_count(__func__, "x", (int64_t[]){outer, axis, inner}, 3, sizeof(float),
                                  &n_in));
    CUSHIM_TRY(
        cushim_check_count(__func__, "y", (int64_t[]){outer, inner}, 2, sizeof(float), &n_out));
    if (n_out == 0)
        return CUSHIM_OK;
    if (axis > 0)
        CUSHIM_TRY(cushim_check_pointer(__func__, "x", x, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(__func__, "y", y, sizeof(float)));
    CUSHIM_TRY(reduce_check_scratch(__func__, scratch, scratch_bytes,
                                    cushim_sum_axis_f32_scratch(outer, axis, inner), &has_scratch));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_reduce, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, run_reference, &s, sizeof s);
    return has_scratch ? launch_parts(&call, &s, reduce_n_parts(outer, axis, inner), scratch)
                       : launch_whole(&call, &s);
}

/* ---- bfloat16 ---- */

struct sum_bf16 {
    const uint16_t *x;
    uint16_t *y;
    float scale;
    int64_t outer, axis, inner;
};

static void bf16_reference(const void *args) {
    const struct sum_bf16 *s = args;
    cushim_sum_axis_bf16_ref(s->x, s->y, s->scale, s->outer, s->axis, s->inner);
}

static enum cushim_status launch_bf16(const struct cushim_kernel_call *call, struct sum_bf16 *s) {
    enum { THREADS = 256, WIDTH = 8 };
    bool is_row = s->inner == 1;
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(s->outer * s->inner, is_row ? 1 : THREADS,
                                 (int64_t)call->n_sms * BLOCKS_PER_SM)},
        .block = {THREADS}};
    bool is_wide = s->axis % WIDTH == 0 && cushim_is_aligned(16, s->x, NULL, NULL, NULL);
    void *params[] = {&s->x, &s->y, &s->scale, &s->outer, &s->axis, &s->inner};
    return cushim_kernel_call_launch(call,
                                     !is_row   ? REDUCE_SUM_BF16_COLUMNS
                                     : is_wide ? REDUCE_SUM_BF16_ROWS_WIDE
                                               : REDUCE_SUM_BF16_ROWS,
                                     &shape, params);
}

enum cushim_status cushim_sum_axis_bf16(const uint16_t *x, uint16_t *y, float scale, int64_t outer,
                                        int64_t axis, int64_t inner, struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct sum_bf16 s = {x, y, scale, outer, axis, inner};
    int64_t n_in, n_out;
    CUSHIM_TRY(cushim_check_size(__func__, "outer", outer));
    CUSHIM_TRY(cushim_check_size(__func__, "axis", axis));
    CUSHIM_TRY(cushim_check_size(__func__, "inner", inner));
    CUSHIM_TRY(
        cushim_check_count(__func__, "x", (int64_t[]){outer, axis, inner}, 3, sizeof *x, &n_in));
    CUSHIM_TRY(cushim_check_count(__func__, "y", (int64_t[]){outer, inner}, 2, sizeof *y, &n_out));
    if (n_out == 0)
        return CUSHIM_OK;
    if (axis > 0)
        CUSHIM_TRY(cushim_check_pointer(__func__, "x", x, sizeof *x));
    CUSHIM_TRY(cushim_check_pointer(__func__, "y", y, sizeof *y));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_reduce, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, bf16_reference, &s, sizeof s);
    return launch_bf16(&call, &s);
}
