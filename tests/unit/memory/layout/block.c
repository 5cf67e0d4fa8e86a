#include "memory/layout/block.h"
#include "memory/heap.h"

#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { THIRD = 1365 * 512 }; /* of 2 MiB, in whole grains */

static struct fixture *fixture;

static struct cushim_mem_lookup find(uint64_t address) {
    struct cushim_mem_lookup lookup = {.segment = NULL};
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    ck_assert_ptr_eq(lookup.segment->heap, &fixture->heaps[0]);
    return lookup;
}

TEST(the_start_and_the_inside_of_a_block_lead_to_it) {
    static const size_t sizes[] = {1, 512, 1000, 4097, 100000, 1 << 20, 3000000, 300 << 20};
    fixture = fixture_create(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t address = fixture_take(fixture, sizes[i]);
        const uint64_t places[] = {address, address + sizes[i] / 2, address + sizes[i] - 1};
        for (size_t k = 0; k < 3; k++) {
            struct cushim_mem_lookup lookup = find(places[k]);
            ck_assert_uint_eq(lookup.base, address);
            ck_assert_int_eq(lookup.state, CUSHIM_MEM_LIVE);
            ck_assert_uint_eq(lookup.asked_bytes, sizes[i]);
            ck_assert_uint_ge(lookup.block_bytes, sizes[i]);
        }
    }
    fixture_check(fixture);
}

TEST(slack_belongs_to_its_block) {
    fixture = fixture_create(NULL);
    uint64_t small = fixture_take(fixture, 513), large = fixture_take(fixture, (2 << 20) + 1);
    ck_assert_uint_eq(find(small + 1023).base, small);
    ck_assert_uint_eq(find(small + 1023).block_bytes, 1024);
    ck_assert_uint_eq(find(large + (2 << 20) + 65535).base, large);
    ck_assert_uint_eq(find(large).asked_bytes, (2 << 20) + 1);
}

TEST(the_tail_of_a_slab_and_a_free_cell_are_no_block) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1536); /* of a slab of three */
    struct cushim_mem_lookup cell = find(address + 1536);
    ck_assert_ptr_nonnull(cell.meta);
    ck_assert_int_eq(cell.state, CUSHIM_MEM_FREE);
    ck_assert_int_eq(fixture_judge(fixture, address + 1536, 1), CUSHIM_MEM_NO_BLOCK);
    fixture_destroy(fixture);
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 3; i++) /* the last one ends a grain before its segment */
        address = fixture_take(fixture, THIRD);
    struct cushim_mem_lookup tail = find(address + THIRD);
    ck_assert_ptr_null(tail.meta);
    ck_assert_int_eq(tail.state, CUSHIM_MEM_FREE);
    ck_assert_int_eq(fixture_judge(fixture, address + THIRD, 1), CUSHIM_MEM_NO_BLOCK);
}

/* 682.5 KiB are 170.6 pages of 4 KiB. */
TEST(blocks_that_meet_inside_a_page_are_distinguished) {
    uint64_t at[3];
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 3; i++) {
        at[i] = fixture_take(fixture, THIRD);
        ck_assert_uint_eq(at[i], at[0] + (uint64_t)i * THIRD);
    }
    fixture_check(fixture);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(find(at[i]).base, at[i]);
        ck_assert_uint_eq(find(at[i] + THIRD - 1).base, at[i]);
        ck_assert_int_eq(fixture_judge(fixture, at[i], THIRD), CUSHIM_MEM_INSIDE);
        ck_assert_int_eq(fixture_judge(fixture, at[i] + THIRD - 1, 2), CUSHIM_MEM_OVERRUN);
        ck_assert_int_eq(cushim_mem_blocks_glance(&fixture->blocks, at[i], THIRD),
                         CUSHIM_MEM_INSIDE);
        ck_assert_int_eq(cushim_mem_blocks_glance(&fixture->blocks, at[i] + THIRD - 1, 1),
                         CUSHIM_MEM_INSIDE);
    }
    fixture_give(fixture, at[0]);
    fixture_give(fixture, at[2]);
    fixture_trim(fixture, 0);
    ck_assert_int_eq(fixture_judge(fixture, at[0] + THIRD - 1, 1), CUSHIM_MEM_NO_BLOCK);
    ck_assert_int_eq(fixture_judge(fixture, at[1], THIRD), CUSHIM_MEM_INSIDE);
    ck_assert_int_eq(fixture_judge(fixture, at[2], 1), CUSHIM_MEM_NO_BLOCK);
    fixture_give(fixture, at[1]);
    fixture_check(fixture);
}

TEST(a_free_extent_is_ours_and_is_no_block) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 512);
    struct cushim_mem_lookup lookup = find(address + 65536);
    ck_assert_ptr_null(lookup.ref.extent);
    ck_assert_ptr_null(lookup.meta);
    ck_assert_int_eq(lookup.state, CUSHIM_MEM_FREE);
    ck_assert_int_eq(fixture_judge(fixture, address + 65536, 1), CUSHIM_MEM_NO_BLOCK);
}

TEST(a_foreign_address_is_not_ours_to_judge) {
    struct cushim_mem_lookup lookup;
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 512);
    const uint64_t foreign[] = {0, 1, address - 1, address + (2 << 20), UINT64_MAX};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        ck_assert(!cushim_mem_blocks_find(&fixture->blocks, foreign[i], &lookup));
        ck_assert_int_eq(fixture_judge(fixture, foreign[i], 1), CUSHIM_MEM_FOREIGN);
    }
}

TEST(an_access_is_judged_by_the_requested_size) {
    fixture = fixture_create(NULL);
    uint64_t a = fixture_take(fixture, 1000);
    ck_assert_int_eq(fixture_judge(fixture, a, 1000), CUSHIM_MEM_INSIDE);
    ck_assert_int_eq(fixture_judge(fixture, a + 999, 1), CUSHIM_MEM_INSIDE);
    ck_assert_int_eq(fixture_judge(fixture, a, 1001), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 999, 2), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 1000, 1), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 1010, 1), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 1023, 0), CUSHIM_MEM_INSIDE);
}

TEST(a_length_that_overflows_64_bits_is_an_overrun) {
    fixture = fixture_create(NULL);
    uint64_t a = fixture_take(fixture, 1000);
    ck_assert_int_eq(fixture_judge(fixture, a, SIZE_MAX), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 500, SIZE_MAX), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 500, SIZE_MAX - a), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 500, 0 - (size_t)(a + 500)), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 1010, SIZE_MAX), CUSHIM_MEM_OVERRUN);
}

TEST(a_freed_block_is_no_block) {
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, 6 << 20);
    uint64_t small = fixture_take(fixture, 1000), large = fixture_take(fixture, 5000000);
    uint64_t own = fixture_take(fixture, 8 << 20);
    fixture_give(fixture, small);
    fixture_give(fixture, large);
    fixture_give(fixture, own);
    ck_assert_int_eq(fixture_judge(fixture, small, 1), CUSHIM_MEM_NO_BLOCK);
    ck_assert_int_eq(fixture_judge(fixture, large + 4096, 1), CUSHIM_MEM_NO_BLOCK);
    ck_assert_int_eq(fixture_judge(fixture, own, 1), CUSHIM_MEM_NO_BLOCK);
}

TEST(memory_of_a_context_that_is_gone_is_foreign) {
    static const size_t sizes[] = {1000, 100000, 3 << 20};
    fixture = fixture_create(NULL);
    uint64_t addresses[sizeof sizes / sizeof *sizes];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        addresses[i] = fixture_take(fixture, sizes[i]);
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cushim_mem_lookup lookup;
        ck_assert(!cushim_mem_blocks_find(&fixture->blocks, addresses[i], &lookup));
        ck_assert_ptr_null(cushim_mem_pagemap_slab(&fixture->blocks.map, addresses[i]));
    }
}

TEST(a_block_freed_in_stream_order_stops_being_a_block_at_once) {
    CUresult answer;
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    fake_submit(0);
    ck_assert_int_eq(fixture_release_on(fixture, address, fake_stream(0), &answer), CUSHIM_OK);
    ck_assert_int_eq(find(address).state, CUSHIM_MEM_DEFERRED);
    ck_assert_int_eq(fixture_judge(fixture, address, 1), CUSHIM_MEM_NO_BLOCK);
}

SUITE() {
    return tests_run("block");
}
