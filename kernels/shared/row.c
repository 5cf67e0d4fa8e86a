#include "kernels/shared/row.h"

#include "companion/shared.h"

struct row_shape {
    int threads, elements;
    enum { ANY, FEW } when;
};

#define ROW_SHAPE(threads, elements, when) {threads, elements, when},
static const struct row_shape row_shapes[] = {
#include "kernels/shared/row_shapes.def"
};
#define LONG_SHAPE(threads, elements, when) {threads, elements, when},
static const struct row_shape long_shapes[] = {
#include "kernels/shared/row_shapes.def"
};
#define CLUSTER_SHAPE(threads, elements, when) {threads, elements, when},
static const struct row_shape cluster_shapes[] = {
#include "kernels/shared/row_shapes.def"
};

#define ONE_SHAPE(threads, elements, when) {threads, elements, when},
static const struct row_shape one_shapes[] = {
#include "kernels/shared/row_shapes.def"
};

enum {
    BLOCKS_PER_SM = 64,
    MOST_BLOCKS = INT32_MAX, /* in a grid */
    SLICE_MULTIPLE = 32,     /* elements */
};

int64_t cushim_row_slice(int64_t axis, int64_t n_blocks) {
    return ((axis - 1) / n_blocks + SLICE_MULTIPLE) / SLICE_MULTIPLE * SLICE_MULTIPLE;
}

/* Elements that a block holds. */
static int64_t held_by(const struct row_shape *shape, const struct cushim_row_kernels *kernels) {
    return (int64_t)shape->threads * shape->elements *
           (kernels->is_half && kernels->is_wide ? 2 : 1);
}

static void plan_blocks(const struct cushim_kernel_call *call,
                        const struct cushim_row_kernels *kernels, enum cushim_row_kind kind,
                        const struct row_shape *shapes, unsigned n_shapes, int64_t n_rows,
                        int64_t axis, struct cushim_row_plan *plan) {
    bool has_few_rows = n_rows <= 2 * (int64_t)call->n_sms;
    int64_t most = (int64_t)call->n_sms * BLOCKS_PER_SM;
    for (unsigned i = 0; i < n_shapes; i++) {
        const struct row_shape *shape = &shapes[i];
        bool is_block = shape->threads > 32; /* else several rows share a block, which loops */
        if ((shape->when == FEW && !has_few_rows) || axis > held_by(shape, kernels))
            continue;
        plan->kind = kind;
        plan->index = i;
        plan->shape.block[0] = is_block ? (unsigned)shape->threads : CUSHIM_ROW_BLOCK_THREADS;
        plan->shape.grid[0] =
            is_block ? cushim_n_blocks(n_rows, 1, MOST_BLOCKS)
                     : cushim_n_blocks(n_rows, CUSHIM_ROW_BLOCK_THREADS / shape->threads, most);
        return;
    }
}

/* The least power of 2 of blocks that hold a row; above 16 if none do. */
static int64_t n_blocks_for(int64_t axis, int64_t held) {
    int64_t n = 2;
    while (n <= CUSHIM_MOST_CLUSTER && n * held < axis)
        n *= 2;
    return n;
}

static enum cushim_status plan_clusters(const struct cushim_kernel_call *call,
                                        const struct cushim_row_kernels *kernels, int64_t n_rows,
                                        int64_t axis, struct cushim_row_plan *plan) {
    for (unsigned i = 0; i < N_CLUSTER_SHAPES; i++) {
        const struct row_shape *shape = &cluster_shapes[i];
        int64_t n = n_blocks_for(axis, held_by(shape, kernels));
        bool has = true;
        if (n > CUSHIM_MOST_CLUSTER || (shape->when == FEW && !kernels->is_heavy &&
                                        n_rows > (int64_t)call->n_sms / n)) /* one block per SM */
            continue;
        if (shape->when == FEW && kernels->is_half && n < CUSHIM_MOST_CLUSTER &&
            n_rows <= (int64_t)call->n_sms / (2 * n))
            n *= 2; /* as many blocks as for a row of as many floats */
        struct cushim_kernel_shape launch = {
            .grid = {cushim_n_blocks(n_rows, 1, MOST_BLOCKS / n) * (unsigned)n},
            .block = {(unsigned)shape->threads},
            .shared_bytes = CUSHIM_ROW_SHARED_BYTES,
            .cluster = (unsigned)n};
        if (n > CUSHIM_PORTABLE_CLUSTER)
            CUSHIM_TRY(cushim_kernel_call_has_clusters(
                call, kernels->clusters + kernels->stride * i, &launch, &has));
        if (!has)
            continue;
        plan->kind = CUSHIM_ROW_CLUSTER;
        plan->index = i;
        plan->shape = launch;
        plan->slice = cushim_row_slice(axis, n);
        return CUSHIM_OK;
    }
    return CUSHIM_OK;
}

enum cushim_status cushim_row_plan(const struct cushim_kernel_call *call,
                                   const struct cushim_row_kernels *kernels, int64_t n_rows,
                                   int64_t axis, struct cushim_row_plan *plan) {
    /*
     * These are faster in a cluster even if a block could hold the row: few long rows, one of which
     * reads another tensor too.
     */
    bool has_few_rows = n_rows <= (int64_t)call->n_sms / 2;
    unsigned most = has_few_rows && kernels->is_heavy ? ROW_256_16 : ROW_512_16;
    bool is_better =
        (has_few_rows || kernels->is_heavy) && axis > held_by(&row_shapes[most], kernels);
    *plan = (struct cushim_row_plan){.kind = CUSHIM_ROW_STREAM,
                                     .shape.shared_bytes = CUSHIM_ROW_SHARED_BYTES};
    if (!kernels->is_wide) {
        plan_blocks(call, kernels, CUSHIM_ROW_ONE, one_shapes, N_ONE_SHAPES, n_rows, axis, plan);
        return CUSHIM_OK;
    }
    plan_blocks(call, kernels, CUSHIM_ROW_BLOCK, row_shapes, N_ROW_SHAPES, n_rows, axis, plan);
    if (plan->kind == CUSHIM_ROW_STREAM)
        plan_blocks(call, kernels, CUSHIM_ROW_LONG, long_shapes, N_LONG_SHAPES, n_rows, axis, plan);
    if (call->has_clusters && (is_better || plan->kind == CUSHIM_ROW_STREAM))
        return plan_clusters(call, kernels, n_rows, axis, plan);
    return CUSHIM_OK;
}
