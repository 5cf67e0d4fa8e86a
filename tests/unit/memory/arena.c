#include "memory/arena.h"

#include <pthread.h>

#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "memory/alloc.h"
#include "memory/heap.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, CHUNK = 2 * MIB, ARENA = 8 * MIB };

static struct fixture *fixture;

static void setup(void) {
    fixture = fixture_create(NULL);
    fixture->policy.arena_bytes = ARENA;
    fixture->policy.arena_most_bytes = MIB;
    cushim_mem_heap_abandon(&fixture->heaps[0]); /* heaps read it when they are opened */
    fixture_open(fixture, 0);
}

static void setup_relaxed(void) {
    setup();
    fixture->policy.is_relaxed = true;
}

static uint64_t count_of(const atomic_uint_fast64_t *counter) {
    return cushim_mem_stats_read(counter);
}

static unsigned reset(void) {
    return cushim_mem_arena_reset(&fixture->heaps[0]);
}

static void finish(void) {
    fixture_check(fixture);
    fixture_destroy(fixture);
}

TEST(small_blocks_follow_each_other_and_large_ones_come_from_the_heap) {
    setup();
    uint64_t a = fixture_take(fixture, 1), b = fixture_take(fixture, 5000),
             c = fixture_take(fixture, MIB);
    ck_assert_uint_eq(b, a + 512);
    ck_assert_uint_eq(c, b + 5120);
    ck_assert_uint_eq(count_of(&fixture->stats.n_arena), 3);
    fixture_take(fixture, MIB + 1);
    ck_assert_uint_eq(count_of(&fixture->stats.n_arena), 3);
    ck_assert_uint_eq(count_of(&fixture_stats(fixture)->block_bytes), 512 + 5120 + MIB + 2 * MIB);
    finish();
}

TEST(a_hit_makes_no_driver_call) {
    setup();
    struct cushim_mem_request request;
    struct cushim_mem_block block;
    ck_assert_int_eq(cushim_mem_alloc_hit(&fixture->heaps[0], 100, &request, &block),
                     CUSHIM_NOTFOUND);
    fixture_take(fixture, 100);
    ck_assert_int_eq(cushim_mem_alloc_hit(&fixture->heaps[0], 100, &request, &block), CUSHIM_OK);
    ck_assert(block.is_hit);
    ck_assert_uint_eq(count_of(&fixture->stats.n_native_allocs), 1);
    finish();
}

TEST(the_page_map_knows_each_block) {
    setup();
    uint64_t a = fixture_take(fixture, 700), b = fixture_take(fixture, 1);
    CUresult answer;
    ck_assert_int_eq(fixture_judge(fixture, a, 700), CUSHIM_MEM_INSIDE);
    ck_assert_int_eq(fixture_judge(fixture, a + 600, 100), CUSHIM_MEM_INSIDE);
    ck_assert_int_eq(fixture_judge(fixture, a + 600, 101), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, a + 800, 1), CUSHIM_MEM_OVERRUN);
    ck_assert_int_eq(fixture_judge(fixture, b + 512, 1), CUSHIM_MEM_NO_BLOCK);
    ck_assert_int_eq(fixture_release(fixture, a + 512, &answer), CUSHIM_INVALID);
    fixture_give(fixture, a);
    ck_assert_int_eq(fixture_release(fixture, a, &answer), CUSHIM_DOUBLEFREE);
    ck_assert_int_eq(fixture_judge(fixture, a, 1), CUSHIM_MEM_NO_BLOCK);
    finish();
}

TEST(a_chunk_rewinds_when_its_last_block_is_freed) {
    setup();
    for (int pass = 0; pass < 5; pass++) {
        uint64_t a = fixture_take(fixture, 1000), b = fixture_take(fixture, 2000);
        ck_assert_uint_eq(a % CHUNK, 0);
        ck_assert_uint_eq(b, a + 1024);
        fixture_give(fixture, pass % 2 ? a : b);
        fixture_give(fixture, pass % 2 ? b : a);
        ck_assert_uint_eq(count_of(&fixture->stats.n_arena_rewinds), pass + 1);
    }
    ck_assert_uint_eq(count_of(&fixture->stats.n_native_allocs), 1);
    finish();
}

TEST(after_a_full_chunk_comes_another_and_after_the_last_the_heap) {
    uint64_t blocks[9];
    setup();
    for (int i = 0; i < 9; i++)
        blocks[i] = fixture_take(fixture, MIB);
    ck_assert_uint_eq(count_of(&fixture->stats.n_arena), 8);
    fixture_check(fixture);
    for (int i = 0; i < 9; i++)
        fixture_give(fixture, blocks[i]);
    ck_assert_uint_eq(count_of(&fixture->stats.n_arena_rewinds), 4);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_ne(fixture_take(fixture, MIB), blocks[8]);
    ck_assert_uint_eq(count_of(&fixture->stats.n_arena), 16);
    finish();
}

TEST(a_chunk_that_emptied_serves_again_before_a_new_one) {
    setup();
    uint64_t a = fixture_take(fixture, MIB), b = fixture_take(fixture, MIB),
             c = fixture_take(fixture, MIB);
    fixture_give(fixture, a);
    fixture_give(fixture, b);
    fixture_take(fixture, MIB);
    ck_assert_uint_eq(fixture_take(fixture, MIB), a);
    ck_assert_int_eq(fixture_state(fixture, c), CUSHIM_MEM_LIVE);
    ck_assert_uint_eq(fixture->heaps[0].held_bytes, 2 * CHUNK);
    finish();
}

TEST(a_reset_counts_chunks_with_live_blocks_and_serves_above_them) {
    setup();
    uint64_t kept = fixture_take(fixture, 1000), freed = fixture_take(fixture, MIB);
    fixture_give(fixture, freed);
    ck_assert_uint_eq(fixture_take(fixture, 512), freed + MIB);
    fixture_give(fixture, freed + MIB);
    ck_assert_uint_eq(reset(), 1);
    ck_assert_uint_eq(count_of(&fixture->stats.n_arena_kept), 1);
    ck_assert_uint_eq(fixture_take(fixture, 100), freed);
    fixture_give(fixture, kept);
    fixture_give(fixture, freed);
    ck_assert_uint_eq(reset(), 0);
    ck_assert_uint_eq(fixture_take(fixture, 100), kept);
    finish();
}

TEST(relaxed_memory_is_served_again_only_behind_the_fence) {
    setup_relaxed();
    fixture_give(fixture, fixture_take(fixture, 100)); /* the first free of a heap's life waits */
    uint64_t a = fixture_take(fixture, MIB), b = fixture_take(fixture, MIB);
    fake_submit(0);
    fixture_give(fixture, a);
    fixture_give(fixture, b);
    for (int i = 0; i < 10; i++) {
        uint64_t other = fixture_take(fixture, MIB / 2);
        ck_assert(other / CHUNK != a / CHUNK);
        if (i == 5)
            reset();
    }
    fake_finish(0);
    bool is_served_again = false;
    for (int i = 0; i < 30 && !is_served_again; i++)
        is_served_again = fixture_take(fixture, MIB) / CHUNK == a / CHUNK;
    ck_assert(is_served_again);
    finish();
}

TEST(a_free_during_a_capture_is_fenced_later) {
    setup_relaxed();
    fixture_give(fixture, fixture_take(fixture, 100));
    uint64_t a = fixture_take(fixture, MIB), b = fixture_take(fixture, MIB);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
    fixture_give(fixture, a);
    fixture_give(fixture, b);
    for (int i = 0; i < 7; i++)
        ck_assert_uint_ne(fixture_take(fixture, MIB) / CHUNK, a / CHUNK);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RECORD);
    bool is_served_again = false;
    for (int i = 0; i < 30 && !is_served_again; i++)
        is_served_again = fixture_take(fixture, MIB) / CHUNK == a / CHUNK;
    ck_assert(is_served_again);
    finish();
}

TEST(a_block_freed_in_stream_order_holds_its_chunk_until_its_event) {
    setup();
    CUresult answer;
    uint64_t a = fixture_take(fixture, MIB), b = fixture_take(fixture, MIB);
    fake_submit(0);
    ck_assert_int_eq(fixture_release_on(fixture, a, fake_stream(0), &answer), CUSHIM_OK);
    ck_assert_int_eq(fixture_release_on(fixture, b, fake_stream(0), &answer), CUSHIM_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_uint_ne(fixture_take(fixture, MIB) / CHUNK, a / CHUNK);
    fixture_check(fixture);
    fake_finish(0);
    bool is_served_again = false;
    for (int i = 0; i < 6 && !is_served_again; i++)
        is_served_again = fixture_take(fixture, MIB) / CHUNK == a / CHUNK;
    ck_assert(is_served_again);
    finish();
}

TEST(frees_in_stream_order_are_polled_before_more_memory_is_fetched) {
    setup();
    CUresult answer;
    uint64_t a = fixture_take(fixture, MIB), b = fixture_take(fixture, MIB);
    ck_assert_int_eq(fixture_release_on(fixture, a, fake_stream(0), &answer), CUSHIM_OK);
    ck_assert_int_eq(fixture_release_on(fixture, b, fake_stream(0), &answer), CUSHIM_OK);
    ck_assert_uint_eq(fixture_take(fixture, MIB), a);
    ck_assert_uint_eq(count_of(&fixture->stats.n_native_allocs), 1);
    finish();
}

TEST(a_trim_takes_only_empty_chunks) {
    setup();
    uint64_t kept = fixture_take(fixture, MIB), freed = fixture_take(fixture, MIB),
             other = fixture_take(fixture, MIB);
    fixture_give(fixture, freed);
    fixture_give(fixture, other);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(&fixture->heaps[0], 0), CHUNK);
    fixture_check(fixture);
    ck_assert_int_eq(fixture_state(fixture, kept), CUSHIM_MEM_LIVE);
    fixture_give(fixture, kept);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(&fixture->heaps[0], 0), CHUNK);
    ck_assert_uint_eq(fixture->heaps[0].held_bytes, 0);
    fixture_check(fixture);
    fixture_give(fixture, fixture_take(fixture, 100));
    finish();
}

static void show(uint64_t address) {
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    cushim_mem_heap_show(&fixture->heaps[0], lookup.base);
}

TEST(a_chunk_that_was_shown_goes_with_its_last_block) {
    CUresult answer;
    for (int is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        setup();
        fixture->policy.is_relaxed = is_relaxed;
        uint64_t a = fixture_take(fixture, 1000), b = fixture_take(fixture, 1000);
        /* before the first block, so its fence covers earlier work */
        fixture_give(fixture, fixture_take(fixture, 1000));
        show(a);
        uint64_t c =
            fixture_take(fixture, 1000); /* above the served blocks; a second time nothing */
        ck_assert_uint_eq(c / CHUNK, a / CHUNK);
        ck_assert_uint_gt(c, b);
        fixture_give(fixture, a);
        fixture_give(fixture, c);
        cushim_mem_arena_reset(&fixture->heaps[0]);
        for (int i = 0; i < 5; i++) {
            uint64_t d = fixture_take(fixture, CHUNK / 4);
            ck_assert(d / CHUNK != a / CHUNK || d > c);
            fixture_give(fixture, d);
        }
        ck_assert_uint_eq(atomic_load(&fixture->heaps[0].arena.n_open), 2);
        fixture_give(fixture, b);
        cushim_mem_fence_start(fixture->heaps[0].fence, &answer);
        fixture_take(fixture, 5 * MIB); /* which polls for completed work */
        ck_assert_uint_eq(atomic_load(&fixture->heaps[0].arena.n_open), 1);
        ck_assert_uint_eq(count_of(&fixture->stats.free_segment_bytes), CHUNK);
        finish();
    }
}

TEST(an_arena_ends_with_its_context) {
    setup();
    uint64_t a = fixture_take(fixture, 1000);
    fixture_give(fixture, fixture_take(fixture, 3000));
    fixture_take(fixture, 5000);
    struct cushim_mem_lookup lookup;
    CUresult answer;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, a, &lookup));
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    ck_assert_uint_eq(count_of(&fixture_stats(fixture)->live_bytes), 0);
    ck_assert_uint_eq(count_of(&fixture_stats(fixture)->block_bytes), 0);
    ck_assert(!cushim_mem_blocks_find(&fixture->blocks, a, &lookup));
    fake_lose_all();
    fixture_open(fixture, 0);
    for (int i = 0; i < 9; i++)
        fixture_take(fixture, MIB);
    ck_assert_int_eq(fixture_release(fixture, a + 99999999, &answer), CUSHIM_UNKNOWNPTR);
    finish();
}

TEST(after_a_refused_driver_call_the_arena_is_bypassed) {
    setup();
    for (unsigned n = 1; n <= 2; n++) {
        enum cushim_status status;
        fake_fail_at(n, CUDA_ERROR_OUT_OF_MEMORY);
        fixture_obtain(fixture, 100, &status);
        ck_assert_int_eq(status, CUSHIM_OK);
        fixture_check(fixture);
    }
    finish();
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 3000, OWN = 16, GRAINS = 512 * MIB / 512 };
static atomic_uint n_wrong;
static atomic_uint *owners; /* one for each grain */
static uint64_t base;

static void own(uint64_t address, size_t n_bytes, unsigned from, unsigned to) {
    for (uint64_t at = address; at < address + n_bytes; at += 512) {
        atomic_uint *grain = &owners[(at - base) / 512 % GRAINS];
        atomic_fetch_add(&n_wrong, atomic_exchange(grain, to) != from);
    }
}

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed;
    unsigned me = (unsigned)(random % 1000) + 1;
    struct {
        uint64_t address;
        size_t n_bytes;
    } blocks[OWN] = {0};
    CUresult answer;
    fake_set_current(fake_context(0));
    for (int i = 0; i < ROUNDS; i++) {
        unsigned k = (unsigned)(suite_random(&random) % OWN);
        enum cushim_status status;
        if (blocks[k].address) {
            own(blocks[k].address, blocks[k].n_bytes, me, 0);
            atomic_fetch_add(&n_wrong,
                             fixture_release(fixture, blocks[k].address, &answer) != CUSHIM_OK);
        }
        blocks[k].n_bytes = 1 + (size_t)(suite_random(&random) % 100000);
        blocks[k].address = fixture_obtain(fixture, blocks[k].n_bytes, &status);
        atomic_fetch_add(&n_wrong, status != CUSHIM_OK);
        own(blocks[k].address, blocks[k].n_bytes, 0, me);
        if (random % 128 == 0)
            reset();
        if (random % 512 == 1)
            cushim_mem_reclaim_trim(&fixture->heaps[0], 0);
    }
    for (int k = 0; k < OWN; k++) {
        if (blocks[k].address) {
            own(blocks[k].address, blocks[k].n_bytes, me, 0);
            atomic_fetch_add(&n_wrong,
                             fixture_release(fixture, blocks[k].address, &answer) != CUSHIM_OK);
        }
    }
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    base = fixture_take(fixture, 1);
    owners = calloc(GRAINS, sizeof *owners);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i * 7919 + 1)); /* the thread's seed */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_gt(count_of(&fixture->stats.n_arena_rewinds), 0);
    finish();
}

TEST(threads_never_share_a_block) {
    setup();
    run_threads();
}

TEST(threads_that_do_not_wait_never_share_a_block) {
    setup_relaxed();
    run_threads();
}

SUITE() {
    return tests_run("arena");
}
