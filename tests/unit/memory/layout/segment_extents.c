#include "memory/layout/segment.h"

#include <string.h>

#include "tests/unit/suite.h"

enum { GRAINS = 4096 };

static struct cushim_mem_meta meta;
static struct cushim_mem_extents extents;
static struct cushim_mem_segment *segment;

static void setup(size_t n_grains) {
    static uint64_t base = (uint64_t)3 << 40;
    segment = cushim_mem_segment_create(&meta, base, n_grains * CUSHIM_MEM_GRAIN_BYTES, false);
    base += (uint64_t)1 << 32;
    cushim_mem_extents_list(&extents, &segment->first);
}

/* Mark a run as a block, as the heap does. */
static struct cushim_mem_extent *take(size_t n_grains) {
    struct cushim_mem_extent *extent = cushim_mem_extents_take(&extents, &meta, n_grains);
    if (extent)
        atomic_store(&extent->kind, CUSHIM_MEM_EXTENT_BLOCK);
    return extent;
}

static struct cushim_mem_extent *give(struct cushim_mem_extent *extent) {
    return cushim_mem_extents_give(&extents, &meta, extent);
}

static uint32_t n_listed(void) {
    uint32_t n = 0;
    for (unsigned i = 0; i < CUSHIM_MEM_EXTENT_LISTS; i++) {
        const struct cushim_mem_extent *extent = extents.lists[i];
        for (; extent; extent = extent->next, n++) {
            if (extent != extents.lists[i])
                ck_assert_ptr_eq(extent->previous->next, extent);
            ck_assert_int_eq(atomic_load(&extent->kind), CUSHIM_MEM_EXTENT_FREE);
        }
    }
    return n;
}

TEST(a_run_is_cut_from_the_low_end_and_the_rest_stays_free) {
    setup(GRAINS);
    struct cushim_mem_extent *a = take(17), *b = take(9);
    ck_assert_uint_eq(a->first_grain, 0);
    ck_assert_uint_eq(a->n_grains, 17);
    ck_assert_uint_eq(b->first_grain, 17);
    ck_assert_uint_eq(n_listed(), 1);
    ck_assert_ptr_eq(a->after, b);
    ck_assert_ptr_eq(b->before, a);
    ck_assert_uint_eq(b->after->n_grains, GRAINS - 26);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, cushim_mem_extent_address(b)), b);
}

/* 682.5 KiB: with whole pages only two would fit. */
TEST(a_segment_holds_as_many_runs_as_fit) {
    setup(GRAINS);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(take(1365));
    ck_assert_ptr_null(take(1));
}

TEST(no_run_is_shorter_than_a_page_and_a_shorter_rest_stays_with_its_run) {
    setup(64);
    struct cushim_mem_extent *a = take(1), *b = take(64 - 8 - 7);
    ck_assert_uint_eq(a->n_grains, 8);
    ck_assert_uint_eq(b->n_grains, 64 - 8);
    ck_assert_ptr_null(b->after);
    give(b);
    b = take(64 - 8 - 8);
    ck_assert_uint_eq(b->n_grains, 64 - 8 - 8);
    ck_assert_uint_eq(b->after->n_grains, 8);
}

TEST(an_exact_fit_leaves_no_rest_and_a_larger_request_finds_none) {
    setup(GRAINS);
    ck_assert_ptr_null(take(GRAINS + 1));
    ck_assert_ptr_null(take(UINT32_MAX));
    struct cushim_mem_extent *all = take(GRAINS);
    ck_assert(cushim_mem_extent_is_whole(all));
    ck_assert_uint_eq(n_listed(), 0);
    ck_assert_ptr_null(take(1));
}

TEST(the_smallest_run_that_fits_is_taken) {
    static const size_t sizes[] = {320, 160, 264, 192, 512};
    struct cushim_mem_extent *runs[5];
    setup(GRAINS);
    for (unsigned i = 0; i < 5; i++) {
        runs[i] = take(sizes[i]);
        take(8); /* keeps the free runs apart */
    }
    for (unsigned i = 0; i < 5; i++)
        give(runs[i]);
    ck_assert_ptr_eq(take(161), runs[3]);
    ck_assert_ptr_eq(take(160), runs[1]);
    ck_assert_ptr_eq(take(264), runs[2]);
    ck_assert_ptr_eq(take(265), runs[0]);
    ck_assert_ptr_eq(take(321), runs[4]);
}

TEST(the_best_fit_of_one_list_is_taken) {
    struct cushim_mem_extent *runs[3];
    setup(GRAINS); /* 512 to 575 grains share a list */
    for (size_t i = 0; i < 3; i++) {
        runs[i] = take(568 - 24 * i);
        take(8);
    }
    for (unsigned i = 0; i < 3; i++)
        give(runs[i]);
    ck_assert_ptr_eq(take(512), runs[2]);
    ck_assert_ptr_eq(take(528), runs[1]);
    ck_assert_ptr_eq(take(512), runs[0]);
}

TEST(the_smallest_idle_run_within_bounds_serves) {
    enum { MIB = 1 << 20 };
    struct cushim_mem_extent *idle[3]; /* 64 to 71 MiB share a list */
    struct cushim_mem_extents all = {0};
    for (size_t i = 0; i < 3; i++) {
        size_t n_bytes = (68 - 2 * i) * MIB;
        idle[i] = &cushim_mem_segment_create(&meta, 64 * MIB * (i + 1), n_bytes, true)->first;
        cushim_mem_extents_list(&all, idle[i]);
    }
    ck_assert_ptr_eq(cushim_mem_extents_fit(&all, 64 * MIB, 64 * MIB), idle[2]);
    ck_assert_ptr_null(cushim_mem_extents_fit(&all, 65 * MIB, 65 * MIB));
    ck_assert_ptr_eq(cushim_mem_extents_fit(&all, 65 * MIB, 66 * MIB), idle[1]);
    ck_assert_ptr_eq(cushim_mem_extents_fit(&all, 65 * MIB, 80 * MIB), idle[1]);
    ck_assert_ptr_eq(cushim_mem_extents_fit(&all, 50 * MIB, 64 * MIB), idle[2]);
    ck_assert_ptr_null(cushim_mem_extents_fit(&all, 69 * MIB, 80 * MIB));
}

TEST(neighbours_join_in_every_order) {
    static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    setup(60);
    for (unsigned i = 0; i < 6; i++) {
        struct cushim_mem_extent *runs[3] = {take(10), take(20), take(30)}, *last = NULL;
        ck_assert_uint_eq(n_listed(), 0);
        for (unsigned k = 0; k < 3; k++)
            last = give(runs[orders[i][k]]);
        ck_assert(cushim_mem_extent_is_whole(last));
        ck_assert_ptr_null(last->before);
        ck_assert_ptr_null(last->after);
        ck_assert_uint_eq(n_listed(), 1);
        ck_assert_ptr_eq(
            cushim_mem_segment_extent(segment, segment->base + (59u << CUSHIM_MEM_LOG2_GRAIN)),
            last);
    }
}

TEST(runs_of_two_segments_never_join) {
    setup(32);
    struct cushim_mem_segment *first = segment;
    setup(32);
    struct cushim_mem_extent *a = take(32), *b = take(32);
    ck_assert_ptr_ne(a->segment, b->segment);
    ck_assert(a->segment == first || b->segment == first);
    give(a);
    give(b);
    ck_assert_uint_eq(n_listed(), 2);
}

/* The model has an owner for each grain; the check for best fit compares what is left. */
enum { MODEL_RUNS = 64 };
static struct cushim_mem_extent *runs[MODEL_RUNS];
static uint8_t owner[GRAINS]; /* 0: free, else the run's number + 1 */

static uint32_t largest_free(void) {
    uint32_t largest = 0, run = 0;
    for (uint32_t i = 0; i < GRAINS; i++) {
        run = owner[i] ? 0 : run + 1;
        largest = run > largest ? run : largest;
    }
    return largest;
}

static uint32_t n_free_runs(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < GRAINS; i++)
        n += !owner[i] && (i == 0 || owner[i - 1]);
    return n;
}

static void model_take(unsigned k, size_t n_grains) {
    size_t n_least = n_grains < 8 ? 8 : n_grains;
    runs[k] = take(n_grains);
    ck_assert_int_eq(runs[k] != NULL, n_least <= largest_free());
    if (!runs[k])
        return;
    ck_assert_uint_ge(runs[k]->n_grains, n_least);
    ck_assert_uint_lt(runs[k]->n_grains, n_least + 8);
    bool was_free = true;
    for (size_t i = 0; i < runs[k]->n_grains; i++) {
        was_free = was_free && !owner[runs[k]->first_grain + i];
        owner[runs[k]->first_grain + i] = (uint8_t)(k + 1);
    }
    ck_assert(was_free);
}

static void model_give(unsigned k) {
    memset(owner + runs[k]->first_grain, 0, runs[k]->n_grains);
    give(runs[k]);
    runs[k] = NULL;
}

static bool agrees_at(uint32_t grain) {
    struct cushim_mem_extent *at = cushim_mem_segment_extent(
        segment, segment->base + ((uint64_t)grain << CUSHIM_MEM_LOG2_GRAIN));
    return owner[grain] ? at == runs[owner[grain] - 1]
                        : atomic_load(&at->kind) == CUSHIM_MEM_EXTENT_FREE;
}

TEST(a_random_history_agrees_with_an_array_of_grains) {
    uint64_t random = 0x5eed;
    bool agrees = true;
    setup(GRAINS);
    for (unsigned round = 0; round < suite_steps(4000); round++) {
        unsigned k = (unsigned)(suite_random(&random) % MODEL_RUNS);
        if (runs[k])
            model_give(k);
        else
            model_take(k, 1 + (uint32_t)(suite_random(&random) % (k % 8 ? 96 : 960)));
        ck_assert_uint_eq(n_listed(), n_free_runs());
        for (uint32_t i = round % 37; i < GRAINS; i += 37)
            agrees = agrees && agrees_at(i);
        ck_assert(agrees);
    }
    for (unsigned k = 0; k < MODEL_RUNS; k++) {
        if (runs[k])
            model_give(k);
    }
    ck_assert(cushim_mem_extent_is_whole(take(GRAINS)));
}

TEST(a_slab_that_becomes_free_gives_its_cells_back) {
    struct cushim_mem_bucket bucket = {0};
    cushim_mem_sizeclass_choose(CUSHIM_MEM_FINE);
    setup(GRAINS);
    struct cushim_mem_extent *slab = take(128);
    ck_assert_int_eq(cushim_mem_bucket_add(&bucket, &meta, slab, 7), CUSHIM_OK);
    struct cushim_mem_block_meta *cells = slab->cells;
    size_t n_bytes = slab->n_cells * sizeof *cells;
    ck_assert_ptr_eq(cushim_mem_bucket_leave(&bucket, slab), slab);
    struct cushim_mem_extent *whole = give(slab);
    ck_assert_uint_eq(whole->n_grains, GRAINS);
    ck_assert_ptr_null(whole->cells);
    ck_assert_uint_eq(whole->n_cells, 0);
    /* the next piece of that size, which no other type uses */
    ck_assert_ptr_ne(cushim_mem_meta_obtain(&meta, n_bytes), cells);
    ck_assert_ptr_eq(cushim_mem_meta_obtain_as(&meta, CUSHIM_MEM_META_CELLS, n_bytes, 0), cells);
}

SUITE() {
    return tests_run("segment_extents");
}
