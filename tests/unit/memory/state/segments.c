#include "memory/cache/cache.h"
#include "memory/reclaim.h"
#include "memory/state/free_lists.h"
#include "memory/state/segments.h"

#include <string.h>

#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;
static struct cushim_mem_heap *heap;
static uint64_t base;

static void setup(void) {
    fixture = fixture_create(NULL);
    heap = &fixture->heaps[0];
}

static struct cushim_mem_extent *enter(size_t n_bytes, bool is_dedicated) {
    ck_assert_int_eq(cushim_mem_segments_fetch(heap, n_bytes, &base), CUSHIM_OK);
    pthread_mutex_lock(&heap->lock);
    struct cushim_mem_extent *extent = cushim_mem_segments_enter(heap, base, n_bytes, is_dedicated);
    pthread_mutex_unlock(&heap->lock);
    return extent;
}

TEST(memory_is_found_once_it_is_entered_and_not_before) {
    struct cushim_mem_lookup lookup;
    setup();
    ck_assert_int_eq(cushim_mem_segments_fetch(heap, 2 << 20, &base), CUSHIM_OK);
    ck_assert(!cushim_mem_blocks_find(&fixture->blocks, base, &lookup));
    cushim_mem_segments_put_back(heap, base, 2 << 20);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    ck_assert_ptr_nonnull(enter(2 << 20, false));
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, base, &lookup));
    ck_assert_uint_eq(heap->held_bytes, 2 << 20);
    ck_assert_uint_eq(heap->free_segment_bytes, 2 << 20);
    fixture_check(fixture);
}

TEST(fetching_while_another_thread_captures_leaves_its_capture_valid) {
    setup();
    fake_capture(1, true);
    ck_assert_int_eq(cushim_mem_segments_fetch(heap, 2 << 20, &base), CUSHIM_OK);
    cushim_mem_segments_put_back(heap, base, 2 << 20);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static int64_t told_bytes;

static void count_moved(struct cushim_mem_heap *of, uint64_t where, size_t n_bytes, bool is_there) {
    ck_assert_ptr_eq(of, heap);
    ck_assert_uint_ne(where, 0);
    told_bytes += is_there ? (int64_t)n_bytes : -(int64_t)n_bytes;
}

TEST(the_observer_is_told_of_each_segment_that_comes_or_goes) {
    setup();
    told_bytes = 0;
    fixture->policy.segment_moved = count_moved;
    uint64_t small = fixture_take(fixture, 1000), large = fixture_take(fixture, 20 << 20);
    ck_assert_int_eq(told_bytes, (int64_t)heap->held_bytes);
    fixture_give(fixture, small);
    fixture_give(fixture, large);
    fake_fail_always("cuMemFree_v2", CUDA_ERROR_ILLEGAL_ADDRESS);
    fixture_trim(fixture, 0);
    ck_assert_uint_gt(heap->held_bytes, 0); /* the release is refused: the segments stay */
    ck_assert_int_eq(told_bytes, (int64_t)heap->held_bytes);
    fake_fail_always(NULL, CUDA_SUCCESS);
    fixture_trim(fixture, 0);
    ck_assert_uint_eq(heap->held_bytes, 0);
    ck_assert_int_eq(told_bytes, 0);
    fake_limit(0);
    ck_assert_int_eq(cushim_mem_segments_fetch(heap, 2 << 20, &base), CUSHIM_NOMEM);
    ck_assert_int_eq(told_bytes, 0);
}

TEST(fetch_returns_the_drivers_error) {
    setup();
    fake_limit(0);
    ck_assert_int_eq(cushim_mem_segments_fetch(heap, 2 << 20, &base), CUSHIM_NOMEM);
    fake_fail_at(1, CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(cushim_mem_segments_fetch(heap, 2 << 20, &base), CUSHIM_FAULT);
    ck_assert_uint_eq(fixture_stats(fixture)->n_native_allocs, 2);
}

TEST(an_address_that_cannot_be_mapped_changes_nothing) {
    setup();
    pthread_mutex_lock(&heap->lock);
    ck_assert_ptr_null(cushim_mem_segments_enter(heap, 4096, 2 << 20, false));
    ck_assert_ptr_null(cushim_mem_segments_enter(heap, (uint64_t)1 << 49, 2 << 20, true));
    pthread_mutex_unlock(&heap->lock);
    ck_assert_uint_eq(heap->held_bytes, 0);
    fixture_check(fixture);
}

TEST(only_wholly_free_segments_are_detached_and_no_more_than_requested) {
    setup();
    for (unsigned i = 0; i < 4; i++)
        enter(2 << 20, false);
    uint64_t live = fixture_take(fixture, 1000);
    pthread_mutex_lock(&heap->lock);
    struct cushim_mem_segment *list = cushim_mem_segments_detach(heap, 5 << 20);
    pthread_mutex_unlock(&heap->lock);
    ck_assert_uint_eq(heap->held_bytes, 4 << 20);
    ck_assert_uint_eq(fake_n_allocations(), 4); /* neither released nor out of the page map */
    ck_assert_int_eq(fixture_judge(fixture, list->base, 1), CUSHIM_MEM_NO_BLOCK);
    ck_assert_uint_eq(cushim_mem_segments_release(heap, list), 4 << 20);
    pthread_mutex_lock(&heap->lock);
    list = cushim_mem_segments_detach(heap, 0);
    pthread_mutex_unlock(&heap->lock);
    cushim_mem_segments_release(heap, list);
    ck_assert_uint_eq(heap->held_bytes, 2 << 20);
    ck_assert_int_eq(fixture_state(fixture, live), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

/* The segments that a test gives back, in order, and how many the driver has. */
static struct {
    uint64_t bases[4];
    unsigned n;
} given;

static void see_that_it_is_foreign(const char *name) {
    if (strcmp(name, "cuMemFree_v2") != 0)
        return;
    ck_assert_int_eq(fixture_judge(fixture, given.bases[given.n++], 1), CUSHIM_MEM_FOREIGN);
    ck_assert_int_eq(pthread_mutex_trylock(&heap->lock), 0);
    pthread_mutex_unlock(&heap->lock);
}

TEST(no_look_up_finds_a_segment_that_goes_to_the_driver) {
    setup();
    for (unsigned i = 0; i < 4; i++)
        enter(2 << 20, false);
    pthread_mutex_lock(&heap->lock);
    struct cushim_mem_segment *list = cushim_mem_segments_detach(heap, 0);
    pthread_mutex_unlock(&heap->lock);
    unsigned n = 0;
    for (struct cushim_mem_segment *segment = list; segment; segment = segment->next)
        given.bases[n++] = segment->base;
    fake_on_call(see_that_it_is_foreign);
    ck_assert_uint_eq(cushim_mem_segments_release(heap, list), 8 << 20);
    fake_on_call(NULL);
    ck_assert_uint_eq(given.n, 4);
    fixture_check(fixture);
}

TEST(the_idle_segment_that_waited_longest_goes_first) {
    uint64_t addresses[3];
    setup();
    fixture->policy.least_idle_bytes = SIZE_MAX / 2;
    atomic_store(&fixture->policy.dedicated_bytes, 4 << 20);
    for (unsigned i = 0; i < 3; i++)
        addresses[i] = fixture_take(fixture, 8 << 20);
    fixture_give(fixture, addresses[1]);
    fixture_give(fixture, addresses[0]);
    fixture_give(fixture, addresses[2]);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(heap, 16 << 20), 8 << 20);
    ck_assert_int_eq(fixture_judge(fixture, addresses[1], 1), CUSHIM_MEM_FOREIGN);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(heap, 8 << 20), 8 << 20);
    ck_assert_int_eq(fixture_judge(fixture, addresses[0], 1), CUSHIM_MEM_FOREIGN);
    ck_assert_int_eq(fixture_judge(fixture, addresses[2], 1), CUSHIM_MEM_NO_BLOCK);
    fixture_check(fixture);
}

TEST(a_segment_that_may_not_serve_goes_before_older_ones) {
    struct cushim_mem_lookup lookup;
    setup();
    uint64_t idle = fixture_take(fixture, 8 << 20), shown = fixture_take(fixture, 1000);
    fixture_give(fixture, idle);
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, shown, &lookup));
    pthread_mutex_lock(&heap->lock);
    cushim_mem_free_lists_retire(heap, lookup.segment);
    pthread_mutex_unlock(&heap->lock);
    fixture_give(fixture, shown);
    cushim_mem_cache_drain_all(heap);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(heap, 8 << 20), 2 << 20);
    ck_assert_int_eq(fixture_judge(fixture, shown, 1), CUSHIM_MEM_FOREIGN);
    ck_assert_int_eq(fixture_judge(fixture, idle, 1), CUSHIM_MEM_NO_BLOCK);
    fixture_check(fixture);
}

TEST(a_release_happens_in_the_heaps_context) {
    setup();
    enter(2 << 20, false);
    fake_set_current(fake_context(2));
    fake_submit(0);
    fake_submit(2);
    cushim_mem_reclaim_trim(heap, 0);
    ck_assert_uint_eq(fake_n_calls("cuCtxPushCurrent_v2"), 1);
    ck_assert_uint_eq(fake_n_calls("cuCtxPopCurrent_v2"), 1);
    ck_assert_ptr_eq(fake_current(), fake_context(2));
    ck_assert_uint_eq(fake_n_allocations(), 0);
}

SUITE() {
    return tests_run("provider");
}
