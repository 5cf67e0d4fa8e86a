/* Allocation and free from a heap, in one thread and without captures. */
#include "memory/state/heap_state.h"

#include <string.h>

#include "memory/alloc.h"
#include "memory/free.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;
static CUresult answer;

static size_t held(void) {
    return fixture->heaps[0].held_bytes;
}

TEST(a_block_is_aligned_large_enough_and_live) {
    static const size_t sizes[] = {1,       512,           513,     5000,     70000,
                                   1 << 20, (1 << 20) + 1, 9 << 20, 300 << 20};
    fixture = fixture_create(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t address = fixture_take(fixture, sizes[i]);
        ck_assert_uint_eq(address % 512, 0);
        ck_assert_int_eq(fixture_judge(fixture, address, sizes[i]), CUSHIM_MEM_INSIDE);
        ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
        fixture_check(fixture);
    }
    ck_assert_uint_eq(cushim_mem_stats_read(&fixture_stats(fixture)->n_requests), 9);
}

TEST(a_freed_block_is_reused_without_a_driver_call) {
    static const size_t sizes[] = {1000, 700000, 3000000, 20 << 20};
    fixture = fixture_create(NULL);
    for (size_t i = 0; i < 4; i++) {
        uint64_t address = fixture_take(fixture, sizes[i]);
        fixture_give(fixture, address);
        unsigned n_before = fake_n_all_calls();
        ck_assert_uint_eq(fixture_take(fixture, sizes[i]), address);
        ck_assert_uint_eq(fake_n_all_calls(), n_before);
        fixture_check(fixture);
    }
    uint64_t n_misses = cushim_mem_stats_read(&fixture_stats(fixture)->n_misses);
    ck_assert_uint_eq(n_misses, fake_n_calls("cuMemAlloc_v2"));
    ck_assert_uint_eq(cushim_mem_stats_read(&fixture_stats(fixture)->n_hits) + n_misses, 8);
}

/* A block that comes back after a miss shows whether the lists are searched again. */
TEST(a_request_does_not_search_a_list_twice) {
    enum { N_BYTES = 3 << 20 };
    struct cushim_mem_request request;
    struct cushim_mem_block block;
    fixture = fixture_create(NULL);
    struct cushim_mem_heap *heap = &fixture->heaps[0];
    for (int i = 0; i < 2; i++)
        fixture_give(fixture, fixture_take(fixture, N_BYTES)); /* so that the segment stays */
    uint64_t address = fixture_take(fixture, N_BYTES);
    ck_assert_int_eq(cushim_mem_alloc_hit(heap, N_BYTES, &request, &block), CUSHIM_NOTFOUND);
    fixture_give(fixture, address);
    ck_assert_int_eq(cushim_mem_alloc_after(heap, N_BYTES, &request, &block), CUSHIM_OK);
    ck_assert(!block.is_hit);
    fixture_give(fixture, block.address);
    /* a miss of another size, or in an earlier life, does not count */
    ck_assert_int_eq(cushim_mem_alloc_after(heap, N_BYTES - 1, &request, &block), CUSHIM_OK);
    ck_assert(block.is_hit);
    fixture_give(fixture, block.address);
    request.life -= 2;
    ck_assert_int_eq(cushim_mem_alloc_after(heap, N_BYTES, &request, &block), CUSHIM_OK);
    ck_assert(block.is_hit);
    fixture_destroy(fixture);
}

TEST(a_hit_is_only_answered_without_a_driver_call) {
    struct cushim_mem_request request;
    struct cushim_mem_block block;
    fixture = fixture_create(NULL);
    ck_assert_int_eq(cushim_mem_alloc_hit(&fixture->heaps[0], 1000, &request, &block),
                     CUSHIM_NOTFOUND);
    fixture_take(fixture, 1000);
    ck_assert_int_eq(cushim_mem_alloc_hit(&fixture->heaps[0], 1000, &request, &block), CUSHIM_OK);
    ck_assert(block.is_hit);
    ck_assert_uint_eq(block.block_bytes, 1024);
    fixture_check(fixture);
}

TEST(a_second_free_is_reported_and_changes_nothing) {
    static const size_t sizes[] = {1000, 3000000, 20 << 20};
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, 16 << 20);
    for (size_t i = 0; i < 3; i++) {
        struct cushim_mem_lookup lookup;
        uint64_t address = fixture_take(fixture, sizes[i]);
        ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
        fixture_give(fixture, address);
        ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_DOUBLEFREE);
        /* the same if two threads looked the block up at once */
        ck_assert_int_eq(cushim_mem_free(&fixture->heaps[0], &lookup, &answer), CUSHIM_DOUBLEFREE);
        fixture_check(fixture);
    }
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
}

TEST(an_interior_or_foreign_address_is_not_freed) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 3000000);
    ck_assert_int_eq(fixture_release(fixture, address + 512, &answer), CUSHIM_INVALID);
    ck_assert_int_eq(fixture_release(fixture, address - 1, &answer), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

TEST(a_free_after_an_old_look_up_subtracts_the_current_size) {
    struct cushim_mem_lookup old;
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &old));
    fixture_give(fixture, address);
    ck_assert_uint_eq(fixture_take(fixture, 520), address);
    ck_assert_int_eq(cushim_mem_free(&fixture->heaps[0], &old, &answer), CUSHIM_OK);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    fixture_check(fixture);
}

TEST(a_free_waits_for_the_work_before_it) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    fake_submit(0);
    fake_submit(4); /* another stream of the context */
    fake_forget_order();
    fixture_give(fixture, address);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuCtxRecordEvent(0)"));
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventSynchronize(0)"));
    ck_assert_uint_eq(fixture_stats(fixture)->n_waits, 1);
}

static enum cushim_mem_state state_in_wait;
static uint64_t watched;

static void look_in_wait(const char *name) {
    struct cushim_mem_lookup lookup;
    if (strcmp(name, "cuEventSynchronize") == 0 &&
        cushim_mem_blocks_find(&fixture->blocks, watched, &lookup)) {
        struct cushim_mem_request request;
        struct cushim_mem_block block;
        state_in_wait = lookup.state;
        cushim_mem_alloc_hit(&fixture->heaps[0], 1000, &request, &block);
        ck_assert_uint_ne(block.address, watched);
    }
}

/* The gauge leaves out what a cache has not published yet: at most 1 MiB. */
static void check_gauge(bool is_relaxed) {
    enum { BLOCKS = 32, BYTES = 64 << 10, FAR = 1 << 20 };
    uint64_t addresses[BLOCKS];
    fixture = fixture_create(NULL);
    fixture->policy.is_relaxed = is_relaxed;
    for (unsigned i = 0; i < BLOCKS; i++)
        addresses[i] = fixture_take(fixture, BYTES);
    for (unsigned i = 0; i < BLOCKS; i++) {
        fixture_give(fixture, addresses[i]);
        int64_t off_bytes =
            (int64_t)atomic_load(&fixture->stats.live_bytes) - (int64_t)(BLOCKS - 1 - i) * BYTES;
        ck_assert_int_le(off_bytes, FAR);
        ck_assert_int_ge(off_bytes, -FAR);
    }
    fixture_destroy(fixture);
}

TEST(the_gauge_of_live_bytes_is_never_far_off) {
    check_gauge(false);
    check_gauge(true);
}

TEST(a_block_is_not_reused_while_its_free_waits) {
    fixture = fixture_create(NULL);
    watched = fixture_take(fixture, 1000);
    state_in_wait = CUSHIM_MEM_FREE;
    fake_submit(0);
    fake_on_call(look_in_wait);
    fixture_give(fixture, watched);
    ck_assert_int_eq(state_in_wait, CUSHIM_MEM_DEFERRED);
    ck_assert_int_eq(fixture_state(fixture, watched), CUSHIM_MEM_FREE);
    fixture_check(fixture);
}

TEST(nothing_is_held_after_all_was_freed_and_trimmed) {
    static const size_t sizes[] = {1,       512,     5000,    70000,    1 << 20,
                                   1100000, 2200000, 9 << 20, 300 << 20};
    uint64_t addresses[9 * 20];
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 9 * 20; i++)
        addresses[i] = fixture_take(fixture, sizes[i % 9]);
    for (unsigned i = 0; i < 9 * 20; i++) {
        fixture_give(fixture, addresses[i * 7 % (9 * 20)]);
        if (i % 16 == 0)
            fixture_check(fixture);
    }
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->block_bytes, 0);
    size_t held_bytes = held(),
           reusable_bytes = cushim_mem_reclaim_reusable_bytes(&fixture->heaps[0]);
    ck_assert_uint_eq(reusable_bytes, fake_used_bytes()); /* whole pages of the driver */
    ck_assert_uint_eq(fixture_trim(fixture, 0), held_bytes);
    ck_assert_uint_eq(held(), 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    fixture_check(fixture);
}

TEST(a_trim_keeps_the_requested_bytes_and_live_blocks) {
    uint64_t addresses[10];
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 10; i++)
        addresses[i] = fixture_take(fixture, 2 << 20);
    for (unsigned i = 0; i < 9; i++)
        fixture_give(fixture, addresses[i]);
    fixture_trim(fixture, 6 << 20);
    ck_assert_uint_le(fixture->heaps[0].free_segment_bytes, 6 << 20);
    fixture_check(fixture);
    fixture_trim(fixture, 0);
    ck_assert_uint_eq(held(), fixture->heaps[0].segments->n_bytes);
    ck_assert_uint_eq(fake_n_allocations(), 1);
    ck_assert_int_eq(fixture_state(fixture, addresses[9]), CUSHIM_MEM_LIVE);
    ck_assert_int_eq(fixture_judge(fixture, addresses[0], 1), CUSHIM_MEM_FOREIGN);
    fixture_check(fixture);
}

TEST(a_segment_that_the_driver_refuses_to_free_stays_held) {
    static const size_t sizes[] = {3000000, 300 << 20}; /* shared, dedicated */
    for (int i = 0; i < 2; i++) {
        fixture = fixture_create(NULL);
        fixture->policy.least_idle_bytes = SIZE_MAX / 2;
        uint64_t address = fixture_take(fixture, sizes[i]);
        fixture_give(fixture, address);
        size_t held_bytes = held();
        fake_fail_always("cuMemFree_v2", CUDA_ERROR_UNKNOWN);
        ck_assert_uint_eq(fixture_trim(fixture, 0), 0);
        ck_assert_int_eq(fixture_judge(fixture, address, 1), CUSHIM_MEM_NO_BLOCK);
        ck_assert_uint_eq(held(), held_bytes);
        fixture_check(fixture);
        ck_assert_uint_eq(fixture_take(fixture, sizes[i]), address);
        fixture_destroy(fixture);
    }
}

/* A handle of one of its blocks was exported. */
TEST(a_retired_segment_serves_nothing_and_goes_back_once_it_is_free) {
    enum { N = 600, N_BYTES = 5000 };
    static uint64_t blocks[N];
    for (int can_free = 0; can_free < 2; can_free++) {
        struct cushim_mem_lookup lookup;
        fixture = fixture_create(NULL);
        uint64_t shared = fixture_take(fixture, N_BYTES), beside = fixture_take(fixture, N_BYTES);
        ck_assert(cushim_mem_blocks_find(&fixture->blocks, shared, &lookup));
        cushim_mem_heap_retire_segment(&fixture->heaps[0], lookup.segment);
        cushim_mem_heap_retire_segment(&fixture->heaps[0], lookup.segment);
        fixture_check(fixture);
        ck_assert_int_eq(fixture_state(fixture, shared), CUSHIM_MEM_LIVE);
        fixture_give(fixture, shared);
        fixture_check(fixture);
        for (unsigned i = 0; i < N; i++) {
            blocks[i] = fixture_take(fixture, N_BYTES);
            ck_assert_uint_ne(blocks[i], shared);
        }
        ck_assert_int_eq(fixture_judge(fixture, shared, 1), CUSHIM_MEM_NO_BLOCK);
        fixture_give(fixture, beside);
        for (unsigned i = 0; i < N; i++)
            fixture_give(fixture, blocks[i]);
        fixture_check(fixture);
        if (!can_free)
            fake_fail_always("cuMemFree_v2", CUDA_ERROR_UNKNOWN);
        fixture_trim(fixture, 0);
        fixture_check(fixture);
        ck_assert_int_eq(fixture_judge(fixture, shared, 1),
                         can_free ? CUSHIM_MEM_FOREIGN : CUSHIM_MEM_NO_BLOCK);
        fixture_destroy(fixture);
    }
}

TEST(an_abandoned_heap_makes_no_driver_call_and_its_addresses_are_foreign) {
    uint64_t addresses[5];
    fixture = fixture_create(NULL);
    static const size_t sizes[] = {1000, 70000, 3000000, 300 << 20, 5000};
    for (unsigned i = 0; i < 5; i++)
        addresses[i] = fixture_take(fixture, sizes[i]);
    ck_assert_int_eq(fixture_release_on(fixture, addresses[4], fake_stream(0), &answer), CUSHIM_OK);
    fixture_give(fixture, addresses[1]);
    atomic_store(&fixture->heaps[0].filler.stream, fake_stream(0));
    unsigned n_before = fake_n_all_calls();
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    ck_assert_uint_eq(fake_n_all_calls(), n_before);
    ck_assert_ptr_null(atomic_load(&fixture->heaps[0].filler.stream));
    ck_assert(!cushim_mem_heap_is_open(&fixture->heaps[0]));
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(fixture_judge(fixture, addresses[i], 1), CUSHIM_MEM_FOREIGN);
        ck_assert(cushim_mem_pagemap_is_vacated(&fixture->blocks.map, addresses[i] + sizes[i] - 1));
    }
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->block_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->held_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->n_segments, 0);
    enum cushim_status status;
    ck_assert_uint_eq(fixture_obtain(fixture, 1000, &status), 0);
    ck_assert_int_eq(status, CUSHIM_STATE);
}

/* A context is gone and a segment of another context lies at its addresses before the heap is
 * abandoned. */
TEST(a_late_abandon_spares_a_segment_of_another_heap_at_the_same_address) {
    struct cushim_mem_block block = {0};
    struct cushim_mem_lookup lookup;
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    fake_lose_all();
    fixture_open(fixture, 1);
    fake_set_current(fake_context(1));
    ck_assert_int_eq(cushim_mem_alloc(&fixture->heaps[1], 1000, &block), CUSHIM_OK);
    ck_assert_uint_eq(block.address, address);
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    ck_assert_ptr_eq(lookup.segment->heap, &fixture->heaps[1]);
    ck_assert_int_eq(cushim_mem_free(&fixture->heaps[1], &lookup, &answer), CUSHIM_OK);
    fixture_check(fixture);
}

TEST(an_abandoned_heap_can_be_opened_again) {
    fixture = fixture_create(NULL);
    for (unsigned life = 0; life < 5; life++) {
        uint64_t kept = fixture_take(fixture, 5000000), address = fixture_take(fixture, 1000);
        fixture_give(fixture, address);
        ck_assert_uint_eq(fixture_take(fixture, 1000), address);
        ck_assert_int_eq(fixture_release_on(fixture, kept, fake_stream(0), &answer), CUSHIM_OK);
        fixture_check(fixture);
        cushim_mem_heap_abandon(&fixture->heaps[0]);
        fake_lose_all();
        fixture_open(fixture, 0);
        ck_assert_uint_eq(fixture->heaps[0].generation, 2 * life + 3);
        fixture_check(fixture);
    }
}

static void abandon_in_wait(const char *name) {
    if (strcmp(name, "cuEventSynchronize") == 0) {
        fake_on_call(NULL);
        cushim_mem_heap_abandon(&fixture->heaps[0]);
        fixture_open(fixture, 0);
        /* the descriptors are reused, and caches have their blocks */
        for (unsigned i = 0; i < 6; i++)
            fixture_take(fixture, i < 3 ? 1000 : 5000);
    }
}

TEST(a_free_that_waits_while_its_heap_is_reopened_leaves_the_new_life_alone) {
    for (unsigned i = 0; i < 2; i++) {
        fixture = fixture_create(NULL);
        uint64_t address = fixture_take(fixture, i ? 3000000 : 900);
        fake_submit(0);
        fake_on_call(abandon_in_wait);
        fixture_release(fixture, address, &answer);
        ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 3 * 1000 + 3 * 5000);
        ck_assert_uint_eq(fixture_used_bytes(fixture), 3 * 1024 + 3 * 5120);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(two_heaps_of_one_page_map_keep_their_blocks_apart) {
    fixture = fixture_create(NULL);
    uint64_t mine = fixture_take(fixture, 1000);
    fake_set_current(fake_context(1));
    fixture_open(fixture, 1);
    struct cushim_mem_block other;
    ck_assert_int_eq(cushim_mem_alloc(&fixture->heaps[1], 1000, &other), CUSHIM_OK);
    fixture_check(fixture);
    fake_forget_order();
    /* context 1 is current, but the record is made in the block's context */
    fixture_give(fixture, mine);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuCtxRecordEvent(0)"));
    ck_assert_ptr_null(strstr(fake_order(), "cuCtxRecordEvent(1)"));
    ck_assert_ptr_eq(fake_current(), fake_context(1));
    ck_assert_int_eq(fixture_state(fixture, other.address), CUSHIM_MEM_LIVE);
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    ck_assert_int_eq(fixture_state(fixture, other.address), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

TEST(a_free_and_a_trim_restore_the_current_context) {
    CUcontext contexts[] = {fake_context(0), fake_context(3), NULL};
    for (unsigned i = 0; i < 3; i++) {
        fixture = fixture_create(NULL);
        uint64_t address = fixture_take(fixture, 3000000), other = fixture_take(fixture, 1000);
        fake_set_current(contexts[i]);
        unsigned depth = fake_depth();
        fake_submit(0);
        fixture_give(fixture, address);
        ck_assert_int_eq(fixture_release_on(fixture, other, fake_stream(0), &answer), CUSHIM_OK);
        fixture_trim(fixture, 0);
        ck_assert_ptr_eq(fake_current(), contexts[i]);
        ck_assert_uint_eq(fake_depth(), depth);
        ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(an_impossible_size_is_refused_as_by_the_driver) {
    static const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 65535,      SIZE_MAX / 2,
                                   (size_t)1 << 48, ((size_t)1 << 48) + 1, (size_t)1 << 45};
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            enum cushim_status status;
            ck_assert_uint_eq(fixture_obtain(fixture, sizes[k], &status), 0);
            ck_assert_int_eq(status, CUSHIM_NOMEM);
        }
        atomic_store(&fixture->policy.dedicated_bytes,
                     SIZE_MAX); /* CUSHIM_LARGE has no upper limit */
    }
    fixture_check(fixture);
}

TEST(a_terabyte_is_served_whatever_CUSHIM_LARGE_is) {
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, SIZE_MAX);
    for (unsigned i = 39; i < 41; i++) { /* the largest extent, and a larger size */
        uint64_t address = fixture_take(fixture, (size_t)1 << i);
        fixture_give(fixture, address);
        fixture_check(fixture);
    }
}

TEST(one_block_of_each_of_57_small_sizes_takes_one_driver_page_as_without_cushim) {
    fixture = fixture_create(NULL);
    for (size_t i = 1; i <= 57; i++)
        fixture_take(fixture, i * 512);
    ck_assert_uint_eq(held(), 2 << 20);
    fixture_check(fixture);
}

/* Single blocks that come first cost one page more. */
TEST(three_blocks_of_a_third_of_2_MiB_share_one_driver_page_as_without_cushim) {
    static const size_t sizes[] = {680 << 10, (680 << 10) + 1, 1365 * 512};
    uint64_t addresses[90];
    for (unsigned k = 0; k < 3; k++) {
        fixture = fixture_create(NULL);
        for (size_t i = 0; i < 90; i++)
            addresses[i] = fixture_take(fixture, sizes[k]);
        ck_assert_uint_eq(held(), 30 * (size_t)(2 << 20));
        fixture_check(fixture);
        for (size_t i = 0; i < 90; i++)
            fixture_give(fixture, addresses[i]);
        fixture_check(fixture);
        fixture_trim(fixture, 0);
        ck_assert_uint_eq(held(), 0);
        fixture_destroy(fixture);
    }
}

SUITE() {
    return tests_run("heap");
}
