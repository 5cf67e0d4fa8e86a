/* How much a heap holds: little if little is used, and no more than recent use explains. */
#include "memory/state/heap_state.h"

#include <string.h>

#include "base/clock.h"
#include "memory/reclaim.h"
#include "memory/heap.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static struct fixture *fixture;
static uint64_t addresses[4000];

static struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

static uint64_t wasted_bytes(void) {
    return cushim_mem_stats_read(&fixture->stats.wasted_bytes);
}

/* The guaranteed bound; `peak_bytes` is the highest total of live blocks so far, as cut. */
static void check_bound(size_t peak_bytes) {
    size_t basis_bytes = heap()->live_bytes > peak_bytes ? heap()->live_bytes : peak_bytes;
    size_t bound_bytes = basis_bytes + basis_bytes / 2 + 32 * MIB; /* for sizes that alternate */
    /* pages that live blocks pin cannot go; then no segment is wholly free */
    ck_assert_msg(heap()->held_bytes <= bound_bytes || heap()->free_segment_bytes == 0,
                  "held %zu of at most %zu", heap()->held_bytes, bound_bytes);
}

/*
 * Seconds pass, with a free in between, so that no recent peak counts.  (Without the free a peak
 * has an unknown age and counts for another second.)
 */
static void let_time_pass(void) {
    uint64_t address = fixture_take(fixture, 512);
    heap()->recent_since_ns = cushim_clock_coarse_ns() - 3000000000u;
    fixture_give(fixture, address);
    heap()->recent_since_ns = cushim_clock_coarse_ns() - 3000000000u;
    heap()->drained_ns = 0;
}

TEST(a_program_that_uses_1_MiB_holds_one_segment_of_2_MiB) {
    static const size_t sizes[] = {512, 4096, 10000, 60000, 100000, 200000, 300000, 262144};
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 8; i++)
        fixture_take(fixture, sizes[i]);
    ck_assert_uint_eq(heap()->held_bytes, 2 * MIB);
    ck_assert_uint_eq(fake_n_allocations(), 1);
    fixture_check(fixture);
}

/* Sizes that cost twice their bytes in the driver. If they shared segments, a live block would pin
 * pages of others. */
static void check_packing(size_t n_bytes) {
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 1000; i++)
        addresses[i] = fixture_take(fixture, n_bytes);
    size_t live_bytes = fixture_stats(fixture)->live_bytes;
    ck_assert_uint_eq(live_bytes, 1000 * n_bytes);
    size_t native_bytes = (n_bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    ck_assert_uint_eq(heap()->held_bytes, 1000 * native_bytes);
    for (unsigned i = 0; i < 1000; i++) {
        if (i % 5)
            fixture_give(fixture, addresses[i]);
    }
    cushim_mem_reclaim_trim(heap(), 0);
    ck_assert_uint_eq(heap()->held_bytes, 200 * native_bytes); /* no block pins another's page */
    fixture_check(fixture);
    fixture_destroy(fixture);
}

TEST(a_thousand_blocks_of_1100000_bytes_cost_the_same_as_without_cushim) {
    check_packing(1100000);
}

TEST(a_thousand_blocks_of_2200000_bytes_cost_the_same_as_without_cushim) {
    check_packing(2200000);
}

TEST(held_memory_stays_within_its_bound_after_each_free) {
    static const size_t sizes[] = {3 * MIB, 700000, 20 * MIB, 5000, 1100000, 60 * MIB};
    size_t peak_bytes = 0;
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 120; i++) {
        addresses[i] = fixture_take(fixture, sizes[i % 6]);
        peak_bytes = heap()->live_bytes;
    }
    for (unsigned i = 0; i < 120; i++) {
        fixture_give(fixture, addresses[i * 77 % 120]);
        check_bound(peak_bytes);
        if (i == 40) {
            let_time_pass();
            peak_bytes = heap()->live_bytes;
        }
    }
    fixture_check(fixture);
}

TEST(after_everything_is_freed_little_is_held) {
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 200; i++)
        addresses[i] = fixture_take(fixture, 3 * MIB);
    uint64_t last = fixture_take(fixture, 1000);
    for (unsigned i = 0; i < 200; i++)
        fixture_give(fixture, addresses[i]);
    fixture_give(fixture, last);
    ck_assert_uint_le(heap()->held_bytes, 32 * MIB);
    fixture_check(fixture);
}

TEST(free_slabs_do_not_keep_segments_beyond_the_bound) {
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 4000; i++) /* all classes, mixed, over many segments */
        addresses[i] = fixture_take(fixture, cushim_mem_sizeclass_bytes(i % CUSHIM_MEM_N_CLASSES));
    for (unsigned i = 0; i < 4000; i++) {
        if (i == 3999)
            let_time_pass();
        fixture_give(fixture, addresses[i]);
    }
    ck_assert_uint_eq(fixture_used_bytes(fixture), 0);
    /* blocks that were just in the cache count as live: at most 4 MiB */
    ck_assert_uint_le(heap()->held_bytes, 4 * MIB + 4 * MIB / 16 + 32 * MIB);
    fixture_check(fixture);
}

TEST(an_idle_segment_of_its_own_serves_up_to_its_rounded_size) {
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, 4 * MIB);
    uint64_t address = fixture_take(fixture, 17 * MIB);
    fixture_give(fixture, address);
    ck_assert_uint_ne(fixture_take(fixture, 18 * MIB + 1), address);
    ck_assert_uint_eq(fixture_take(fixture, 18 * MIB), address);
    fixture_give(fixture, address);
    ck_assert_uint_eq(fixture_take(fixture, 16 * MIB + 1), address);
    fixture_check(fixture);
}

TEST(among_idle_segments_of_one_size_the_last_freed_is_taken) {
    fixture = fixture_create(NULL);
    fixture->policy.least_idle_bytes = SIZE_MAX / 2;
    atomic_store(&fixture->policy.dedicated_bytes, 4 * MIB);
    uint64_t first = fixture_take(fixture, 17 * MIB), last = fixture_take(fixture, 16 * MIB + 100);
    fixture_give(fixture, first);
    fixture_give(fixture, last);
    ck_assert_uint_eq(fixture_take(fixture, 17 * MIB), last);
    ck_assert_uint_eq(fixture_take(fixture, 16 * MIB + 100), first);
    fixture_check(fixture);
}

TEST(the_threshold_for_large_blocks_may_change_while_blocks_live) {
    fixture = fixture_create(NULL);
    uint64_t shared = fixture_take(fixture, 3 * MIB);
    atomic_store(&fixture->policy.dedicated_bytes, 2 * MIB);
    uint64_t own = fixture_take(fixture, 3 * MIB);
    ck_assert_uint_eq(heap()->segments->is_dedicated, true);
    atomic_store(&fixture->policy.dedicated_bytes, 256 * (size_t)MIB);
    fixture_check(fixture);
    fixture_give(fixture, own);
    fixture_give(fixture, shared);
    fixture_check(fixture);
    ck_assert_uint_eq(fixture_take(fixture, 3 * MIB), shared);
    cushim_mem_reclaim_trim(heap(), 0);
    ck_assert_int_eq(fixture_judge(fixture, own, 1), CUSHIM_MEM_FOREIGN);
    fixture_check(fixture);
}

TEST(an_uncached_dedicated_block_goes_straight_back) {
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, 2 * MIB);
    atomic_store(&fixture->policy.is_dedicated_uncached, true);
    uint64_t own = fixture_take(fixture, 3 * MIB), shared = fixture_take(fixture, MIB);
    fake_forget_order();
    fixture_give(fixture, own);
    ck_assert_str_eq(fake_order(), "cuMemFree_v2(4194304)");
    ck_assert_int_eq(fixture_judge(fixture, own, 1), CUSHIM_MEM_FOREIGN);
    fixture_check(fixture);
    fixture_give(fixture, shared);
    ck_assert_uint_eq(heap()->held_bytes, 2 * MIB);
    fixture_check(fixture);
}

/* ---- how much is kept ---- */

static struct fixture *fixture_with_reserve(size_t number, bool is_percent) {
    struct fixture *made = fixture_create(NULL);
    made->policy.reserve = (struct cushim_amount){number, is_percent};
    return made;
}

/* Take and give n blocks of 20 MiB, then let time pass; returns the held bytes. */
static size_t held_after(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        addresses[i] = fixture_take(fixture, 20 * MIB);
    for (unsigned i = 0; i < n; i++)
        fixture_give(fixture, addresses[i]);
    let_time_pass();
    let_time_pass();
    fixture_give(fixture, fixture_take(fixture, 20 * MIB));
    fixture_check(fixture);
    return heap()->held_bytes;
}

TEST(memory_that_can_go_back_is_segments_without_a_live_block) {
    fixture = fixture_create(NULL);
    uint64_t small = fixture_take(fixture, 1000), large = fixture_take(fixture, 5 * MIB);
    ck_assert_uint_eq(cushim_mem_reclaim_reusable_bytes(heap()), 0);
    fixture_give(fixture, large);
    ck_assert_uint_eq(cushim_mem_reclaim_reusable_bytes(heap()), 6 * MIB);
    fixture_give(fixture, small); /* the block is in a cache */
    ck_assert_uint_eq(cushim_mem_reclaim_reusable_bytes(heap()), 8 * MIB);
}

/* One turn of a loop: n blocks of n_bytes live together.  Returns the driver calls that it made. */
static unsigned turn(unsigned n, size_t n_bytes) {
    unsigned n_calls = fake_n_calls("cuMemAlloc_v2") + fake_n_calls("cuMemFree_v2");
    for (unsigned i = 0; i < n; i++)
        addresses[i] = fixture_take(fixture, n_bytes);
    for (unsigned i = 0; i < n; i++)
        fixture_give(fixture, addresses[i]);
    return fake_n_calls("cuMemAlloc_v2") + fake_n_calls("cuMemFree_v2") - n_calls;
}

TEST(memory_for_sizes_that_do_not_recur_goes_back_at_its_free) {
    for (int way = 0; way < 2; way++) {
        fixture = fixture_create(NULL);
        fixture->policy.has_keep = way;
        turn(1, 20 * MIB);
        turn(1, 20 * MIB); /* one block recurred, which does not justify keeping these 150: */
        turn(150, 20 * MIB);
        ck_assert_uint_le(heap()->held_bytes, (size_t)(way ? 4 : 20 + 32) * MIB);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(a_loop_makes_no_driver_call_from_its_third_turn_on) {
    static const size_t sizes[] = {3 * MIB, 20 * MIB, 2000 * (size_t)MIB};
    for (int k = 0; k < 3; k++) {
        fixture = fixture_create(NULL);
        for (int i = 0; i < 6; i++) {
            unsigned n_calls = turn(5, sizes[k]);
            ck_assert_msg(i < 2 || n_calls == 0, "turn %d: %u calls", i, n_calls);
        }
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

/* The free comes more than a second after the last call. */
TEST(memory_that_a_loop_kept_goes_back_once_it_is_unused) {
    fixture = fixture_create(NULL);
    uint64_t other = fixture_take(fixture, 1000);
    for (int i = 0; i < 3; i++)
        turn(50, 20 * MIB);
    ck_assert_uint_ge(heap()->held_bytes, 1000 * (size_t)MIB);
    heap()->watermark.looked_ns -= 1100000000;
    atomic_fetch_sub(&heap()->recent_since_ns, 1100000000);
    fixture_give(fixture, other);
    ck_assert_uint_le(heap()->held_bytes, (2 + 32) * MIB);
    fixture_check(fixture);
}

/* A heap of 1,000 MiB in live blocks, and idle blocks of 5/16 of that, so that it is full. */
static uint64_t fill(size_t device_mib, size_t idle_bytes) {
    fixture = fixture_create(NULL);
    fixture->policy.reserve = (struct cushim_amount){100, true};
    fake_limit(device_mib * MIB);
    uint64_t idle = fixture_take(fixture, idle_bytes), more[13];
    for (unsigned i = 0; i < 13; i++)
        more[i] = fixture_take(fixture, 24 * MIB - i);
    fixture_give(fixture, idle);
    for (unsigned i = 0; i < 13; i++)
        fixture_give(fixture, more[i]);
    heap()->recent_peak_bytes[0] = heap()->recent_peak_bytes[1] = 0;
    fixture_take(fixture, 1000 * (size_t)MIB);
    return idle;
}

/* Requests of varying sizes need no driver call. */
TEST(an_idle_segment_serves_smaller_requests_while_the_device_has_room) {
    enum { LARGE = 60 * MIB, SMALL = 31 * MIB };
    for (int has_room = 0; has_room < 2; has_room++) {
        uint64_t large = fill(has_room ? 16384 : 1536, LARGE);
        size_t live_bytes = heap()->live_bytes;
        uint64_t small = fixture_take(fixture, SMALL);
        ck_assert_int_eq(small == large, has_room);
        /* the unneeded rest does not count as used, so it permits no idle memory */
        ck_assert_uint_eq(heap()->live_bytes - live_bytes, SMALL + MIB);
        ck_assert_uint_eq(wasted_bytes(), has_room ? LARGE - SMALL - MIB : 0);
        fixture_give(fixture, small);
        ck_assert_uint_eq(wasted_bytes(), 0);
        if (has_room)
            ck_assert_uint_eq(fixture_take(fixture, LARGE), large);
        ck_assert_uint_eq(wasted_bytes(), 0);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
    fixture = fixture_create(NULL);
}

TEST(each_size_gets_its_own_segments_until_the_heap_is_full) {
    uint64_t large = fill(16384, 60 * MIB);
    /* the peak is higher now, and so is the bound on held memory */
    fixture_take(fixture, 1200 * (size_t)MIB);
    ck_assert_uint_ne(fixture_take(fixture, 31 * MIB), large);
    ck_assert_uint_eq(fixture_take(fixture, 60 * MIB), large);
    fixture_check(fixture);
}

TEST(an_idle_segment_serves_no_request_below_a_32nd_of_its_size) {
    uint64_t large = fill(65536, 600 * MIB);
    for (unsigned i = 0; i < 13; i++)
        fixture_take(fixture, 24 * MIB);
    ck_assert_uint_ne(fixture_take(fixture, 18 * MIB), large);
    ck_assert_uint_eq(fixture_take(fixture, 20 * MIB), large);
    fixture_check(fixture);
}

TEST(live_blocks_waste_a_64th_of_the_device_at_most) {
    uint64_t large = fill(16384, 400 * MIB); /* it may waste 256 MiB */
    ck_assert_uint_eq(fixture_take(fixture, 144 * MIB), large);
    ck_assert_uint_eq(wasted_bytes(), 256 * MIB);
    fixture_take(fixture, 20 * MIB); /* idle blocks of 24 MiB would serve it */
    ck_assert_uint_eq(wasted_bytes(), 256 * MIB);
    fixture_check(fixture);
    fixture_destroy(fixture);
    large = fill(16384, 400 * MIB);
    ck_assert_uint_ne(fixture_take(fixture, 142 * MIB), large);
    fixture_check(fixture);
}

/* Idle memory has the same bound. */
TEST(live_blocks_waste_at_most_7_16_of_the_used_memory) {
    uint64_t large = fill(65536, 600 * MIB);
    ck_assert_uint_ne(fixture_take(fixture, 100 * MIB), large);
    ck_assert_uint_eq(fixture_take(fixture, 180 * MIB), large);
    fixture_check(fixture);
}

/* The device has one budget: the end of a context returns its part. */
TEST(a_heap_that_is_abandoned_wastes_nothing) {
    uint64_t large = fill(16384, 60 * MIB);
    ck_assert_uint_eq(fixture_take(fixture, 40 * MIB), large);
    ck_assert_uint_eq(wasted_bytes(), 20 * MIB);
    cushim_mem_heap_abandon(heap());
    ck_assert_uint_eq(wasted_bytes(), 0);
}

TEST(a_reserve_stays_even_if_no_use_explains_it) {
    fixture = fixture_with_reserve(200 * (size_t)MIB, false);
    size_t held_bytes = held_after(20);
    ck_assert_uint_le(held_bytes, 200 * MIB);
    ck_assert_uint_gt(held_bytes, 170 * MIB);
    fixture_destroy(fixture);
    fixture = fixture_with_reserve(0, false);
    ck_assert_uint_le(held_after(20), (20 + 32) * MIB);
    fixture_destroy(fixture);
    fixture = fixture_with_reserve(100, true);
    ck_assert_uint_ge(held_after(20), 400 * MIB);
    fixture_destroy(fixture);
    fixture = fixture_with_reserve(10, true);
    fake_limit(1000 * (size_t)MIB);
    held_bytes = held_after(20);
    ck_assert_uint_le(held_bytes, 100 * MIB);
    ck_assert_uint_gt(held_bytes, 70 * MIB);
}

TEST(a_heap_with_almost_nothing_live_holds_at_most_an_eighth_of_the_device) {
    fixture = fixture_create(NULL);
    fixture->policy.reserve = (struct cushim_amount){100, true};
    fake_limit(1024 * (size_t)MIB);
    uint64_t small = fixture_take(fixture, 1000);
    for (unsigned i = 0; i < 30; i++)
        addresses[i] = fixture_take(fixture, 20 * MIB);
    for (unsigned i = 0; i < 30; i++)
        fixture_give(fixture, addresses[i]);
    /* without cushim all of it would be free; here 7/8 are, at once and for any process */
    ck_assert_uint_le(heap()->held_bytes, (128 + 2) * MIB);
    ck_assert_uint_gt(heap()->held_bytes, 100 * MIB);
    /* a loop that frees and allocates everything stays below that and makes no driver call */
    unsigned n_calls = fake_n_calls("cuMemAlloc_v2");
    for (unsigned i = 0; i < 10; i++)
        fixture_give(fixture, fixture_take(fixture, 20 * MIB));
    ck_assert_uint_eq(fake_n_calls("cuMemAlloc_v2"), n_calls);
    fixture_give(fixture, small);
    fixture_check(fixture);
}

TEST(idle_memory_is_at_most_half_of_the_drivers_free_memory) {
    fixture = fixture_create(NULL);
    fixture->policy.reserve = (struct cushim_amount){100, true};
    fake_limit(1024 * (size_t)MIB);
    for (unsigned i = 0; i < 45; i++)
        addresses[i] = fixture_take(fixture, 20 * MIB);
    for (unsigned i = 0; i < 40; i++) {
        fixture_give(fixture, addresses[i]);
        heap()->watermark.asked_ns = 1; /* a tenth of a second passes */
        size_t free_bytes = heap()->held_bytes - heap()->live_bytes;
        size_t driver_bytes = 1024 * (size_t)MIB - fake_used_bytes();
        ck_assert_msg(free_bytes <= 32 * MIB || free_bytes <= driver_bytes / 2,
                      "%zu free, the driver has %zu", free_bytes, driver_bytes);
    }
    ck_assert_uint_gt(heap()->held_bytes, heap()->live_bytes + 200 * (size_t)MIB);
    fixture_check(fixture);
}

/* The device is busy during the whole test: no request may wait for it. */
TEST(a_request_gives_memory_back_first_if_that_needs_no_wait) {
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 60; i++) { /* three turns */
        addresses[i % 20] = fixture_take(fixture, (20 + i % 20) * MIB);
        for (unsigned k = 0; i % 20 == 19 && k < 20; k++)
            fixture_give(fixture, addresses[k]);
    }
    fake_submit(0);
    size_t held_bytes = heap()->held_bytes;
    fake_forget_order();
    addresses[0] = fixture_take(fixture, 200 * MIB);
    ck_assert_ptr_null(strstr(fake_order(), "cuMemFree_v2"));
    ck_assert_uint_eq(heap()->held_bytes, held_bytes + 200 * MIB);
    fake_finish(0);
    fake_forget_order();
    addresses[1] = fixture_take(fixture, 100 * MIB);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuMemFree_v2"));
    check_bound(20 * 30 * (size_t)MIB);
    fixture_check(fixture);
}

TEST(each_scheme_of_sizes_packs_a_thousand_blocks) {
    static const size_t sizes[] = {512, 3000, 70000, 513 * 1024, 700000, 1 << 20};
    for (int scheme = CUSHIM_MEM_FINE; scheme <= CUSHIM_MEM_EXACT; scheme++) {
        cushim_mem_sizeclass_choose((enum cushim_mem_scheme)scheme);
        fixture = fixture_create(NULL);
        for (unsigned i = 0; i < 3000; i++)
            addresses[i] = fixture_take(fixture, sizes[i % 6]);
        fixture_check(fixture);
        for (unsigned i = 0; i < 3000; i++)
            fixture_give(fixture, addresses[i]);
        fixture_check(fixture);
        cushim_mem_reclaim_trim(heap(), 0);
        ck_assert_uint_eq(heap()->held_bytes, 0);
        fixture_destroy(fixture);
    }
}

TEST(no_heap_exceeds_the_budget_of_the_device) {
    static struct cushim_mem_limit budget;
    enum cushim_status status;
    fixture = fixture_create(NULL);
    fixture->policy.budgets = &budget;
    atomic_store(&budget.limit_bytes, 100 * (size_t)MIB);
    unsigned n = 0;
    while ((addresses[n] = fixture_obtain(fixture, 3 * MIB, &status)))
        n++;
    ck_assert_int_eq(status, CUSHIM_NOMEM);
    ck_assert_uint_le(fake_used_bytes(), 100 * MIB);
    ck_assert_uint_ge(n, 25); /* as without cushim */
    ck_assert_uint_eq(atomic_load(&budget.charged_bytes), fake_used_bytes());
    for (unsigned i = 0; i < n; i++)
        fixture_give(fixture, addresses[i]);
    addresses[0] = fixture_take(fixture, 90 * MIB); /* idle memory was released for it */
    ck_assert_uint_le(fake_used_bytes(), 100 * MIB);
    fixture_give(fixture, addresses[0]);
    fake_limit(50 * (size_t)MIB); /* a request that the driver refuses is not charged */
    ck_assert_uint_eq(fixture_obtain(fixture, 60 * MIB, &status), 0);
    ck_assert_int_eq(status, CUSHIM_NOMEM);
    ck_assert_uint_eq(atomic_load(&budget.charged_bytes), fake_used_bytes());
    fake_lose_all();
    cushim_mem_heap_abandon(heap());
    ck_assert_uint_eq(atomic_load(&budget.charged_bytes), 0);
}

TEST(if_the_driver_is_out_of_memory_free_segments_go_and_the_request_is_served) {
    CUresult answer;
    fixture = fixture_create(NULL);
    fake_limit(64 * MIB);
    addresses[0] = fixture_take(fixture, 30 * MIB);
    addresses[1] = fixture_take(fixture, 30 * MIB);
    fixture_give(fixture, addresses[0]);
    fixture_give(fixture, addresses[1]);
    addresses[0] = fixture_take(fixture, 60 * MIB);
    fixture_check(fixture);
    enum cushim_status status;
    ck_assert_uint_eq(fixture_obtain(fixture, 10 * MIB, &status), 0);
    ck_assert_int_eq(status, CUSHIM_NOMEM);
    ck_assert_int_eq(fixture_release(fixture, addresses[0], &answer), CUSHIM_OK);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("pool_keep");
}
