/* Direct pools: blocks go straight between the free lists and a host that caches by itself. */
#include "memory/heap/direct.h"
#include "memory/heap/growth.h"
#include "memory/heap/heap.h"

#include "tests/unit/memory/heap/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;

static struct cushim_mem_lookup fetch(size_t n_bytes) {
    struct cushim_mem_lookup found;
    ck_assert_int_eq(cushim_mem_direct_fetch(&fixture->pools[0], n_bytes, &found), CUSHIM_OK);
    return found;
}

static struct cushim_mem_lookup take(size_t n_bytes) {
    struct cushim_mem_lookup found;
    ck_assert_int_eq(cushim_mem_direct_take(&fixture->pools[0], n_bytes, false, &found), CUSHIM_OK);
    return found;
}

START_TEST(a_block_is_live_when_taken_and_free_at_once_when_given) {
    static const size_t sizes[] = {1000, 3000000, (size_t)300 << 20};
    fixture = fixture_create(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cushim_mem_lookup none, found = fetch(sizes[i]), seen;
        ck_assert(cushim_mem_blocks_find(&fixture->ledger, found.base, &seen));
        ck_assert_ptr_eq(seen.cell, found.cell);
        ck_assert_uint_eq(seen.base, found.base);
        ck_assert_uint_eq(seen.asked_bytes, sizes[i]);
        ck_assert_int_eq(seen.state, CUSHIM_MEM_LIVE);
        fake_submit(0); /* work that is not over: the host says that it does not matter */
        fake_forget_order();
        cushim_mem_direct_give(&fixture->pools[0], &found);
        ck_assert_int_eq(fixture_state(fixture, found.base), CUSHIM_MEM_FREE);
        ck_assert_uint_eq(take(sizes[i]).base, found.base);
        ck_assert_str_eq(fake_order(), ""); /* not a word to the driver */
        cushim_mem_direct_give(&fixture->pools[0], &found);
        ck_assert_int_eq(cushim_mem_direct_take(&fixture->pools[0], (size_t)1 << 30, false, &none),
                         CUSHIM_NOTFOUND);
    }
    fixture_check(fixture);
    fixture_destroy(fixture);
}
END_TEST

START_TEST(a_hosts_word_stays_in_the_cell_while_it_has_the_block) {
    fixture = fixture_create(NULL);
    struct cushim_mem_lookup first = fetch(1000), second = take(1000);
    first.cell->next_free = 77;
    second.cell->next_free = 78;
    cushim_mem_direct_give(&fixture->pools[0], &second);
    second = take(1000);
    ck_assert_uint_eq(first.cell->next_free, 77);
    cushim_mem_direct_give(&fixture->pools[0], &first);
    cushim_mem_direct_give(&fixture->pools[0], &second);
    fixture_check(fixture);
    fixture_destroy(fixture);
}
END_TEST

START_TEST(a_trim_gives_all_that_is_free_and_keeps_what_it_is_told) {
    fixture = fixture_create(NULL);
    struct cushim_mem_lookup small = fetch(1000), large = fetch((size_t)300 << 20);
    ck_assert_uint_eq(cushim_mem_growth_trim(&fixture->pools[0], 0), 0);
    cushim_mem_direct_give(&fixture->pools[0], &small);
    cushim_mem_direct_give(&fixture->pools[0], &large);
    ck_assert_uint_eq(cushim_mem_growth_trim(&fixture->pools[0], (size_t)1 << 30), 0);
    ck_assert_uint_ge(cushim_mem_growth_trim(&fixture->pools[0], (size_t)300 << 20), 2 << 20);
    ck_assert_uint_gt(fake_n_allocations(), 0);
    cushim_mem_growth_trim(&fixture->pools[0], 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    fixture_check(fixture);
    fixture_destroy(fixture);
}
END_TEST

START_TEST(where_pages_are_not_to_be_cut_only_what_is_cut_serves) {
    struct cushim_mem_lookup found, first, second;
    fixture = fixture_create(NULL);
    first = fetch(1000);
    second = take(1000);
    ck_assert_int_eq(cushim_mem_direct_take(&fixture->pools[0], 2000, true, &found),
                     CUSHIM_NOTFOUND);
    cushim_mem_direct_give(&fixture->pools[0], &second);
    ck_assert_int_eq(cushim_mem_direct_take(&fixture->pools[0], 1000, true, &found), CUSHIM_OK);
    ck_assert_uint_eq(found.base, second.base);
    cushim_mem_direct_give(&fixture->pools[0], &found);
    cushim_mem_direct_give(&fixture->pools[0], &first);
    fixture_check(fixture);
    fixture_destroy(fixture);
}
END_TEST

START_TEST(a_pool_whose_context_went_serves_nothing) {
    struct cushim_mem_lookup found;
    fixture = fixture_create(NULL);
    cushim_mem_heap_abandon(&fixture->pools[0]);
    ck_assert_int_eq(cushim_mem_direct_take(&fixture->pools[0], 1000, false, &found), CUSHIM_STATE);
    fixture_destroy(fixture);
}
END_TEST

SUITE() {
    return suite_run("direct",
                     (const TTest *[]){a_block_is_live_when_taken_and_free_at_once_when_given,
                                       a_hosts_word_stays_in_the_cell_while_it_has_the_block,
                                       a_trim_gives_all_that_is_free_and_keeps_what_it_is_told,
                                       where_pages_are_not_to_be_cut_only_what_is_cut_serves,
                                       a_pool_whose_context_went_serves_nothing, NULL});
}
