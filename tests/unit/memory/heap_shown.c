/* Blocks whose handle another process got: their memory is not reused as long as the heap has
 * it. */
#include "memory/state/heap_state.h"

#include <pthread.h>

#include "memory/cache/cache.h"
#include "memory/heap.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;
static CUresult answer;

static size_t held(void) {
    return fixture->heaps[0].held_bytes;
}

static const struct cushim_mem_segment *segment_of(uint64_t address) {
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    return lookup.segment;
}

static void show(uint64_t address) {
    cushim_mem_heap_show(&fixture->heaps[0], address);
    cushim_mem_heap_show(&fixture->heaps[0], address); /* once per export of its handle */
    fixture_check(fixture);
}

/* The other process maps the whole segment but knows of only one block. */
TEST(a_shown_block_is_not_reused_but_its_neighbours_are) {
    enum { N = 600, N_SHOWN = 5, N_BYTES = 5000 };
    static uint64_t blocks[N];
    for (int is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        uint64_t shown[N_SHOWN];
        fixture = fixture_create(NULL);
        fixture->policy.is_relaxed = is_relaxed;
        uint64_t beside = fixture_take(fixture, N_BYTES);
        for (unsigned i = 0; i < N_SHOWN; i++) {
            shown[i] = fixture_take(fixture, N_BYTES);
            show(shown[i]);
            ck_assert_int_eq(fixture_state(fixture, shown[i]), CUSHIM_MEM_LIVE);
        }
        ck_assert_uint_eq(held(), 2 << 20);
        for (unsigned i = 0; i < N_SHOWN - 1; i++)
            fixture_give(fixture, shown[i]);
        ck_assert_int_eq(fixture_release_on(fixture, shown[N_SHOWN - 1], fake_stream(0), &answer),
                         CUSHIM_OK);
        for (unsigned round = 0; round < 3; round++) {
            bool has_neighbour = false;
            for (unsigned i = 0; i < N; i++) {
                blocks[i] = fixture_take(fixture, N_BYTES);
                has_neighbour |= segment_of(blocks[i]) == segment_of(beside);
                for (unsigned k = 0; k < N_SHOWN; k++)
                    ck_assert_uint_ne(blocks[i], shown[k]);
            }
            fixture_check(fixture);
            ck_assert(has_neighbour);
            for (unsigned i = 0; i < N; i++)
                fixture_give(fixture, blocks[i]);
            cushim_mem_cache_drain_all(&fixture->heaps[0]);
            fixture_check(fixture);
        }
        ck_assert_int_eq(fixture_judge(fixture, shown[0], 1), CUSHIM_MEM_NO_BLOCK);
        ck_assert_int_eq(fixture_release(fixture, shown[0], &answer), CUSHIM_DOUBLEFREE);
        fixture_destroy(fixture);
    }
}

TEST(a_segment_with_shown_blocks_goes_back_once_it_is_wholly_free) {
    enum { N = 8 };
    static const size_t sizes[N] = {512, 5000, 4096, 100000, 5000, 1 << 20, 512, 300000};
    for (unsigned last = 0; last < N; last++) {
        uint64_t blocks[N];
        fixture = fixture_create(NULL);
        for (unsigned i = 0; i < N; i++) {
            blocks[i] = fixture_take(fixture, sizes[i]);
            if (i % 2)
                show(blocks[i]);
        }
        ck_assert_uint_eq(held(), 2 << 20);
        for (unsigned i = 0; i < N; i++) {
            if (i != last)
                fixture_give(fixture, blocks[i]);
        }
        fixture_trim(fixture, 0);
        fixture_check(fixture);
        ck_assert_uint_eq(held(), 2 << 20);
        fixture_give(fixture, blocks[last]);
        cushim_mem_cache_drain_all(&fixture->heaps[0]);
        fixture_check(fixture);
        ck_assert_uint_eq(fixture->stats.free_segment_bytes, 2 << 20);
        ck_assert_ptr_ne(segment_of(fixture_take(fixture, 5000)), segment_of(blocks[0]));
        fixture_trim(fixture, 0);
        ck_assert_int_eq(fixture_judge(fixture, blocks[0], 1), CUSHIM_MEM_FOREIGN);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

enum { N_SHOWN_AT_ONCE = 200, N_OTHERS = 2 };
static uint64_t shown_so_far[N_SHOWN_AT_ONCE];
static atomic_uint n_shown, n_wrong;
static atomic_bool is_over;

/* A block that it gets was not shown before the request. */
static void *use_neighbours(void *unused) {
    uint64_t own[8] = {0};
    fake_set_current(fake_context(0));
    for (unsigned i = 0; !atomic_load(&is_over); i++) {
        enum cushim_status status;
        CUresult of_free;
        uint64_t *slot = &own[i % 8];
        if (*slot && fixture_release(fixture, *slot, &of_free) != CUSHIM_OK)
            atomic_fetch_add(&n_wrong, 1);
        unsigned n_before = atomic_load(&n_shown);
        *slot = fixture_obtain(fixture, 5000, &status);
        for (unsigned k = 0; k < n_before; k++)
            atomic_fetch_add(&n_wrong, *slot == shown_so_far[k]);
    }
    return unused;
}

TEST(blocks_are_shown_while_other_threads_use_their_neighbours) {
    pthread_t others[N_OTHERS];
    fixture = fixture_create(NULL);
    fixture->policy.least_idle_bytes =
        SIZE_MAX / 2; /* otherwise the driver may return a shown address again */
    for (unsigned i = 0; i < N_OTHERS; i++)
        ck_assert_int_eq(pthread_create(&others[i], NULL, use_neighbours, NULL), 0);
    for (unsigned i = 0; i < N_SHOWN_AT_ONCE; i++) {
        shown_so_far[i] = fixture_take(fixture, 5000);
        cushim_mem_heap_show(&fixture->heaps[0], shown_so_far[i]);
        atomic_fetch_add(&n_shown, 1);
        fixture_give(fixture, shown_so_far[i]);
    }
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < N_OTHERS; i++)
        pthread_join(others[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("shown");
}
