#include "kernels/layout/layout_plan.h"

#include <stdbool.h>

/*
 * A tile has SIDE units of up to 4 bytes along a side, SMALL_SIDE larger ones; a tile with less
 * than WORTH_BYTES along a side gains nothing.  If one side has at most SMALL_SIDE units, a wide
 * tile has LONG_SIDE along the other, because its threads would have only half as much in flight.
 * With fewer than FEW tiles per multiprocessor, a quarter of the tile keeps it busier.
 */
enum { WIDE_BYTES = 16, WORTH_BYTES = 64, SIDE = 64, SMALL_SIDE = 32, LONG_SIDE = 128, FEW = 4 };

/* The axes of the output, outermost first; strides of the source in units. */
struct view {
    int n;
    int64_t size[LAYOUT_MOST_AXES], stride[LAYOUT_MOST_AXES];
};

/* ---- fewer axes, wider units ---- */

/*
 * Append an axis inside of all so far.  Leave it out if it has one element, join it if it goes on.
 */
static void append(struct view *view, int64_t size, int64_t stride) {
    if (size == 1)
        return;
    int64_t reach;
    int last = view->n - 1;
    if (last >= 0 && !__builtin_mul_overflow(stride, size, &reach) && view->stride[last] == reach) {
        view->size[last] *= size;
        view->stride[last] = stride;
        return;
    }
    view->size[view->n] = size;
    view->stride[view->n++] = stride;
}

/* The widest unit that divides the addresses, the innermost run and every other stride. */
static size_t find_unit(const struct view *view, const void *src, const void *dst) {
    int last = view->n - 1;
    uint64_t all = (uintptr_t)src | (uintptr_t)dst | WIDE_BYTES;
    if (last >= 0)
        all |= (uint64_t)view->size[last];
    for (int i = 0; i < last; i++)
        all |= (uint64_t)view->stride[i]; /* the lowest bit of a negative stride is that of its
                                             size */
    return (size_t)(all & -all);
}

/* From bytes to units; the innermost axis is a run of bytes that lie side by side. */
static size_t widen(struct view *view, const void *src, const void *dst) {
    int last = view->n - 1;
    bool is_run = last >= 0 && view->stride[last] == 1;
    if (!is_run)
        return 1;
    size_t unit = find_unit(view, src, dst);
    for (int i = 0; i < last; i++)
        view->stride[i] /= (int64_t)unit;
    view->size[last] /= (int64_t)unit;
    if (view->size[last] == 1)
        view->n--;
    return unit;
}

/* ---- every unit separately ---- */

static void plan_each(struct layout_each *each, const struct view *view) {
    int64_t to = 1;
    each->n_axes = view->n;
    for (int i = view->n - 1, k = 0; i >= 0; i--, k++) {
        each->axes[k] = (struct layout_axis){
            .size = cushim_divider_of(view->size[i]), .from = view->stride[i], .to = to};
        to *= view->size[i];
    }
    each->n = to;
}

/* ---- tiles ---- */

/* The axes of each->axes that make up a and b, as bits. */
struct sides {
    unsigned a, b;
    int64_t n_a, n_b;
};

/*
 * The largest axis that goes from unit to unit in the source; -1 if there is none, or if it does so
 * in the output too.
 */
static int find_dense(const struct layout_each *each) {
    int best = -1;
    for (int k = 0; k < each->n_axes; k++) {
        if (each->axes[k].from == 1 &&
            (best < 0 || each->axes[k].size.by > each->axes[best].size.by))
            best = k;
    }
    return best > 0 && each->axes[0].from != 1 ? best : -1;
}

/*
 * Add axes to a, from the innermost of the output out, and to b, each going on where the one before
 * it ends in the source, until a tile's side is full.
 */
static bool find_sides(const struct layout_each *each, size_t unit_bytes, struct sides *sides) {
    int dense = find_dense(each);
    if (dense < 0)
        return false;
    *sides = (struct sides){.b = 1u << dense, .n_a = 1, .n_b = each->axes[dense].size.by};
    for (int k = 0; k < each->n_axes && sides->n_a < SIDE && !(sides->b >> k & 1); k++) {
        sides->a |= 1u << k;
        sides->n_a *= each->axes[k].size.by;
    }
    for (int k = 0; k < each->n_axes && sides->n_b < SIDE; k++) {
        if ((sides->a | sides->b) >> k & 1 || each->axes[k].from != sides->n_b)
            continue;
        sides->b |= 1u << k;
        sides->n_b *= each->axes[k].size.by;
        k = -1; /* an axis that was passed may go on from here */
    }
    int64_t worth = WORTH_BYTES / (int64_t)unit_bytes;
    return sides->n_a >= worth && sides->n_b >= worth;
}

/* The axes of b lie one after the other in the source, which is not their order in the output. */
static void sort_by_from(struct layout_axis *axes, int n) {
    for (int i = 1; i < n; i++) {
        for (int k = i; k > 0 && axes[k].from < axes[k - 1].from; k--) {
            struct layout_axis swapped = axes[k];
            axes[k] = axes[k - 1];
            axes[k - 1] = swapped;
        }
    }
}

static int take(struct layout_tile *tile, int n_taken, const struct layout_each *each,
                unsigned which) {
    int n = 0;
    for (int k = 0; k < each->n_axes; k++) {
        if (which >> k & 1)
            tile->axes[n_taken + n++] = each->axes[k];
    }
    return n;
}

static void plan_axes(struct layout_tile *tile, const struct layout_each *each,
                      const struct sides *sides) {
    unsigned all = (1u << each->n_axes) - 1;
    tile->n_a = sides->n_a;
    tile->n_b = sides->n_b;
    tile->n_a_axes = take(tile, 0, each, sides->a);
    tile->n_b_axes = take(tile, tile->n_a_axes, each, sides->b);
    sort_by_from(tile->axes + tile->n_a_axes, tile->n_b_axes);
    tile->n_other_axes =
        take(tile, tile->n_a_axes + tile->n_b_axes, each, all & ~(sides->a | sides->b));
}

static void plan_tiles(struct layout_tile *tile, int64_t n, int64_t side_a, int64_t side_b) {
    int64_t tiles_a = (tile->n_a - 1) / side_a + 1, tiles_b = (tile->n_b - 1) / side_b + 1;
    tile->tiles_a = cushim_divider_of(tiles_a);
    tile->tiles_b = cushim_divider_of(tiles_b);
    tile->n_tiles = n / (tile->n_a * tile->n_b) * tiles_a * tiles_b;
}

/*
 * Whether every row of a tile can be read and written 16 bytes at a time on both sides, and 31 bits
 * can count the tiles, of at least 256 of the n units, and the units along their sides.
 */
static bool is_wide(const struct layout_tile *tile, const void *src, const void *dst, int64_t n,
                    size_t unit_bytes) {
    int64_t n_units = WIDE_BYTES / (int64_t)unit_bytes;
    int n_axes = tile->n_a_axes + tile->n_b_axes + tile->n_other_axes;
    if ((unit_bytes != 2 && unit_bytes != 4) || tile->n_a > INT32_MAX || tile->n_b > INT32_MAX ||
        n / 256 > INT32_MAX || (((uintptr_t)src | (uintptr_t)dst) & (WIDE_BYTES - 1)) ||
        tile->n_a % n_units || tile->n_b % n_units)
        return false;
    for (int k = 0; k < n_axes; k++) {
        bool is_a = k < tile->n_a_axes, is_b = !is_a && k < tile->n_a_axes + tile->n_b_axes;
        if ((!is_b && tile->axes[k].from % n_units) || (!is_a && tile->axes[k].to % n_units))
            return false;
    }
    return true;
}

void layout_plan_make(struct layout_plan *plan, const void *src, const void *dst,
                      const int64_t *shape, const int64_t *strides, int ndim, size_t elem_bytes,
                      unsigned n_sms) {
    struct view view = {0};
    struct sides sides;
    *plan = (struct layout_plan){.path = LAYOUT_BY_UNIT};
    for (int d = 0; d < ndim; d++) {
        if (shape[d] != 1) /* the stride of a lone element may be anything */
            append(&view, shape[d], strides[d] * (int64_t)elem_bytes);
    }
    append(&view, (int64_t)elem_bytes, 1);
    plan->unit_bytes = widen(&view, src, dst);
    plan_each(&plan->each, &view);
    if (!find_sides(&plan->each, plan->unit_bytes, &sides))
        return;
    plan_axes(&plan->tile, &plan->each, &sides);
    int64_t side = plan->unit_bytes > 4 ? SMALL_SIDE : SIDE, side_a = side, side_b = side;
    plan->path = is_wide(&plan->tile, src, dst, plan->each.n, plan->unit_bytes)
                     ? LAYOUT_BY_WIDE_TILE
                     : LAYOUT_BY_TILE;
    if (plan->path == LAYOUT_BY_WIDE_TILE && plan->unit_bytes == 4) {
        if (sides.n_a <= SMALL_SIDE) {
            plan->path = LAYOUT_BY_LOW_TILE;
            side_a = SMALL_SIDE;
            side_b = LONG_SIDE;
        } else if (sides.n_b <= SMALL_SIDE) {
            plan->path = LAYOUT_BY_NARROW_TILE;
            side_a = LONG_SIDE;
            side_b = SMALL_SIDE;
        }
    }
    plan_tiles(&plan->tile, plan->each.n, side_a, side_b);
    if (plan->path == LAYOUT_BY_TILE && plan->unit_bytes == 4 && plan->tile.n_a_axes == 1 &&
        plan->tile.n_b_axes == 1 && plan->tile.n_other_axes <= 1 &&
        plan->tile.n_tiles < FEW * (int64_t)n_sms) {
        plan->path = LAYOUT_BY_SMALL_TILE;
        plan_tiles(&plan->tile, plan->each.n, SMALL_SIDE, SMALL_SIDE);
    }
}
