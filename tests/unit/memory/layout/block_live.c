#include "memory/layout/block.h"

#include <pthread.h>

#include "memory/free.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;

static struct cushim_mem_lookup find(uint64_t address) {
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    return lookup;
}

static uint32_t number_of(uint64_t address) {
    struct cushim_mem_lookup lookup = find(address);
    return cushim_mem_block_number(&lookup);
}

static bool set_synchronous(uint64_t address, bool is_synchronous) {
    struct cushim_mem_lookup lookup = find(address);
    return cushim_mem_block_set_synchronous(&lookup, is_synchronous);
}

static const size_t sizes[] = {1000, 3000000};

TEST(a_number_belongs_to_one_life_of_a_block) {
    fixture = fixture_create(NULL);
    for (int i = 0; i < 2; i++) {
        uint64_t block = fixture_take(fixture, sizes[i]);
        uint32_t number = number_of(block);
        ck_assert_uint_ne(number, 0);
        ck_assert_uint_eq(number_of(block + 999), number);
        struct cushim_mem_lookup lookup = find(block);
        fixture_give(fixture, block);
        ck_assert_uint_eq(cushim_mem_block_number(&lookup), 0);
        ck_assert_uint_eq(fixture_take(fixture, sizes[i]), block);
        ck_assert_uint_gt(number_of(block), number);
        fixture_give(fixture, block);
    }
    fixture_check(fixture);
}

TEST(a_marked_block_is_live_and_freed_once) {
    CUresult answer;
    fixture = fixture_create(NULL);
    for (int i = 0; i < 2; i++) {
        uint64_t block = fixture_take(fixture, sizes[i]);
        number_of(block);
        ck_assert(set_synchronous(block, true));
        ck_assert_int_eq(fixture_state(fixture, block), CUSHIM_MEM_LIVE);
        ck_assert_int_eq(fixture_judge(fixture, block, sizes[i]), CUSHIM_MEM_INSIDE);
        fixture_check(fixture);
        ck_assert(set_synchronous(block, false));
        fixture_give(fixture, block);
        ck_assert_int_eq(fixture_release(fixture, block, &answer), CUSHIM_DOUBLEFREE);
    }
    fixture_check(fixture);
}

TEST(a_refused_free_keeps_the_marks) {
    CUresult answer;
    fixture = fixture_create(NULL);
    uint64_t block = fixture_take(fixture, 1000);
    uint32_t number = number_of(block);
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_ne(fixture_release(fixture, block, &answer), CUSHIM_OK);
    ck_assert_uint_eq(number_of(block), number);
}

static unsigned n_claimed, n_back;

static void note_moved(const struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                       bool is_freed) {
    ck_assert_ptr_eq(heap, lookup->segment->heap);
    n_claimed += is_freed;
    n_back += !is_freed;
}

TEST(the_free_that_claims_a_recorded_block_says_so) {
    fixture = fixture_create(NULL);
    fixture->policy.block_moved = note_moved;
    for (int i = 0; i < 2; i++) {
        uint64_t block = fixture_take(fixture, sizes[i]);
        struct cushim_mem_lookup lookup = find(block);
        n_claimed = n_back = 0;
        ck_assert(cushim_mem_block_record(&lookup) && !cushim_mem_block_record(&lookup));
        ck_assert(cushim_mem_block_set_recorded(lookup.meta, false));
        ck_assert(!cushim_mem_block_set_recorded(lookup.meta, false));
        ck_assert(cushim_mem_block_set_recorded(lookup.meta, true));
        ck_assert_int_eq(cushim_mem_free_fast(&fixture->blocks, block, CUSHIM_MEM_FREE_ENTRY_ANY),
                         false);
        fixture_give(fixture, block);
        ck_assert(n_claimed == 1 && !n_back && !cushim_mem_block_set_recorded(lookup.meta, true));
        fixture_give(fixture, fixture_take(fixture, sizes[i])); /* another life */
        ck_assert_uint_eq(n_claimed, 1);
    }
    CUresult answer;
    uint64_t block = fixture_take(fixture, 1000);
    struct cushim_mem_lookup lookup = find(block);
    ck_assert(cushim_mem_block_record(&lookup));
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_ne(fixture_release(fixture, block, &answer), CUSHIM_OK);
    ck_assert(n_claimed == 2 && n_back == 1 && !cushim_mem_block_record(&lookup));
}

TEST(a_segment_counts_its_synchronous_blocks) {
    fixture = fixture_create(NULL);
    uint64_t first = fixture_take(fixture, 1000), second = fixture_take(fixture, 1000);
    struct cushim_mem_lookup lookup = find(first);
    ck_assert(set_synchronous(first, true) && set_synchronous(second, true));
    ck_assert(!set_synchronous(second, true));
    ck_assert_uint_eq(atomic_load(&lookup.segment->n_synchronous), 2);
    ck_assert(cushim_mem_block_is_synchronous(&lookup));
    ck_assert(set_synchronous(first, false) && !set_synchronous(first, false));
    ck_assert_uint_eq(atomic_load(&lookup.segment->n_synchronous), 1);
    ck_assert(!cushim_mem_block_is_synchronous(&lookup));
    fixture_give(fixture, first);
    ck_assert(!set_synchronous(first, true)); /* it is no longer LIVE */
    ck_assert_uint_eq(atomic_load(&lookup.segment->n_synchronous), 1);
}

TEST(a_block_that_is_not_live_any_more_is_not_found_as_one) {
    struct cushim_mem_lookup lookup;
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 100);
    ck_assert(cushim_mem_blocks_find_live(&fixture->blocks, address, &lookup));
    ck_assert_ptr_nonnull(lookup.meta);
    ck_assert(!cushim_mem_blocks_find_live(&fixture->blocks, 1, &lookup));
    uint64_t beyond =
        lookup.segment->base + lookup.segment->n_bytes - 1; /* never cut into blocks */
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, beyond, &lookup));
    ck_assert_ptr_null(lookup.meta);
    ck_assert(!cushim_mem_blocks_find_live(&fixture->blocks, beyond, &lookup));
    fixture_give(fixture, address);
    ck_assert(!cushim_mem_blocks_find_live(&fixture->blocks, address, &lookup));
}

/* ---- questions during a free ---- */

static _Atomic uint64_t asked;
static atomic_bool is_over;

static void *ask(void *nothing) {
    struct cushim_mem_lookup lookup;
    while (!atomic_load(&is_over)) {
        uint64_t address = atomic_load(&asked);
        if (address && cushim_mem_blocks_find(&fixture->blocks, address, &lookup) && lookup.meta)
            cushim_mem_block_number(&lookup);
    }
    return nothing;
}

TEST(a_block_is_freed_once_while_other_threads_ask_about_it) {
    enum { N_ROUNDS = 3000 };
    pthread_t thread;
    CUresult answer;
    fixture = fixture_create(NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask, NULL), 0);
    for (int i = 0; i < N_ROUNDS; i++) {
        uint64_t block = fixture_take(fixture, 1000);
        atomic_store(&asked, block);
        fixture_give(fixture, block);
        ck_assert_int_eq(fixture_release(fixture, block, &answer), CUSHIM_DOUBLEFREE);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("block_live");
}
