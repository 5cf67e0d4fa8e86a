/* Blocks that are freed and held: not reused until the last hold is released, then pending. */
#include "memory/graph_resources.h"
#include "memory/heap.h"

#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;
static struct cushim_mem_graph_resources first, second;

static enum cushim_status hold(uint64_t address, unsigned n_holds) {
    struct cushim_mem_graph_resources *const holds[] = {&first, &second};
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    return cushim_mem_graph_resources_free(&fixture->heaps[0], &lookup, holds, n_holds);
}

static void let_go(struct cushim_mem_graph_resources *it) {
    cushim_mem_graph_resources_let_go(it->first);
    *it = (struct cushim_mem_graph_resources){0};
}

static bool is_handed_out(uint64_t address, size_t n_bytes) {
    enum { MANY = 64 };
    uint64_t others[MANY];
    bool is_there = false;
    for (unsigned i = 0; i < MANY; i++) {
        others[i] = fixture_take(fixture, n_bytes);
        is_there = is_there || others[i] == address;
    }
    for (unsigned i = 0; i < MANY; i++)
        fixture_give(fixture, others[i]);
    return is_there;
}

static void hold_and_let_go(size_t n_bytes) {
    fixture = fixture_create(NULL);
    fixture->policy.least_idle_bytes = SIZE_MAX / 2;
    uint64_t address = fixture_take(fixture, n_bytes);
    fake_forget_order();
    ck_assert_int_eq(hold(address, 1), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), ""); /* no driver call */
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_DEFERRED);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    ck_assert_uint_eq(first.n_blocks, 1);
    fixture_give(fixture, fixture_take(fixture, 64));
    fixture_trim(fixture, 0);
    ck_assert(!is_handed_out(address, n_bytes));
    fixture_check(fixture);
    let_go(&first);
    fixture_give(fixture, fixture_take(fixture, 64));
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_FREE);
    fixture_check(fixture);
    fixture_trim(fixture, 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    fixture_destroy(fixture);
}

TEST(a_held_block_is_not_reused_and_not_given_back) {
    static const size_t sizes[] = {1000, 3000000, (size_t)300 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hold_and_let_go(sizes[i]);
}

TEST(a_released_block_waits_for_earlier_work) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 3000000);
    ck_assert_int_eq(hold(address, 1), CUSHIM_OK);
    fake_submit(0);
    fake_forget_order();
    let_go(&first);
    ck_assert_str_eq(fake_order(), "");
    for (unsigned i = 0; i < 20; i++)
        ck_assert_uint_ne(fixture_take(fixture, 3000000), address);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_DEFERRED);
    fixture_check(fixture);
    fixture_give(fixture, fixture_take(fixture, 64)); /* a wait for the context */
    ck_assert(is_handed_out(address, 3000000));
    fixture_check(fixture);
}

TEST(if_frees_do_not_wait_a_released_block_waits_for_a_later_epoch) {
    fixture = fixture_create(NULL);
    fixture->policy.is_relaxed = true;
    fixture_give(fixture, fixture_take(fixture, 3000000)); /* whose epoch is already done */
    uint64_t address = fixture_take(fixture, 5000000);
    ck_assert_int_eq(hold(address, 1), CUSHIM_OK);
    fake_submit(0);
    let_go(&first);
    cushim_mem_graph_resources_take_back(&fixture->heaps[0]);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_uint_ne(fixture_take(fixture, 5000000), address);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_DEFERRED);
    fixture_check(fixture);
}

TEST(the_last_hold_releases_the_block) {
    fixture = fixture_create(NULL);
    uint64_t both = fixture_take(fixture, 1000), one = fixture_take(fixture, 1000);
    ck_assert_int_eq(hold(both, 2), CUSHIM_OK);
    ck_assert_int_eq(hold(one, 1), CUSHIM_OK);
    ck_assert_uint_eq(first.n_blocks, 2);
    ck_assert_uint_eq(second.n_blocks, 1);
    let_go(&first);
    fixture_give(fixture, fixture_take(fixture, 64));
    ck_assert_int_eq(fixture_state(fixture, one), CUSHIM_MEM_FREE);
    ck_assert_int_eq(fixture_state(fixture, both), CUSHIM_MEM_DEFERRED);
    let_go(&second);
    fixture_give(fixture, fixture_take(fixture, 64));
    ck_assert_int_eq(fixture_state(fixture, both), CUSHIM_MEM_FREE);
    fixture_check(fixture);
}

TEST(a_second_free_is_reported_and_a_damaged_context_holds_nothing) {
    CUresult answer;
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    ck_assert_int_eq(hold(address, 1), CUSHIM_OK);
    ck_assert_int_eq(hold(address, 1), CUSHIM_DOUBLEFREE);
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_DOUBLEFREE);
    ck_assert_uint_eq(first.n_blocks, 1);
    address = fixture_take(fixture, 1000);
    cushim_mem_heap_note_damage(&fixture->heaps[0], CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(hold(address, 1), CUSHIM_STATE);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
}

TEST(held_blocks_end_with_their_context) {
    for (int is_let_go_first = 0; is_let_go_first < 2; is_let_go_first++) {
        fixture = fixture_create(NULL);
        for (unsigned i = 0; i < 10; i++)
            ck_assert_int_eq(hold(fixture_take(fixture, 1000), 1), CUSHIM_OK);
        if (is_let_go_first)
            let_go(&first);
        cushim_mem_heap_abandon(&fixture->heaps[0]);
        fake_lose_all();
        fixture_open(fixture, 0);
        uint64_t address = fixture_take(fixture, 1000);
        let_go(&first);
        fixture_give(fixture, fixture_take(fixture, 64));
        ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
        fixture_give(fixture, address);
        ck_assert_ptr_null(fixture->heaps[0].unheld);
        ck_assert_uint_eq(fixture_used_bytes(fixture), 0);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(an_uncached_block_goes_to_the_driver_when_released) {
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        fixture = fixture_create(NULL);
        uint64_t address = fixture_take(fixture, (size_t)300 << 20);
        fixture_give(fixture, fixture_take(fixture, 64)); /* a segment for small blocks exists */
        atomic_store(&fixture->policy.is_dedicated_uncached, true);
        ck_assert_int_eq(hold(address, 1), CUSHIM_OK);
        fixture_give(fixture, fixture_take(fixture, 64));
        ck_assert(fake_is_allocated(address));
        let_go(&first);
        if (is_refused)
            fake_fail_always("cuMemFree_v2", CUDA_ERROR_NOT_PERMITTED);
        fake_capture(1, true); /* the capture of another thread: it stays valid */
        cushim_mem_graph_resources_take_back(&fixture->heaps[0]);
        ck_assert_uint_eq(fake_n_invalidated(), 0);
        fake_capture(1, false);
        ck_assert_int_eq(fake_is_allocated(address), is_refused);
        fake_fail_always(NULL, CUDA_SUCCESS);
        ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

/* Many threads release holds while the heap is in use. */
enum { THREADS = 4, ROUNDS = 300 };

static void *let_go_in_thread(void *slot) {
    cushim_mem_graph_resources_let_go(slot);
    return NULL;
}

TEST(threads_may_release_holds_at_once) {
    fixture = fixture_create(NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct cushim_mem_graph_resources holds[THREADS] = {0};
        struct cushim_mem_graph_resources *const all[] = {&holds[0], &holds[1], &holds[2],
                                                          &holds[3]};
        pthread_t threads[THREADS];
        for (unsigned i = 0; i < 8; i++) {
            struct cushim_mem_lookup lookup;
            ck_assert(cushim_mem_blocks_find(&fixture->blocks, fixture_take(fixture, 1000 << i),
                                             &lookup));
            ck_assert_int_eq(cushim_mem_graph_resources_free(&fixture->heaps[0], &lookup,
                                                             all + i % 3, THREADS - i % 3),
                             CUSHIM_OK);
        }
        for (unsigned i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, let_go_in_thread, holds[i].first),
                             0);
        fixture_give(fixture, fixture_take(fixture, 64));
        for (unsigned i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    fixture_give(fixture, fixture_take(fixture, 64));
    ck_assert_uint_eq(fixture_used_bytes(fixture), 0);
    fixture_check(fixture);
}

SUITE() {
    fixture_holds = true;
    return tests_run("hold");
}
