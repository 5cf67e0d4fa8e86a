/* How much a pool holds: little when little is used, and no more than recent use explains. */
#include "memory/pool.h"

#include <string.h>

#include "base/clock.h"
#include "memory/growth.h"
#include "tests/unit/memory/rig.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static struct rig *rig;
static uint64_t addresses[4000];

static struct cushim_mem_pool *pool(void) {
    return &rig->pools[0];
}

/* The promise; `peak_bytes` is the highest live total so far, as cut. */
static void check_bound(size_t peak_bytes) {
    size_t basis_bytes = pool()->live_bytes > peak_bytes ? pool()->live_bytes : peak_bytes;
    size_t bound_bytes = basis_bytes + basis_bytes / 16 + 32 * MIB;
    /* pages pinned by live blocks cannot go: then nothing that is wholly free is left */
    ck_assert_msg(pool()->held_bytes <= bound_bytes || pool()->free_segment_bytes == 0,
                  "held %zu of at most %zu", pool()->held_bytes, bound_bytes);
}

/*
 * Seconds go by, with a free in between: recent peaks explain nothing any more.  (Without it a peak
 * is of unknown age and counts for a second more.)
 */
static void let_time_pass(void) {
    uint64_t address = rig_take(rig, 512);
    pool()->recent_since_ns = cushim_clock_coarse_ns() - 3000000000u;
    rig_give(rig, address);
    pool()->recent_since_ns = cushim_clock_coarse_ns() - 3000000000u;
}

START_TEST(a_program_that_uses_1_MiB_holds_one_segment_of_2_MiB) {
    static const size_t sizes[] = {512, 4096, 10000, 60000, 100000, 200000, 300000, 262144};
    rig = rig_create(NULL);
    for (unsigned i = 0; i < 8; i++)
        rig_take(rig, sizes[i]);
    ck_assert_uint_eq(pool()->held_bytes, 2 * MIB);
    ck_assert_uint_eq(fake_n_allocations(), 1);
    rig_check(rig);
}
END_TEST

/* Sizes that cost the driver twice their bytes. */
static void check_packing(size_t n_bytes) {
    rig = rig_create(NULL);
    for (unsigned i = 0; i < 1000; i++)
        rig_take(rig, n_bytes);
    size_t live_bytes = rig->stats.live_bytes;
    ck_assert_uint_eq(live_bytes, 1000 * n_bytes);
    ck_assert_msg(pool()->held_bytes <= live_bytes / 100 * 106, "held %zu for %zu live",
                  pool()->held_bytes, live_bytes);
    rig_check(rig);
    rig_destroy(rig);
}

START_TEST(a_thousand_blocks_of_1100000_bytes_cost_what_they_are) {
    check_packing(1100000);
}
END_TEST

START_TEST(a_thousand_blocks_of_2200000_bytes_cost_what_they_are) {
    check_packing(2200000);
}
END_TEST

START_TEST(what_is_held_stays_within_its_bound_after_each_free) {
    static const size_t sizes[] = {3 * MIB, 700000, 20 * MIB, 5000, 1100000, 60 * MIB};
    size_t peak_bytes = 0;
    rig = rig_create(NULL);
    for (unsigned i = 0; i < 120; i++) {
        addresses[i] = rig_take(rig, sizes[i % 6]);
        peak_bytes = pool()->live_bytes;
    }
    for (unsigned i = 0; i < 120; i++) {
        rig_give(rig, addresses[i * 77 % 120]);
        check_bound(peak_bytes);
        if (i == 40) {
            let_time_pass();
            peak_bytes = pool()->live_bytes;
        }
    }
    rig_check(rig);
}
END_TEST

START_TEST(when_all_is_freed_and_time_passed_little_is_held) {
    rig = rig_create(NULL);
    for (unsigned i = 0; i < 200; i++)
        addresses[i] = rig_take(rig, 3 * MIB);
    uint64_t last = rig_take(rig, 1000);
    for (unsigned i = 0; i < 200; i++)
        rig_give(rig, addresses[i]);
    ck_assert_uint_ge(pool()->held_bytes, 500 * (size_t)MIB); /* the recent peak explains it */
    let_time_pass();
    rig_give(rig, last);
    ck_assert_uint_le(pool()->held_bytes, 32 * MIB);
    rig_check(rig);
}
END_TEST

START_TEST(free_slabs_do_not_keep_segments_beyond_the_bound) {
    rig = rig_create(NULL);
    for (unsigned i = 0; i < 4000; i++) /* all classes, mixed, over many segments */
        addresses[i] = rig_take(rig, cushim_mem_sizeclass_bytes(i % CUSHIM_MEM_N_CLASSES));
    for (unsigned i = 0; i < 4000; i++) {
        if (i == 3999)
            let_time_pass();
        rig_give(rig, addresses[i]);
    }
    ck_assert_uint_eq(pool()->live_bytes, 0);
    ck_assert_uint_le(pool()->held_bytes, 32 * MIB);
    rig_check(rig);
}
END_TEST

START_TEST(an_idle_dedicated_segment_serves_what_is_at_most_an_eighth_smaller) {
    rig = rig_create(NULL);
    atomic_store(&rig->policy.dedicated_bytes, 4 * MIB);
    uint64_t address = rig_take(rig, 9 * MIB);
    rig_give(rig, address);
    ck_assert_uint_eq(rig_take(rig, 8 * MIB), address); /* 8 + 8/8 */
    rig_give(rig, address);
    ck_assert_uint_ne(rig_take(rig, 8 * MIB - 8), address);
    ck_assert_uint_eq(rig_take(rig, 9 * MIB), address);
    ck_assert_uint_ne(rig_take(rig, 9 * MIB), address);
    rig_check(rig);
}
END_TEST

START_TEST(of_idle_segments_the_smallest_that_fits_is_taken) {
    rig = rig_create(NULL);
    atomic_store(&rig->policy.dedicated_bytes, 4 * MIB);
    uint64_t large = rig_take(rig, 9 * MIB), exact = rig_take(rig, 8 * MIB + 100);
    rig_give(rig, exact);
    rig_give(rig, large);
    ck_assert_uint_eq(rig_take(rig, 8 * MIB + 100), exact);
    ck_assert_uint_eq(rig_take(rig, 8 * MIB + 100), large);
    rig_check(rig);
}
END_TEST

START_TEST(what_counts_as_large_may_change_while_blocks_live) {
    rig = rig_create(NULL);
    uint64_t shared = rig_take(rig, 3 * MIB);
    atomic_store(&rig->policy.dedicated_bytes, 2 * MIB);
    uint64_t own = rig_take(rig, 3 * MIB);
    ck_assert_uint_eq(pool()->segments->is_dedicated, true);
    atomic_store(&rig->policy.dedicated_bytes, 256 * (size_t)MIB);
    rig_check(rig);
    rig_give(rig, own);
    rig_give(rig, shared);
    rig_check(rig);
    ck_assert_uint_eq(rig_take(rig, 3 * MIB), shared);
    cushim_mem_growth_trim(pool(), 0);
    ck_assert_int_eq(rig_judge(rig, own, 1), CUSHIM_MEM_FOREIGN);
    rig_check(rig);
}
END_TEST

START_TEST(an_uncached_dedicated_block_goes_straight_back) {
    rig = rig_create(NULL);
    atomic_store(&rig->policy.dedicated_bytes, 2 * MIB);
    atomic_store(&rig->policy.is_dedicated_uncached, true);
    uint64_t own = rig_take(rig, 3 * MIB), shared = rig_take(rig, MIB);
    fake_forget_order();
    rig_give(rig, own);
    ck_assert_str_eq(fake_order(), "cuMemFree_v2(3145728)");
    ck_assert_int_eq(rig_judge(rig, own, 1), CUSHIM_MEM_FOREIGN);
    rig_check(rig);
    rig_give(rig, shared);
    ck_assert_uint_eq(pool()->held_bytes, 2 * MIB);
    rig_check(rig);
}
END_TEST

START_TEST(when_the_driver_is_out_free_segments_go_and_the_request_is_served) {
    CUresult answer;
    rig = rig_create(NULL);
    fake_limit(64 * MIB);
    addresses[0] = rig_take(rig, 30 * MIB);
    addresses[1] = rig_take(rig, 30 * MIB);
    rig_give(rig, addresses[0]);
    rig_give(rig, addresses[1]);
    addresses[0] = rig_take(rig, 60 * MIB);
    rig_check(rig);
    enum cushim_status status;
    ck_assert_uint_eq(rig_obtain(rig, 10 * MIB, &status), 0);
    ck_assert_int_eq(status, CUSHIM_NOMEM);
    ck_assert_int_eq(rig_release(rig, addresses[0], &answer), CUSHIM_OK);
    rig_check(rig);
}
END_TEST

int main(void) {
    return suite_run(
        "pool_keep",
        (const TTest *[]){a_program_that_uses_1_MiB_holds_one_segment_of_2_MiB,
                          a_thousand_blocks_of_1100000_bytes_cost_what_they_are,
                          a_thousand_blocks_of_2200000_bytes_cost_what_they_are,
                          what_is_held_stays_within_its_bound_after_each_free,
                          when_all_is_freed_and_time_passed_little_is_held,
                          free_slabs_do_not_keep_segments_beyond_the_bound,
                          an_idle_dedicated_segment_serves_what_is_at_most_an_eighth_smaller,
                          of_idle_segments_the_smallest_that_fits_is_taken,
                          what_counts_as_large_may_change_while_blocks_live,
                          an_uncached_dedicated_block_goes_straight_back,
                          when_the_driver_is_out_free_segments_go_and_the_request_is_served, NULL});
}
