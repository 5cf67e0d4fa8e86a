#include "memory/layout/block.h"

#include <pthread.h>
#include <stdbool.h>

#include "memory/layout/segment.h"
#include "tests/unit/memory/layout/slab_at.h"
#include "tests/unit/suite.h"

#define PAGE  ((uint64_t)CUSHIM_MEM_SPOT_BYTES)
#define TABLE (PAGE * CUSHIM_MEM_TABLE_PAGES)
#define END   ((uint64_t)1 << CUSHIM_MEM_LOG2_ADDRESS)

static struct cushim_mem_pagemap *map; /* 4 MiB: memcheck searches static data for each test */
static uint64_t things[4];             /* only their addresses matter: a map never reads them */
#define THING(i) ((struct cushim_mem_segment *)(void *)&things[i])
static struct cushim_mem_extent slabs[3];

TEST(an_empty_map_knows_no_address) {
    static const uint64_t addresses[] = {0, 1, PAGE, TABLE, END - 1, END, END + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        ck_assert_ptr_null(cushim_mem_pagemap_find(map, addresses[i]));
}

TEST(a_range_is_known_from_its_first_byte_to_the_end_of_its_last_page) {
    uint64_t base = 7 * TABLE + 3 * PAGE;
    ck_assert_int_eq(cushim_mem_pagemap_set(map, base, 2 * PAGE + 1, THING(0)), CUSHIM_OK);
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, base - 1));
    ck_assert_ptr_eq(cushim_mem_pagemap_find(map, base), THING(0));
    ck_assert_ptr_eq(cushim_mem_pagemap_find(map, base + 3 * PAGE - 1), THING(0));
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, base + 3 * PAGE));
    cushim_mem_pagemap_clear(map, base, 2 * PAGE + 1, THING(0));
    for (unsigned i = 0; i < 3; i++)
        ck_assert_ptr_null(cushim_mem_pagemap_find(map, base + i * PAGE));
}

TEST(neighbours_are_distinguished) {
    uint64_t base = TABLE;
    cushim_mem_pagemap_set(map, base, PAGE, THING(0));
    cushim_mem_pagemap_set(map, base + PAGE, PAGE, THING(1));
    cushim_mem_pagemap_clear(map, base, PAGE, THING(0));
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, base + PAGE - 1));
    ck_assert_ptr_eq(cushim_mem_pagemap_find(map, base + PAGE), THING(1));
}

TEST(a_page_that_a_slab_covers_in_part_is_not_entered_as_its_own) {
    uint64_t page = CUSHIM_MEM_PAGE_BYTES, base = 3 * TABLE;
    struct cushim_mem_extent *slab = slab_at(&slabs[0], base + 512, 3 * page);
    cushim_mem_pagemap_set(map, base, PAGE, THING(0));
    cushim_mem_pagemap_note_slab(map, slab, true);
    ck_assert_ptr_null(cushim_mem_pagemap_slab(map, base + 512));
    ck_assert_ptr_eq(cushim_mem_pagemap_slab(map, base + page), slab);
    ck_assert_ptr_eq(cushim_mem_pagemap_slab(map, base + 3 * page - 1), slab);
    ck_assert_ptr_null(cushim_mem_pagemap_slab(map, base + 3 * page));
    cushim_mem_pagemap_note_slab(map, slab, false);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_ptr_null(cushim_mem_pagemap_slab(map, base + i * page));
    cushim_mem_pagemap_note_slab(map, slab_at(&slabs[0], base + 512, page), true);
    ck_assert_ptr_null(cushim_mem_pagemap_slab(map, base + 512));
    ck_assert_ptr_null(cushim_mem_pagemap_slab(map, base + page));
}

TEST(a_late_clear_does_not_clear_entries_of_others) {
    uint64_t base = 2 * TABLE;
    struct cushim_mem_extent *first = slab_at(&slabs[1], base, 2 * PAGE),
                             *second = slab_at(&slabs[2], base, PAGE);
    cushim_mem_pagemap_set(map, base, 2 * PAGE, THING(0));
    cushim_mem_pagemap_note_slab(map, first, true);
    cushim_mem_pagemap_set(map, base, PAGE, THING(1)); /* the driver handed it out again */
    ck_assert_ptr_null(cushim_mem_pagemap_slab(map, base));
    cushim_mem_pagemap_note_slab(map, second, true);
    cushim_mem_pagemap_note_slab(map, first, false);
    cushim_mem_pagemap_clear(map, base, 2 * PAGE, THING(0));
    ck_assert_ptr_eq(cushim_mem_pagemap_find(map, base), THING(1));
    ck_assert_ptr_eq(cushim_mem_pagemap_slab(map, base), second);
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, base + PAGE));
    ck_assert_ptr_null(cushim_mem_pagemap_slab(map, base + PAGE));
}

TEST(a_range_may_cross_tables) {
    uint64_t base = 9 * TABLE - PAGE;
    ck_assert_int_eq(cushim_mem_pagemap_set(map, base, TABLE + 2 * PAGE, THING(0)), CUSHIM_OK);
    uint64_t n_known = 0; /* because one assertion per page would take most of the time */
    for (uint64_t at = base; at < base + TABLE + 2 * PAGE; at += PAGE)
        n_known += cushim_mem_pagemap_find(map, at) == THING(0);
    ck_assert_uint_eq(n_known, CUSHIM_MEM_TABLE_PAGES + 2);
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, base + TABLE + 2 * PAGE));
    cushim_mem_pagemap_clear(map, base, TABLE + 2 * PAGE, THING(0));
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, 9 * TABLE));
}

TEST(the_last_page_below_2_to_the_49_belongs_and_none_above_does) {
    ck_assert_int_eq(cushim_mem_pagemap_set(map, END - PAGE, PAGE, THING(0)), CUSHIM_OK);
    ck_assert_ptr_eq(cushim_mem_pagemap_find(map, END - 1), THING(0));
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, END));
    ck_assert_int_eq(cushim_mem_pagemap_set(map, END, PAGE, THING(0)), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_mem_pagemap_set(map, END - PAGE, PAGE + 1, THING(0)), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_mem_pagemap_set(map, PAGE, SIZE_MAX, THING(0)), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_mem_pagemap_set(map, UINT64_MAX & ~(PAGE - 1), PAGE, THING(0)),
                     CUSHIM_INVALID);
}

TEST(a_range_that_does_not_start_on_a_page_or_is_empty_is_refused) {
    ck_assert_int_eq(cushim_mem_pagemap_set(map, PAGE + 512, PAGE, THING(0)), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_mem_pagemap_set(map, PAGE, 0, THING(0)), CUSHIM_INVALID);
    ck_assert_ptr_null(cushim_mem_pagemap_find(map, PAGE));
}

static bool is_vacated(uint64_t address) {
    return cushim_mem_pagemap_is_vacated(map, address);
}

TEST(without_vacated_pages_none_is_searched) {
    ck_assert(!cushim_mem_pagemap_has_vacated(map));
    cushim_mem_pagemap_set(map, TABLE, PAGE, THING(0));
    cushim_mem_pagemap_clear(map, TABLE, PAGE, THING(0));
    cushim_mem_pagemap_resettle(map, 0, SIZE_MAX);
    ck_assert(!cushim_mem_pagemap_has_vacated(map));
    cushim_mem_pagemap_vacate(map, TABLE, PAGE);
    ck_assert(cushim_mem_pagemap_has_vacated(map));
}

/* Ranges within a word of bits, across its ends, and across a table's end. */
static const struct {
    uint64_t first;
    unsigned n;
} runs[] = {{3, 1}, {0, 64}, {63, 2}, {60, 200}, {1, 62}, {CUSHIM_MEM_TABLE_PAGES - 3, 7}};
enum { N_RUNS = sizeof runs / sizeof runs[0] };

static uint64_t base_of(unsigned run) {
    return (20 + 2 * run) * TABLE + runs[run].first * PAGE;
}

TEST(a_vacated_range_is_marked_and_its_neighbours_are_not) {
    for (unsigned run = 0; run < N_RUNS; run++) {
        uint64_t base = base_of(run), n_bytes = runs[run].n * PAGE - PAGE / 2;
        ck_assert_int_eq(cushim_mem_pagemap_set(map, base, n_bytes, THING(0)), CUSHIM_OK);
        ck_assert(!is_vacated(base));
        cushim_mem_pagemap_vacate(map, base, n_bytes);
        cushim_mem_pagemap_clear(map, base, n_bytes, THING(0));
        for (unsigned i = 0; i < runs[run].n; i++)
            ck_assert(is_vacated(base + i * PAGE) && is_vacated(base + i * PAGE + PAGE - 1));
        ck_assert(!is_vacated(base - 1));
        ck_assert(!is_vacated(base + runs[run].n * PAGE));
        ck_assert_ptr_null(cushim_mem_pagemap_find(map, base));
    }
}

TEST(setting_a_segment_again_removes_the_mark) {
    for (unsigned run = 0; run < N_RUNS; run++) {
        uint64_t base = base_of(run), n_bytes = runs[run].n * PAGE;
        cushim_mem_pagemap_set(map, base - PAGE, n_bytes + 2 * PAGE, THING(0));
        cushim_mem_pagemap_vacate(map, base - PAGE, n_bytes + 2 * PAGE);
        cushim_mem_pagemap_set(map, base, n_bytes, THING(1));
        for (unsigned i = 0; i < runs[run].n; i++)
            ck_assert(!is_vacated(base + i * PAGE));
        ck_assert(is_vacated(base - 1));
        ck_assert(is_vacated(base + n_bytes));
        cushim_mem_pagemap_clear(map, base, n_bytes, THING(0));
        /* it went back to the driver on its own, not with its context */
        ck_assert(!is_vacated(base));
    }
}

TEST(only_whole_system_pages_are_resettled) {
    const uint64_t small = (uint64_t)1 << CUSHIM_MEM_LOG2_PAGE;
    uint64_t base = 50 * TABLE - 4 * PAGE;
    cushim_mem_pagemap_set(map, base, 8 * PAGE, THING(0));
    cushim_mem_pagemap_vacate(map, base, 8 * PAGE);
    cushim_mem_pagemap_resettle(map, base + 1, 2 * PAGE);
    ck_assert(is_vacated(base) && is_vacated(base + small - 1));
    ck_assert(!is_vacated(base + small) && !is_vacated(base + 2 * PAGE - 1));
    ck_assert(is_vacated(base + 2 * PAGE));                               /* one byte of the page */
    cushim_mem_pagemap_resettle(map, base + 4 * PAGE + 1, 2 * small - 2); /* no whole page */
    ck_assert(is_vacated(base + 4 * PAGE) && is_vacated(base + 4 * PAGE + small));
    cushim_mem_pagemap_resettle(map, base + 5 * PAGE + 3 * small, 2 * small);
    ck_assert(is_vacated(base + 5 * PAGE + 3 * small - 1));
    ck_assert(!is_vacated(base + 5 * PAGE + 3 * small));
    ck_assert(!is_vacated(base + 5 * PAGE + 5 * small - 1));
    ck_assert(is_vacated(base + 5 * PAGE + 5 * small));
    cushim_mem_pagemap_resettle(map, base + 7 * PAGE, PAGE);
    ck_assert(is_vacated(base + 7 * PAGE - 1));
    ck_assert(!is_vacated(base + 7 * PAGE) && !is_vacated(base + 8 * PAGE - 1));
}

/* The system maps and the driver allocates any addresses, with or without tables. */
TEST(any_range_may_be_resettled) {
    static const uint64_t bases[] = {TABLE, END - PAGE};
    for (size_t i = 0; i < 2; i++) {
        cushim_mem_pagemap_set(map, bases[i], PAGE, THING(0));
        cushim_mem_pagemap_vacate(map, bases[i], PAGE);
    }
    cushim_mem_pagemap_resettle(map, END, PAGE);
    cushim_mem_pagemap_resettle(map, UINT64_MAX - PAGE, PAGE);
    cushim_mem_pagemap_resettle(map, 5 * TABLE, 100 * TABLE);
    cushim_mem_pagemap_resettle(map, TABLE + PAGE, END - PAGE - TABLE - PAGE - PAGE);
    ck_assert(is_vacated(TABLE) && is_vacated(END - PAGE));
    cushim_mem_pagemap_resettle(map, TABLE, UINT64_MAX - TABLE);
    ck_assert(!is_vacated(TABLE) && !is_vacated(END - PAGE));
    ck_assert(!is_vacated(END) && !is_vacated(UINT64_MAX));
}

/* TSan tests the memory orders here; other runs test the values. */
enum { ROUNDS = 2000, RANGE_PAGES = 8 };
static atomic_bool is_over;
static uint64_t shared = 11 * TABLE - 4 * PAGE;

static void *look(void *unused) {
    uint64_t n_seen = 0;
    while (!atomic_load(&is_over)) {
        for (unsigned i = 0; i < 2 * RANGE_PAGES; i++) {
            uint64_t *seen = (uint64_t *)cushim_mem_pagemap_find(map, shared + i * PAGE);
            unsigned owner = i / RANGE_PAGES;
            if (seen && seen != &things[owner])
                return unused;
            n_seen += seen != NULL;
        }
    }
    atomic_thread_fence(memory_order_seq_cst);
    return n_seen < UINT64_MAX ? map : unused;
}

static void *set_and_clear(void *thing) {
    uint64_t base = shared + (uint64_t)((uint64_t *)thing - things) * RANGE_PAGES * PAGE;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (cushim_mem_pagemap_set(map, base, RANGE_PAGES * PAGE, thing) != CUSHIM_OK ||
            is_vacated(base))
            return NULL;
        cushim_mem_pagemap_vacate(map, base, RANGE_PAGES * PAGE);
        if (!is_vacated(base)) /* the neighbour's bits are in the same word */
            return NULL;
        cushim_mem_pagemap_clear(map, base, RANGE_PAGES * PAGE, thing);
    }
    return thing;
}

TEST(a_look_up_that_races_sees_the_old_entry_or_the_new) {
    pthread_t lookers[2], setters[2];
    void *result;
    for (int i = 0; i < 2; i++)
        pthread_create(&lookers[i], NULL, look, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&setters[i], NULL, set_and_clear, &things[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(setters[i], &result);
        ck_assert_ptr_eq(result, &things[i]);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(lookers[i], &result);
        ck_assert_ptr_eq(result, map);
    }
}

/* Threads start together, each with its own page; their bits share a word. */
static pthread_barrier_t beginning;

static void *vacate_and_resettle(void *thing) {
    uint64_t base = 90 * TABLE + (uint64_t)((uint64_t *)thing - things) * PAGE;
    unsigned n_steps = suite_turns(suite_steps(500 * ROUNDS));
    pthread_barrier_wait(&beginning);
    for (unsigned i = 0; i < n_steps; i++) {
        cushim_mem_pagemap_vacate(map, base, PAGE);
        if (!is_vacated(base))
            return NULL;
        cushim_mem_pagemap_resettle(map, base, PAGE);
        if (is_vacated(base))
            return NULL;
    }
    return thing;
}

TEST(threads_that_vacate_neighbours_lose_no_bit) {
    pthread_t threads[4];
    void *result;
    cushim_mem_pagemap_set(map, 90 * TABLE, 4 * PAGE, THING(0));
    ck_assert_int_eq(pthread_barrier_init(&beginning, NULL, 4), 0);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, vacate_and_resettle, &things[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        ck_assert_ptr_eq(result, &things[i]);
    }
}

SUITE() {
    map = calloc(1, sizeof *map);
    return tests_run("pagemap");
}
