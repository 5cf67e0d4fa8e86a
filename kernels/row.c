#include "kernels/row.h"

#include "base/try.h"

struct row_shape {
    int threads, elements;
    bool is_few;
};

#define ROW_SHAPE(threads, elements, is_few) {threads, elements, is_few},
static const struct row_shape row_shapes[] = {
#include "kernels/row_shapes.def"
};
#define LONG_SHAPE(threads, elements, is_few) {threads, elements, is_few},
static const struct row_shape long_shapes[] = {
#include "kernels/row_shapes.def"
};
#define CLUSTER_SHAPE(threads, elements, is_few) {threads, elements, is_few},
static const struct row_shape cluster_shapes[] = {
#include "kernels/row_shapes.def"
};

enum {
    BLOCKS_PER_SM = 64,
    SLICE_MULTIPLE = 32, /* elements */
};

int64_t cushim_row_slice(int64_t axis, int64_t n_blocks) {
    return ((axis - 1) / n_blocks + SLICE_MULTIPLE) / SLICE_MULTIPLE * SLICE_MULTIPLE;
}

static void plan_blocks(const struct cushim_kernel_call *call, enum cushim_row_kind kind,
                        const struct row_shape *shapes, unsigned n_shapes, int64_t n_rows,
                        int64_t axis, struct cushim_row_plan *plan) {
    bool is_few = n_rows <= 2 * (int64_t)call->n_sms;
    for (unsigned i = 0; i < n_shapes; i++) {
        const struct row_shape *shape = &shapes[i];
        bool is_block = shape->threads > 32; /* else several rows have one */
        if ((shape->is_few && !is_few) || axis > (int64_t)shape->threads * shape->elements)
            continue;
        plan->kind = kind;
        plan->index = i;
        plan->shape.block[0] = is_block ? (unsigned)shape->threads : CUSHIM_ROW_BLOCK_THREADS;
        plan->shape.grid[0] =
            cushim_n_blocks(n_rows, is_block ? 1 : CUSHIM_ROW_BLOCK_THREADS / shape->threads,
                            (int64_t)call->n_sms * BLOCKS_PER_SM);
        return;
    }
}

/* The least power of 2 of blocks that hold a row; above 16: none do. */
static int64_t n_blocks_for(int64_t axis, const struct row_shape *shape) {
    int64_t n = 2, held = (int64_t)shape->threads * shape->elements;
    while (n <= CUSHIM_MOST_CLUSTER && n * held < axis)
        n *= 2;
    return n;
}

static enum cushim_status plan_clusters(const struct cushim_kernel_call *call,
                                        const struct cushim_row_kernels *kernels, int64_t n_rows,
                                        int64_t axis, struct cushim_row_plan *plan) {
    for (unsigned i = 0; i < N_CLUSTER_SHAPES; i++) {
        const struct row_shape *shape = &cluster_shapes[i];
        int64_t n = n_blocks_for(axis, shape);
        int64_t most = (int64_t)call->n_sms * BLOCKS_PER_SM / n;
        bool has = true;
        if (n > CUSHIM_MOST_CLUSTER ||
            (shape->is_few && n_rows > (int64_t)call->n_sms / n)) /* one block an SM */
            continue;
        struct cushim_kernel_shape launch = {
            .grid = {(unsigned)((n_rows < most ? n_rows : most) * n)},
            .block = {(unsigned)shape->threads},
            .shared_bytes = CUSHIM_ROW_SHARED_BYTES,
            .cluster = (unsigned)n};
        if (n > CUSHIM_USUAL_CLUSTER)
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
    const struct row_shape *most_few = &row_shapes[ROW_512_16];
    /* a long row of few is faster in a cluster, though a block could hold it */
    bool is_few = n_rows <= (int64_t)call->n_sms / 2 &&
                  axis > (int64_t)most_few->threads * most_few->elements;
    *plan = (struct cushim_row_plan){.kind = CUSHIM_ROW_STREAM,
                                     .shape.shared_bytes = CUSHIM_ROW_SHARED_BYTES};
    plan_blocks(call, CUSHIM_ROW_BLOCK, row_shapes, N_ROW_SHAPES, n_rows, axis, plan);
    if (plan->kind == CUSHIM_ROW_STREAM && kernels->has_long)
        plan_blocks(call, CUSHIM_ROW_LONG, long_shapes, N_LONG_SHAPES, n_rows, axis, plan);
    if (call->arch >= 90 && kernels->has_long && (is_few || plan->kind == CUSHIM_ROW_STREAM))
        return plan_clusters(call, kernels, n_rows, axis, plan);
    return CUSHIM_OK;
}
