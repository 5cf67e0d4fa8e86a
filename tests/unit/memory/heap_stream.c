/* Frees in stream order: the block waits for its event, the caller does not wait. */
#include "memory/free.h"
#include "memory/heap.h"
#include "memory/state/heap_state.h"

#include <string.h>

#include "cuda/table.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;
static CUresult answer;

static void free_on(uint64_t address, CUstream stream) {
    ck_assert_int_eq(fixture_release_on(fixture, address, stream, &answer), CUSHIM_OK);
    ck_assert_int_eq(answer, CUDA_SUCCESS);
}

TEST(a_block_is_not_reused_before_its_event_passed) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 3000000);
    fake_submit(0);
    fake_forget_order();
    free_on(address, fake_stream(0));
    ck_assert_str_eq(fake_order(), "cuEventCreate(2) cuEventRecord(0)"); /* returns at once */
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_DEFERRED);
    ck_assert_uint_ne(fixture_take(fixture, 3000000), address);
    fixture_check(fixture);
    fake_finish(0);
    ck_assert_uint_eq(fixture_take(fixture, 3000000), address);
    ck_assert_uint_eq(fake_n_events(), 0);
    fixture_check(fixture);
}

TEST(a_second_free_of_a_pending_block_is_reported) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    fake_submit(0);
    free_on(address, fake_stream(0));
    ck_assert_int_eq(fixture_release_on(fixture, address, fake_stream(0), &answer),
                     CUSHIM_DOUBLEFREE);
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_DOUBLEFREE);
    fixture_check(fixture);
}

TEST(the_event_is_created_in_the_context_of_the_stream) {
    fixture = fixture_create(NULL);
    uint64_t a = fixture_take(fixture, 1000), b = fixture_take(fixture, 1000);
    fake_submit(1);
    free_on(a, fake_stream(1)); /* a stream of context 1, while context 0 is current */
    ck_assert_ptr_eq(fake_current(), fake_context(0));
    fake_set_current(NULL);
    free_on(b, fake_stream(0));
    ck_assert_uint_eq(fake_depth(), 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    fixture_check(fixture);
}

TEST(the_special_streams_mean_the_current_context) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    fake_set_current(fake_context(2));
    fake_forget_order();
    free_on(address, NULL);
    ck_assert_str_eq(fake_order(), "cuEventCreate(2) cuEventRecord(2)");
    fixture_check(fixture);
}

TEST(a_wait_for_the_context_also_frees_completed_blocks) {
    fixture = fixture_create(NULL);
    uint64_t a = fixture_take(fixture, 3000000), b = fixture_take(fixture, 1000);
    fake_submit(0);
    free_on(a, fake_stream(0));
    fixture_give(fixture, b);
    ck_assert_int_eq(fixture_state(fixture, a), CUSHIM_MEM_FREE);
    ck_assert_uint_eq(fixture->heaps[0].deferred.n_rows, 0);
    fixture_check(fixture);
}

TEST(pending_blocks_are_not_given_back_to_the_driver) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 3000000);
    fake_submit(0);
    free_on(address, fake_stream(0));
    ck_assert_uint_eq(fixture_trim(fixture, 0), 0);
    ck_assert_uint_eq(fixture->heaps[0].held_bytes, 4 << 20);
    fixture_check(fixture);
}

static void retire(uint64_t address) {
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    cushim_mem_heap_retire_segment(&fixture->heaps[0], lookup.segment);
}

/* If the driver has no call that frees the block in stream order. */
TEST(a_shown_block_is_not_reused_after_its_event) {
    fixture = fixture_create("cuMemFreeAsync");
    uint64_t address = fixture_take(fixture, 3000000);
    retire(address);
    fake_submit(0);
    free_on(address, fake_stream(0));
    fake_finish(0);
    ck_assert_uint_ne(fixture_take(fixture, 3000000), address);
    fixture_check(fixture);
    fixture_trim(fixture, 0);
    ck_assert(!fake_is_allocated(address));
    fixture_check(fixture);
}

static CUcontext current_at_free;

static CUresult free_async(CUdeviceptr address, CUstream stream) {
    ck_assert_ptr_eq(stream, fake_stream(0));
    current_at_free = fake_current();
    fake_set_current(fake_context(0));
    CUresult result = fixture->cuda->cuMemFree_v2(address);
    fake_set_current(current_at_free);
    return result;
}

/* If the driver has such a call, the heap uses it and restores the caller's context. */
TEST(a_block_that_goes_straight_back_is_freed_by_the_driver_in_stream_order) {
    fixture = fixture_create(NULL);
    fixture->cuda->cuMemFreeAsync = free_async;
    atomic_store(&fixture->policy.is_dedicated_uncached, true);
    uint64_t address = fixture_take(fixture, 3000000);
    fake_set_current(fake_context(1));
    fake_forget_order();
    free_on(address, fake_stream(0));
    ck_assert_str_eq(fake_order(), "cuMemFree_v2(4194304)");
    ck_assert_ptr_eq(current_at_free, fake_context(1));
    ck_assert_int_eq(fixture_judge(fixture, address, 1), CUSHIM_MEM_FOREIGN);
    fixture_check(fixture);
}

/* The program frees the block while it exports the handle. */
TEST(a_block_that_was_freed_before_the_export_stays_usable) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 3000000);
    fixture_give(fixture, address);
    retire(address);
    fixture_check(fixture);
    ck_assert_uint_eq(fixture_take(fixture, 3000000), address);
    fixture_give(fixture, address);
    ck_assert(fake_is_allocated(address));
    fixture_trim(fixture, 0);
    ck_assert(!fake_is_allocated(address));
    fixture_check(fixture);
}

TEST(a_refused_record_leaves_the_block_live_and_damage_is_noted) {
    static const struct {
        CUresult result;
        bool is_damage;
    } rows[] = {{CUDA_ERROR_STREAM_CAPTURE_ISOLATION, false}, {CUDA_ERROR_ILLEGAL_ADDRESS, true}};
    for (unsigned i = 0; i < 2; i++) {
        fixture = fixture_create(NULL);
        uint64_t address = fixture_take(fixture, 1000);
        fake_fail_always("cuEventRecord", rows[i].result);
        ck_assert_int_ne(fixture_release_on(fixture, address, fake_stream(0), &answer), CUSHIM_OK);
        ck_assert_int_eq(answer, rows[i].result);
        ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
        ck_assert_uint_eq(fake_n_events(), 0);
        ck_assert_int_eq(fixture->heaps[0].damage != CUDA_SUCCESS, rows[i].is_damage);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

/* Freed like a block that a graph released. */
static void defer(uint64_t address) {
    struct cushim_mem_heap *heap = &fixture->heaps[0];
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    ck_assert_int_eq(cushim_mem_free_claim(heap, &lookup), CUSHIM_OK);
    pthread_mutex_lock(&heap->lock);
    ck_assert(cushim_mem_deferred_add(&heap->deferred, &heap->meta, &lookup.ref,
                                      cushim_mem_fence_tag(heap->fence)));
    pthread_mutex_unlock(&heap->lock);
}

TEST(the_peak_is_that_of_one_block_whichever_way_blocks_are_freed) {
    enum { N_BYTES = 900000 }; /* so small that a thread does not publish it */
    for (unsigned way = 0; way < 3; way++) {
        fixture = fixture_create(NULL);
        for (int i = 0; i < 3; i++) {
            uint64_t address = fixture_take(fixture, N_BYTES);
            if (way == 0)
                free_on(address, fake_stream(0));
            else if (way == 1)
                defer(address);
            else
                fixture_give(fixture, address);
            ck_assert_uint_eq(fixture_stats(fixture)->peak_live_bytes, N_BYTES);
            ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
        }
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

static uint64_t late;

/* Runs while another thread's free waits, after the record it waits for. */
static void free_in_wait(const char *name) {
    if (strcmp(name, "cuEventSynchronize") != 0)
        return;
    fake_on_call(NULL);
    fake_submit(0);
    defer(late);
}

TEST(a_wait_covers_earlier_frees_and_not_frees_during_the_wait) {
    fixture = fixture_create(NULL);
    uint64_t before = fixture_take(fixture, 7000000), early = fixture_take(fixture, 5000000);
    late = fixture_take(fixture, 3000000);
    defer(before);
    fake_submit(0);
    fake_on_call(free_in_wait);
    fixture_give(fixture, early);
    ck_assert_int_eq(fixture_state(fixture, before), CUSHIM_MEM_FREE);
    ck_assert_int_eq(fixture_state(fixture, late), CUSHIM_MEM_DEFERRED);
    fixture_give(fixture, fixture_take(fixture, 5000000)); /* whose wait began after that free */
    ck_assert_int_eq(fixture_state(fixture, late), CUSHIM_MEM_FREE);
    fixture_check(fixture);
}

TEST(a_thousand_pending_blocks_all_come_back) {
    uint64_t addresses[1000];
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 1000; i++)
        addresses[i] = fixture_take(fixture, 1000 + i * 50);
    for (unsigned i = 0; i < 1000; i++) {
        fake_submit(i % 3 * 4);
        free_on(addresses[i], fake_stream(i % 3 * 4));
    }
    fixture_check(fixture);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    uint64_t last = fixture_take(fixture, 1000);
    for (unsigned i = 0; i < 3; i++)
        fake_finish(4 * i);
    fixture_give(fixture, last);
    ck_assert_uint_eq(fixture->heaps[0].deferred.n_rows, 0);
    ck_assert_uint_eq(fixture_used_bytes(fixture), 0);
    fixture_trim(fixture, 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("pool_stream");
}
