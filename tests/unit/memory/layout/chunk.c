#include "memory/layout/chunk.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/suite.h"

enum { PAGES = 64, GRAINS = PAGES * (CUSHIM_MEM_PAGE_BYTES / CUSHIM_MEM_GRAIN_BYTES) };

static struct cushim_mem_meta meta;
static struct cushim_mem_segment segment = {.base = (uint64_t)3 << 40, .n_grains = GRAINS};
static struct cushim_mem_extent extent;
static struct cushim_mem_chunk chunk;
static struct cushim_mem_stats counters;

static void setup(void) {
    extent = (struct cushim_mem_extent){.segment = &segment, .n_grains = GRAINS};
    ck_assert(cushim_mem_chunk_make(&chunk, &meta, GRAINS));
    cushim_mem_chunk_open(&chunk, &extent);
}

static struct cushim_mem_block_meta *cell_of(uint32_t index) {
    return &chunk.cells[index];
}

/* Make a chunk of a block, as the heap does. */
static void make_live(uint32_t index, size_t n_bytes) {
    atomic_store(&cell_of(index)->asked_bytes, n_bytes);
    atomic_store(&cell_of(index)->state, CUSHIM_MEM_LIVE);
}

static bool try_take(size_t n_bytes, uint64_t done, bool is_whole, uint32_t *index) {
    struct cushim_mem_blockref taken;
    if (!cushim_mem_chunk_take(&chunk, n_bytes, done, is_whole, &counters, &taken))
        return false;
    *index = taken.index;
    make_live(taken.index, n_bytes);
    return true;
}

static uint32_t take(size_t n_bytes) {
    uint32_t index = 0;
    ck_assert(try_take(n_bytes, 0, false, &index));
    return index;
}

static enum cushim_mem_chunk_end give(uint32_t index, uint64_t tag, uint64_t done) {
    ck_assert_uint_eq(atomic_load(&cell_of(index)->state), CUSHIM_MEM_LIVE);
    atomic_store(&cell_of(index)->state, CUSHIM_MEM_FREE);
    return cushim_mem_chunk_give(&chunk, tag, done);
}

TEST(blocks_follow_each_other_in_steps_of_a_grain) {
    setup();
    ck_assert_uint_eq(take(1), 0);
    ck_assert_uint_eq(take(512), 1);
    ck_assert_uint_eq(take(513), 2);
    ck_assert_uint_eq(take(1024), 4);
    ck_assert_uint_eq(take(100 * 512), 6);
    ck_assert_uint_eq(take(1), 106);
}

TEST(a_full_chunk_serves_only_requests_that_still_fit) {
    uint32_t index;
    setup();
    take((GRAINS - 2) * 512);
    ck_assert(!try_take(3 * 512, 0, false, &index));
    ck_assert_uint_eq(take(2 * 512), GRAINS - 2);
    ck_assert(!try_take(1, 0, false, &index));
}

TEST(only_the_last_give_rewinds) {
    setup();
    uint32_t a = take(1000), b = take(5000);
    ck_assert_int_eq(give(a, 0, 0), CUSHIM_MEM_CHUNK_USED);
    ck_assert_uint_gt(take(10), b);
    ck_assert_int_eq(give(b, 0, 0), CUSHIM_MEM_CHUNK_USED);
    ck_assert_int_eq(give(12, 0, 0), CUSHIM_MEM_CHUNK_REWOUND);
    ck_assert_uint_eq(take(1), 0);
}

TEST(a_rewind_waits_for_the_youngest_epoch_that_a_block_was_freed_in) {
    uint32_t index;
    setup();
    uint32_t a = take(512), b = take(512);
    give(b, 9, 3);
    ck_assert_int_eq(give(a, 7, 3), CUSHIM_MEM_CHUNK_DEFERRED);
    ck_assert(try_take(1, 8, false, &index)); /* served above it, from memory that was never used */
    ck_assert_uint_eq(index, 2);
    ck_assert_int_eq(give(2, 5, 8), CUSHIM_MEM_CHUNK_DEFERRED);
    ck_assert(!try_take(1, 8, true, &index));
    ck_assert(try_take(1, 9, true, &index));
    ck_assert_uint_eq(index, 0);
}

TEST(an_inner_address_finds_its_block_and_no_other) {
    uint32_t index;
    setup();
    uint32_t a = take(200 * 512), b = take(1), c = take(70 * 512 - 1);
    for (uint32_t grain = 0; grain < 271; grain++) {
        ck_assert(cushim_mem_chunk_find(&chunk, grain, &index));
        ck_assert_uint_eq(index, grain < b ? a : grain < c ? b : c);
    }
    ck_assert(!cushim_mem_chunk_find(&chunk, 271, &index));
    ck_assert(!cushim_mem_chunk_find(&chunk, GRAINS, &index));
}

TEST(old_blocks_of_a_rewound_chunk_are_not_found_in_a_new_block) {
    uint32_t index;
    setup();
    for (int i = 0; i < 90; i++)
        take(1);
    for (uint32_t i = 0; i < 90; i++)
        give(i, 0, 0);
    take(80 * 512);
    for (uint32_t grain = 0; grain < 80; grain++) {
        ck_assert(cushim_mem_chunk_find(&chunk, grain, &index));
        ck_assert_uint_eq(index, 0);
    }
    ck_assert(cushim_mem_chunk_find(&chunk, 85, &index)); /* a freed block of the earlier pass */
    ck_assert_uint_eq(atomic_load(&cell_of(index)->state), CUSHIM_MEM_FREE);
}

TEST(lowering_the_top_stops_above_the_highest_block_in_use) {
    setup();
    uint32_t a = take(512), b = take(3 * 512), c = take(512), d = take(512);
    give(a, 0, 0);
    ck_assert(cushim_mem_chunk_lower(&chunk, 0));
    ck_assert_uint_eq(take(512), d + 1);
    give(d + 1, 0, 0);
    give(d, 0, 0);
    give(c, 0, 0);
    ck_assert(cushim_mem_chunk_lower(&chunk, 0));
    ck_assert_uint_eq(take(512), c);
    ck_assert_int_eq(atomic_load(&cell_of(b)->state), CUSHIM_MEM_LIVE);
}

TEST(lowering_the_top_spares_a_block_that_is_counted_and_not_live_yet) {
    struct cushim_mem_blockref taken;
    setup();
    take(512);
    ck_assert(cushim_mem_chunk_take(&chunk, 512, 0, false, &counters, &taken));
    ck_assert(cushim_mem_chunk_lower(&chunk, 0));
    ck_assert_uint_eq(take(512), 2);
}

TEST(lowering_the_top_waits_for_the_work_on_freed_blocks) {
    setup();
    take(512);
    uint32_t b = take(512);
    give(b, 4, 0);
    ck_assert(!cushim_mem_chunk_lower(&chunk, 3));
    ck_assert_uint_eq(take(512), 2);
    give(2, 4, 0);
    ck_assert(cushim_mem_chunk_lower(&chunk, 4));
    ck_assert_uint_eq(take(512), 1);
}

TEST(a_chunk_closes_only_when_it_is_empty_and_ripe) {
    uint32_t index;
    setup();
    uint32_t a = take(512);
    ck_assert_ptr_null(cushim_mem_chunk_close(&chunk, 100));
    give(a, 7, 0);
    ck_assert_ptr_null(cushim_mem_chunk_close(&chunk, 6));
    ck_assert_ptr_eq(cushim_mem_chunk_close(&chunk, 7), &extent);
    ck_assert_ptr_null(cushim_mem_chunk_close(&chunk, 7));
    ck_assert_ptr_eq(extent.cells, &extent.single);
    ck_assert_uint_eq(extent.block_bytes, GRAINS * CUSHIM_MEM_GRAIN_BYTES);
    ck_assert(!try_take(1, 100, false, &index));
    cushim_mem_chunk_open(&chunk, &extent);
    ck_assert(cushim_mem_chunk_close(&chunk, 0));
}

TEST(an_abandoned_chunk_forgets_its_blocks_and_subtracts_them) {
    struct cushim_mem_stats stats = {.live_bytes = 3100 + 7, .block_bytes = 512 + 3072 + 7};
    uint32_t index;
    setup();
    take(100);
    uint32_t b = take(20000);
    take(3000);
    give(b, 0, 0);
    cushim_mem_chunk_abandon(&chunk, &stats);
    ck_assert_uint_eq(stats.live_bytes, 7);
    ck_assert_uint_eq(stats.block_bytes, 7);
    ck_assert(!try_take(1, 100, false, &index));
    ck_assert_int_eq(cushim_mem_chunk_give(&chunk, 0, 0), CUSHIM_MEM_CHUNK_USED); /* a late free */
    ck_assert(!try_take(1, 100, false, &index));
    cushim_mem_chunk_open(&chunk, &extent);
    for (uint32_t i = 0; i < GRAINS; i++)
        ck_assert_uint_eq(atomic_load(&cell_of(i)->state), CUSHIM_MEM_FREE);
    ck_assert_uint_eq(take(1), 0);
}

/*
 * Threads against a model of the device: a grain is free, live, or freed in an epoch whose work
 * still runs.  A block is corrupted if it is taken while one of its grains is not free.
 */
enum { THREADS = 4, ROUNDS = 20000, OWN = 6, IS_FREE = 0, IS_LIVE = 1, FREED_AT = 2 };
static atomic_uint_fast64_t grains[GRAINS], open_epoch = 1, done_epoch;
static pthread_mutex_t model = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint n_wrong, n_served, n_from_start;

/* All work is over: grains that were freed in the open epoch or before it are free. */
static void pass_an_epoch(void) {
    pthread_mutex_lock(&model);
    uint64_t epoch = atomic_fetch_add(&open_epoch, 1);
    for (int i = 0; i < GRAINS; i++) {
        if (atomic_load(&grains[i]) >= FREED_AT)
            atomic_store(&grains[i], IS_FREE);
    }
    atomic_store(&done_epoch, epoch);
    pthread_mutex_unlock(&model);
}

static uint64_t free_grains(uint32_t index, uint32_t n, bool is_relaxed) {
    pthread_mutex_lock(&model);
    uint64_t epoch = is_relaxed ? atomic_load(&open_epoch) : 0;
    for (uint32_t i = index; i < index + n; i++)
        atomic_store(&grains[i], is_relaxed ? FREED_AT + epoch : IS_FREE);
    pthread_mutex_unlock(&model);
    return epoch;
}

struct own {
    uint32_t index, n;
};

static void take_own(struct own *own, uint32_t n) {
    struct cushim_mem_blockref taken;
    own->n = 0;
    if (!cushim_mem_chunk_take(&chunk, n * 512, atomic_load(&done_epoch), false, &counters, &taken))
        return;
    for (uint32_t i = taken.index; i < taken.index + n; i++)
        atomic_fetch_add(&n_wrong, atomic_exchange(&grains[i], IS_LIVE) != IS_FREE);
    make_live(taken.index, n * 512);
    atomic_fetch_add(&n_served, 1);
    atomic_fetch_add(&n_from_start, taken.index == 0);
    *own = (struct own){taken.index, n};
}

static void give_own(const struct own *own, bool is_relaxed) {
    uint32_t index = 0;
    bool is_found = cushim_mem_chunk_find(&chunk, own->index + own->n - 1, &index);
    atomic_fetch_add(&n_wrong, !is_found || index != own->index);
    uint64_t tag = free_grains(own->index, own->n, is_relaxed);
    atomic_store(&cell_of(own->index)->state, CUSHIM_MEM_FREE);
    cushim_mem_chunk_give(&chunk, tag, atomic_load(&done_epoch));
}

static bool has_seen_enough(void) {
    return atomic_load(&n_served) > suite_turns(1000) &&
           atomic_load(&n_from_start) > suite_turns(10);
}

/* Runs its rounds, then continues until enough was served, because the others are refused for many
 * rounds while a thread that holds a block near the end of the chunk does not run. */
static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed;
    struct own own[OWN] = {0};
    for (unsigned i = 0; i < suite_turns(ROUNDS) || !has_seen_enough(); i++) {
        struct own *slot = &own[suite_random(&random) % OWN];
        if (slot->n)
            give_own(slot, random >> 20 & 1);
        take_own(slot, 1 + (uint32_t)(suite_random(&random) % 40));
        if (random % 64 == 0)
            pass_an_epoch();
        if (random % 64 == 1)
            cushim_mem_chunk_lower(&chunk, atomic_load(&done_epoch));
        if (random % 64 == 2) { /* the end of a pass, so that the chunk sometimes empties */
            for (int k = 0; k < OWN; k++) {
                if (own[k].n)
                    give_own(&own[k], true);
                own[k].n = 0;
            }
        }
    }
    for (int k = 0; k < OWN; k++) {
        if (own[k].n)
            give_own(&own[k], true);
    }
    return NULL;
}

TEST(threads_never_get_memory_that_is_live_or_has_pending_work) {
    pthread_t threads[THREADS];
    setup();
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i * 7919 + 1)); /* the thread's seed */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    pass_an_epoch();
    ck_assert_ptr_eq(cushim_mem_chunk_close(&chunk, atomic_load(&done_epoch)), &extent);
}

SUITE() {
    return tests_run("chunk");
}
