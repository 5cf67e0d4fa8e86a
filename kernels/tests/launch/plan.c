/*
 * What the host works out for the layout and reduce families, without any device: divisors, the
 * plans of strided copies, the parts of sums.
 */
#include "tests/unit/suite.h"

#include <stdbool.h>
#include <string.h>

#include "cushim/kernels_ref.h"
#include "kernels/shared/divider.h"
#include "kernels/layout/layout_plan.h"
#include "kernels/reduce/reduce_plan.h"

/* ---- divisors: what kernels/device/math/divide.cuh does, in C ---- */

static uint64_t divide(uint64_t n, const struct cushim_divider *divider) {
    __extension__ unsigned __int128 product = (unsigned __int128)divider->magic * n;
    return ((uint64_t)(product >> 64) + n) >> divider->shift;
}

static uint32_t divide_small(uint32_t n, const struct cushim_divider *divider) {
    return ((uint32_t)((uint64_t)divider->magic_small * n >> 32) + n) >> divider->shift;
}

/* One ck_assert for many divisions, because each writes to the runner. */
static void assert_divides(uint64_t n, uint64_t by) {
    struct cushim_divider divider = cushim_divider_of((int64_t)by);
    bool is_small = n <= INT32_MAX && by <= INT32_MAX;
    if (divide(n, &divider) != n / by ||
        (is_small && divide_small((uint32_t)n, &divider) != n / by))
        ck_abort_msg("%llu / %llu", (unsigned long long)n, (unsigned long long)by);
}

/* Where a wrong quotient would show first: around multiples, and at the ends. */
static void assert_divides_all(uint64_t by, uint64_t most, uint64_t random) {
    uint64_t multiple = random % (most / by + 1) * by, last = most / by * by;
    const uint64_t dividends[] = {
        0,        by - 1, by,       multiple, multiple ? multiple - 1 : 0, random % most,
        last - 1, last,   most - 1, most};
    for (unsigned i = 0; i < sizeof dividends / sizeof *dividends; i++)
        assert_divides(dividends[i] <= most ? dividends[i] : most, by);
}

TEST(a_divisor_divides_every_size) {
    uint64_t state = 0x9E3779B97F4A7C15;
    for (uint64_t by = 1; by < suite_steps(5000); by++) {
        assert_divides_all(by, INT32_MAX, suite_random(&state));
        assert_divides_all(by, INT64_MAX, suite_random(&state));
    }
    for (int i = 0; i < (int)suite_steps(20000); i++) {
        uint64_t by = (suite_random(&state) >> 1 >> suite_random(&state) % 62) + 1;
        if (by <= INT32_MAX)
            assert_divides_all(by, INT32_MAX, suite_random(&state));
        assert_divides_all(by, INT64_MAX, suite_random(&state));
    }
    for (int bit = 0; bit < 63; bit++) {
        for (int64_t step = -1; step <= 1; step++) {
            uint64_t by = ((uint64_t)1 << bit) + (uint64_t)step;
            if (by)
                assert_divides_all(by, INT64_MAX, suite_random(&state));
        }
    }
}

/* ---- plans of copies ---- */

/* Carry out a plan as its kernels do, unit by unit. */
static int64_t place_of(int64_t at, const struct layout_axis *axes, int n, bool is_source) {
    int64_t place = 0;
    for (int k = 0; k < n; k++) {
        int64_t digit = k + 1 < n ? at % axes[k].size.by : at;
        place += digit * (is_source ? axes[k].from : axes[k].to);
        at /= axes[k].size.by;
    }
    return place;
}

static void run_each(const struct layout_plan *plan, const unsigned char *src, unsigned char *dst) {
    const struct layout_each *each = &plan->each;
    int64_t unit = (int64_t)plan->unit_bytes;
    for (int64_t at = 0; at < each->n; at++)
        memcpy(dst + at * unit, src + place_of(at, each->axes, each->n_axes, true) * unit,
               plan->unit_bytes);
}

static void run_tiles(const struct layout_plan *plan, const unsigned char *src,
                      unsigned char *dst) {
    const struct layout_tile *tile = &plan->tile;
    const struct layout_axis *a = tile->axes, *b = a + tile->n_a_axes, *others = b + tile->n_b_axes;
    int64_t unit = (int64_t)plan->unit_bytes,
            n_others = tile->n_tiles / (tile->tiles_a.by * tile->tiles_b.by);
    for (int64_t o = 0; o < n_others; o++) {
        for (int64_t i = 0; i < tile->n_a; i++) {
            for (int64_t k = 0; k < tile->n_b; k++) {
                int64_t from = place_of(o, others, tile->n_other_axes, true) +
                               place_of(i, a, tile->n_a_axes, true) + k,
                        to = place_of(o, others, tile->n_other_axes, false) +
                             place_of(k, b, tile->n_b_axes, false) + i;
                memcpy(dst + to * unit, src + from * unit, plan->unit_bytes);
            }
        }
    }
}

/* Of the device; with fewer tiles of 64 by 64 than this there are four times as many. */
enum { N_SMS = 132, FEW_TILES = 4 * N_SMS };

enum { MOST_BYTES = 1 << 20 };
static _Alignas(16) unsigned char source[2 * MOST_BYTES], copied[MOST_BYTES], wanted[MOST_BYTES];

struct view {
    int ndim;
    int64_t shape[LAYOUT_MOST_DIMS], strides[LAYOUT_MOST_DIMS];
    size_t elem_bytes;
};

/* Both ways, compared with the reference; the source begins in the middle of a range. */
static enum layout_path assert_plan_copies(const struct view *view, size_t offset) {
    const unsigned char *src = source + MOST_BYTES + offset;
    struct layout_plan plan;
    size_t n_bytes = view->elem_bytes;
    for (int d = 0; d < view->ndim; d++)
        n_bytes *= (size_t)view->shape[d];
    ck_assert_uint_le(n_bytes, MOST_BYTES);
    layout_plan_make(&plan, src, copied, view->shape, view->strides, view->ndim, view->elem_bytes,
                     N_SMS);
    ck_assert_uint_eq((size_t)plan.each.n * plan.unit_bytes, n_bytes);
    cushim_strided_copy_ref(src, wanted, view->shape, view->strides, view->ndim, view->elem_bytes);
    memset(copied, 0, n_bytes);
    run_each(&plan, src, copied);
    ck_assert_mem_eq(copied, wanted, n_bytes);
    if (plan.path != LAYOUT_BY_UNIT) {
        memset(copied, 0, n_bytes);
        run_tiles(&plan, src, copied);
        ck_assert_mem_eq(copied, wanted, n_bytes);
    }
    return plan.path;
}

static void fill(void) {
    uint64_t state = 0xD1B54A32D192ED03;
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)suite_random(&state);
}

/* A view of a permuted, partly reversed, partly repeated tensor with gaps. */
static struct view draw_view(uint64_t *state) {
    static const size_t elem_bytes[] = {1, 2, 4, 8, 16, 3, 12};
    struct view view = {.ndim = (int)(suite_random(state) % 7)};
    view.elem_bytes = elem_bytes[suite_random(state) % 7];
    int64_t n = 1, stride = 1,
            round = suite_random(state) % 2 ? 1 : 8; /* sizes are multiples of this */
    int order[LAYOUT_MOST_DIMS];
    for (int d = 0; d < view.ndim; d++) {
        int64_t most = 20000 / n > 70 ? 70 : 20000 / n;
        view.shape[d] = 1 + (int64_t)(suite_random(state) % (uint64_t)most);
        if (view.shape[d] >= round)
            view.shape[d] -= view.shape[d] % round;
        n *= view.shape[d];
        int at = (int)(suite_random(state) % (uint64_t)(d + 1));
        order[d] = order[at];
        order[at] = d;
    }
    for (int k = 0; k < view.ndim; k++) {
        uint64_t kind = suite_random(state) % 16;
        int64_t *own = &view.strides[order[k]];
        *own = kind == 0 ? 0 : kind == 1 ? -stride : stride;
        stride *= kind == 0 ? 1 : view.shape[order[k]];
        stride += kind == 2 ? 4 : kind == 3 ? 1 : 0;
    }
    return view;
}

TEST(a_plan_copies_what_the_reference_does) {
    uint64_t state = 0xA0761D6478BD642F;
    int n_of_path[LAYOUT_BY_SMALL_TILE + 1] = {0};
    fill();
    for (int i = 0; i < (int)suite_steps(4000); i++) {
        struct view view = draw_view(&state);
        int64_t reach = 1;
        for (int d = 0; d < view.ndim; d++)
            reach += (view.shape[d] - 1) * llabs(view.strides[d]);
        if (reach * (int64_t)view.elem_bytes < MOST_BYTES - 64)
            n_of_path[assert_plan_copies(&view, suite_random(&state) % 4 ? 0 : i % 16)]++;
    }
    for (int path = 0; path <= LAYOUT_BY_SMALL_TILE; path++)
        ck_assert_int_ge(n_of_path[path], (int)suite_steps(11));
}

static struct layout_plan plan_of(int64_t rows, int64_t cols, size_t elem_bytes, size_t offset) {
    struct layout_plan plan;
    layout_plan_make(&plan, source + offset, copied, (const int64_t[]){cols, rows},
                     (const int64_t[]){1, cols}, 2, elem_bytes, N_SMS);
    return plan;
}

TEST(a_transpose_goes_by_wide_tiles_if_it_may) {
    ck_assert_int_eq(plan_of(8192, 8192, 4, 0).path, LAYOUT_BY_WIDE_TILE);
    ck_assert_int_eq(plan_of(4096, 14336, 2, 0).path, LAYOUT_BY_WIDE_TILE);
    ck_assert_int_eq(plan_of(32, 1000000, 4, 0).path, LAYOUT_BY_LOW_TILE);
    ck_assert_int_eq(plan_of(1000000, 32, 4, 0).path, LAYOUT_BY_NARROW_TILE);
    ck_assert_int_eq(plan_of(32, 1000000, 2, 0).path, LAYOUT_BY_WIDE_TILE);
    ck_assert_int_eq(plan_of(1000, 1003, 4, 0).path, LAYOUT_BY_SMALL_TILE);
    ck_assert_int_eq(plan_of(64 * FEW_TILES, 63, 4, 0).path, LAYOUT_BY_TILE);
    ck_assert_int_eq(plan_of(64 * FEW_TILES - 64, 63, 4, 0).path, LAYOUT_BY_SMALL_TILE);
    ck_assert_int_eq(plan_of(64 * FEW_TILES - 64, 63, 4, 0).tile.n_tiles, 4 * (FEW_TILES - 1));
    ck_assert_int_eq(plan_of(1000, 1003, 2, 0).path, LAYOUT_BY_TILE);
    ck_assert_int_eq(plan_of(8192, 8192, 4, 4).path, LAYOUT_BY_TILE);
    ck_assert_int_eq(plan_of(8196, 8192, 2, 0).path, LAYOUT_BY_TILE);
    ck_assert_int_eq(plan_of(8192, 8192, 8, 0).path, LAYOUT_BY_TILE);
    ck_assert_int_eq(plan_of(1, 8192, 4, 0).path, LAYOUT_BY_UNIT);
}

TEST(what_lies_in_one_piece_is_copied_in_the_widest_units) {
    struct layout_plan plan;
    layout_plan_make(&plan, source, copied, (const int64_t[]){6, 1, 5, 8},
                     (const int64_t[]){40, 7, 8, 1}, 4, 2, N_SMS);
    ck_assert_uint_eq(plan.unit_bytes, 16);
    ck_assert_int_eq(plan.each.n_axes, 1);
    layout_plan_make(&plan, source + 8, copied, (const int64_t[]){6, 5}, (const int64_t[]){5, 1}, 2,
                     4, N_SMS);
    ck_assert_uint_eq(plan.unit_bytes, 8);
    layout_plan_make(&plan, source + 1, copied, (const int64_t[]){6, 5}, (const int64_t[]){5, 1}, 2,
                     4, N_SMS);
    ck_assert_uint_eq(plan.unit_bytes, 1);
}

/* ---- sums ---- */

/* Every unit of the axis is in one part, and no part is empty. */
TEST(parts_make_up_the_axis) {
    uint64_t state = 0x2545F4914F6CDD1D;
    int n_cut = 0;
    for (int i = 0; i < (int)suite_steps(10000); i++) {
        int64_t outer =
                    1 + (int64_t)(suite_random(&state) >> suite_random(&state) % 4 % 3 * 4) % 300,
                axis = 1 + (int64_t)(suite_random(&state) >> 1) % (1 << suite_random(&state) % 27),
                inner = suite_random(&state) % 2 ? 1 : 1 + (int64_t)(suite_random(&state) % 500);
        if (outer < 1)
            continue;
        int64_t n_parts = reduce_n_parts(outer, axis, inner);
        struct reduce_plan plan;
        ck_assert_int_ge(n_parts, 1);
        reduce_plan_make(&plan, outer, axis, inner, n_parts, 16, 132);
        ck_assert_int_eq(plan.sum.n_parts, n_parts);
        ck_assert_int_ge(plan.sum.part * n_parts, plan.sum.axis);
        ck_assert_uint_le(plan.n_threads, REDUCE_MOST_THREADS);
        ck_assert_int_ge(plan.n_blocks, 1);
        if (n_parts > 1) {
            ck_assert_int_lt(plan.sum.part * (n_parts - 1), plan.sum.axis);
            ck_assert_int_eq(plan.way, inner == 1 ? REDUCE_ROW : REDUCE_TILE);
            n_cut++;
        }
    }
    ck_assert_int_gt(n_cut, (int)suite_steps(100));
}

int main(void) {
    return tests_run("plan");
}
