#include "kernels/reduce/reduce_plan.h"

enum {
    UNIT = 4, /* floats, if the sizes allow it */
    LANES = 32,
    BLOCK_THREADS = 256,
    FLYING = 4,             /* loads of a thread at a time */
    WARP_AXIS = 1024,       /* floats that one warp sums while others wait for theirs */
    MOST_WARP_AXIS = 16384, /* the same if there are enough warps */
    WARPS_PER_SM = 32,
    FEW_ITEMS = 256,     /* blocks that leave most devices idle */
    SPLIT_BLOCKS = 1024, /* blocks that fill any */
    PART = 4096,         /* floats that are worth a block */
    SHORT_AXIS = 8,      /* as many loads as a thread has at a time, or two */
    EACH_COLUMNS = 32,   /* neighbouring floats: a line */
    EACH_PER_SM = 2048   /* threads */
};

static int64_t at_least_1(int64_t n) {
    return n < 1 ? 1 : n;
}

static int64_t ceil_div(int64_t n, int64_t by) {
    return n == 0 ? 0 : (n - 1) / by + 1;
}

/* The least power of 2 that is not below n, but at most `most`, which is one itself. */
static int power_of_2(int64_t n, int most) {
    int power = 1;
    while (power < most && power < n)
        power *= 2;
    return power;
}

/* ---- the cut ---- */

static int64_t n_tiles_of(int64_t inner) {
    return ceil_div(inner % UNIT ? inner : inner / UNIT, REDUCE_MOST_TILE_COLUMNS);
}

int64_t reduce_n_parts(int64_t outer, int64_t axis, int64_t inner) {
    int64_t n_tiles = inner == 1 ? 1 : n_tiles_of(inner);
    if (outer >= FEW_ITEMS || n_tiles >= FEW_ITEMS || outer * n_tiles >= FEW_ITEMS)
        return 1;
    int64_t columns = ceil_div(inner, n_tiles), per_part = at_least_1(PART / columns),
            most = SPLIT_BLOCKS / (outer * n_tiles), n_parts = axis / per_part;
    if (n_parts > most)
        n_parts = most;
    /* parts of equal length, none of them empty */
    return n_parts < 2 ? 1 : ceil_div(axis, ceil_div(ceil_div(axis, n_parts), UNIT) * UNIT);
}

static void cut(struct reduce_sum *sum, int64_t axis, int64_t n_parts, int width_along) {
    sum->axis = axis / width_along;
    sum->n_parts = n_parts;
    sum->part =
        n_parts == 1 ? sum->axis : ceil_div(ceil_div(axis, n_parts), UNIT) * UNIT / width_along;
    sum->by_parts = cushim_divider_of(n_parts);
}

/* ---- rows ---- */

static void plan_rows(struct reduce_plan *plan, int64_t axis, int64_t n_parts, unsigned n_cluster,
                      unsigned n_sms) {
    struct reduce_sum *sum = &plan->sum;
    plan->width = axis % UNIT ? 1 : UNIT;
    sum->stride = plan->width;
    sum->columns = 1;
    cut(sum, axis, n_parts, plan->width);
    sum->n_items = sum->outer * n_parts;
    sum->n_tiles_per_block = sum->tile_rows = 1;
    sum->tile_columns = power_of_2(sum->axis, LANES);
    plan->n_threads = BLOCK_THREADS;
    if (n_parts == 1 && (axis <= WARP_AXIS ||
                         (axis <= MOST_WARP_AXIS && sum->outer >= (int64_t)n_sms * WARPS_PER_SM))) {
        plan->way = REDUCE_LANES;
        plan->n_blocks = ceil_div(sum->outer, BLOCK_THREADS / sum->tile_columns);
        return;
    }
    bool has_few_sums = n_parts == 1 && sum->outer < (int64_t)n_sms;
    plan->way = has_few_sums && n_cluster > 1 && axis > PART ? REDUCE_ROW_CLUSTER : REDUCE_ROW;
    plan->n_blocks = sum->n_items;
    if (has_few_sums)
        plan->n_threads = REDUCE_MOST_THREADS;
}

/* ---- columns ---- */

/* Threads of a block make up tiles: columns side by side, and rows of them that share the axis. */
static void lay_tiles(struct reduce_plan *plan, int64_t n_tiles) {
    struct reduce_sum *sum = &plan->sum;
    sum->tile_columns = (int)ceil_div(sum->columns, n_tiles);
    int most_rows = (int)plan->n_threads / sum->tile_columns;
    int64_t rows = ceil_div(sum->part, FLYING);
    sum->tile_rows = rows < most_rows ? (int)at_least_1(rows) : most_rows;
    sum->n_tiles_per_block = (int)plan->n_threads / (sum->tile_columns * sum->tile_rows);
    sum->by_columns = cushim_divider_of(n_tiles);
    sum->n_items = sum->outer * sum->n_parts * n_tiles;
    plan->n_blocks = ceil_div(sum->n_items, sum->n_tiles_per_block);
}

static void plan_columns(struct reduce_plan *plan, int64_t axis, int64_t inner, int64_t n_parts,
                         unsigned n_cluster, unsigned n_sms) {
    struct reduce_sum *sum = &plan->sum;
    int64_t n_tiles = n_tiles_of(inner);
    plan->width = inner % UNIT ? 1 : UNIT;
    sum->stride = inner;
    sum->columns = inner / plan->width;
    cut(sum, axis, n_parts, 1);
    plan->n_threads = BLOCK_THREADS;
    int64_t n_sums = sum->outer * sum->columns;
    if (n_parts == 1 &&
        (axis <= SHORT_AXIS || (inner >= EACH_COLUMNS && n_sums >= (int64_t)n_sms * EACH_PER_SM))) {
        plan->way = REDUCE_EACH;
        sum->by_columns = cushim_divider_of(sum->columns);
        sum->n_items = n_sums;
        plan->n_blocks = ceil_div(n_sums, BLOCK_THREADS);
        return;
    }
    bool has_few_sums = n_parts == 1 && sum->outer * n_tiles < (int64_t)n_sms &&
                        axis > PART / ceil_div(inner, n_tiles);
    plan->way = has_few_sums && n_cluster > 1 ? REDUCE_TILE_CLUSTER : REDUCE_TILE;
    if (has_few_sums)
        plan->n_threads = REDUCE_MOST_THREADS;
    lay_tiles(plan, n_tiles);
    if (plan->way == REDUCE_TILE_CLUSTER) { /* a block has one tile, and a part of its axis */
        sum->n_tiles_per_block = 1;
        plan->n_blocks = sum->n_items;
    }
}

void reduce_plan_make(struct reduce_plan *plan, int64_t outer, int64_t axis, int64_t inner,
                      int64_t n_parts, unsigned n_cluster, unsigned n_sms) {
    *plan = (struct reduce_plan){.sum.outer = outer};
    if (axis == 0) /* a sum of nothing is 0, stored by the kernel that has one thread per sum */
        plan_columns(plan, 0, inner, 1, 1, n_sms);
    else if (inner == 1)
        plan_rows(plan, axis, n_parts, n_cluster, n_sms);
    else
        plan_columns(plan, axis, inner, n_parts, n_cluster, n_sms);
}
