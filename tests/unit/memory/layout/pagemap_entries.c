/*
 * The page map's entries of 2 MiB and 64 KiB: how many a segment takes, whatever was set there
 * before, and a comparison with a model of one word per page (linked with --wrap=mmap, mmap64).
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/layout/block.h"
#include "memory/layout/segment.h"
#include "tests/unit/memory/layout/slab_at.h"
#include "tests/unit/suite.h"

#define PAGE ((uint64_t)CUSHIM_MEM_SPOT_BYTES)
#define MIB  ((uint64_t)1 << 20)
#define GIB  ((uint64_t)1 << 30)

enum { OWNERS = 48 };

static struct cushim_mem_pagemap map;
static uint64_t things[OWNERS]; /* only their addresses matter: a map never reads them */
#define THING(i) ((struct cushim_mem_segment *)(void *)&things[i])
static struct cushim_mem_extent slabs[OWNERS];

/* ---- entries, counted in the memory of the map ---- */

enum { AREAS = 64 };
static struct {
    const uint64_t *words;
    size_t n;
} areas[AREAS] = {{(const uint64_t *)(const void *)&map, sizeof map / sizeof(uint64_t)}};
static atomic_uint n_areas = 1;

/* A build with 64-bit file offsets calls mmap64; both go through here. */
void *__real_mmap(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset);
void *__wrap_mmap64(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset);

void *__wrap_mmap(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset) {
    void *memory = __real_mmap(at, n_bytes, rights, flags, file, offset);
    unsigned i = memory == MAP_FAILED ? AREAS : atomic_fetch_add(&n_areas, 1);
    if (i < AREAS) {
        areas[i].words = memory;
        areas[i].n = n_bytes / sizeof(uint64_t);
    }
    return memory;
}

void *__wrap_mmap64(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset) {
    return __wrap_mmap(at, n_bytes, rights, flags, file, offset);
}

/* Words of the map that are not 0. */
static size_t count_words(void) {
    size_t n = 0;
    for (unsigned i = 0; i < AREAS; i++) {
        for (size_t k = 0; k < areas[i].n; k++)
            n += areas[i].words[k] != 0;
    }
    return n;
}

/* Returns false rather than asserts, because one assertion per page would take most of the time. */
static bool is_known_as(uint64_t base, uint64_t n_bytes, const struct cushim_mem_segment *thing) {
    uint64_t at = base;
    while (at < base + n_bytes && cushim_mem_pagemap_find(&map, at) == thing)
        at += PAGE;
    return at >= base + n_bytes;
}

/* The words that a segment adds to a map whose tables exist: its set stores them, its clear removes
 * them. */
static size_t count_entries(uint64_t base, uint64_t n_bytes) {
    ck_assert_int_eq(cushim_mem_pagemap_set(&map, base, n_bytes, THING(0)), CUSHIM_OK);
    cushim_mem_pagemap_clear(&map, base, n_bytes, THING(0));
    size_t n_before = count_words();
    ck_assert_int_eq(cushim_mem_pagemap_set(&map, base, n_bytes, THING(0)), CUSHIM_OK);
    size_t n_set = count_words();
    ck_assert(is_known_as(base, n_bytes, THING(0)));
    cushim_mem_pagemap_clear(&map, base, n_bytes, THING(0));
    ck_assert_uint_eq(count_words(), n_before);
    ck_assert(is_known_as(base, n_bytes, NULL));
    return n_set - n_before;
}

TEST(sixteen_gib_take_an_entry_for_each_2_mib) {
    ck_assert_uint_eq(count_entries(32 * GIB, 16 * GIB), 8192);
}

TEST(a_segment_is_entered_at_the_largest_entries_that_it_fills) {
    ck_assert_uint_eq(count_entries(32 * GIB, PAGE), 1);
    ck_assert_uint_eq(count_entries(32 * GIB + 4 * MIB, 2 * MIB), 1);
    ck_assert_uint_eq(count_entries(32 * GIB + PAGE, 2 * MIB), 32);
    ck_assert_uint_eq(count_entries(32 * GIB + 2 * MIB - PAGE, 6 * MIB + 2 * PAGE), 5);
    ck_assert_uint_eq(count_entries(33 * GIB - 2 * MIB - PAGE, 4 * MIB + PAGE), 3);
}

TEST(earlier_small_segments_cost_a_large_one_no_entries) {
    for (uint64_t base = 32 * GIB + 3 * PAGE; base < 48 * GIB; base += GIB) {
        cushim_mem_pagemap_set(&map, base, 4 * PAGE, THING(1));
        cushim_mem_pagemap_clear(&map, base, 4 * PAGE, THING(1));
    }
    ck_assert_uint_eq(count_entries(32 * GIB, 16 * GIB), 8192);
}

/* ---- segments set over other segments ---- */

TEST(the_rest_of_a_divided_entry_belongs_to_its_segment_until_the_clear) {
    static const uint64_t sizes[] = {GIB, 2 * MIB};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t base = (4 + i) * GIB, middle = base + sizes[i] / 2;
        cushim_mem_pagemap_set(&map, base, sizes[i], THING(0));
        cushim_mem_pagemap_set(&map, middle, PAGE, THING(1));
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, middle - 1), THING(0));
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, middle), THING(1));
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, middle + PAGE), THING(0));
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, base + sizes[i] - 1), THING(0));
        cushim_mem_pagemap_clear(&map, base, sizes[i], THING(0));
        for (uint64_t at = base; at < base + sizes[i]; at += PAGE)
            ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, at), at == middle ? THING(1) : NULL);
    }
}

TEST(entries_that_a_larger_segment_replaced_do_not_come_back) {
    static const uint64_t sizes[] = {2 * MIB, GIB};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t base = (8 + i) * GIB;
        cushim_mem_pagemap_set(&map, base + 3 * PAGE, PAGE, THING(0));
        cushim_mem_pagemap_note_slab(&map, slab_at(&slabs[0], base + 3 * PAGE, PAGE), true);
        cushim_mem_pagemap_set(&map, base, sizes[i], THING(1));
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, base + 3 * PAGE), THING(1));
        ck_assert_ptr_null(cushim_mem_pagemap_slab(&map, base + 3 * PAGE));
        cushim_mem_pagemap_clear(&map, base, sizes[i], THING(1));
        ck_assert_ptr_null(cushim_mem_pagemap_find(&map, base + 3 * PAGE));
        cushim_mem_pagemap_set(&map, base + 4 * PAGE, PAGE, THING(2)); /* divided again */
        ck_assert_ptr_null(cushim_mem_pagemap_find(&map, base + 3 * PAGE));
        cushim_mem_pagemap_clear(&map, base + 3 * PAGE, PAGE, THING(0));
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, base + 4 * PAGE), THING(2));
    }
}

/* ---- against a model ---- */

enum { MODEL_PAGES = 5 << 14, MODEL_STEPS = 250, MODEL_SEEDS = 3 }; /* 5 GiB */
static const uint64_t model_base = 96 * GIB;

static struct {
    uint8_t segment, slab; /* owner + 1 */
    bool is_vacated;
} model[MODEL_PAGES];

static struct range {
    uint32_t first, n; /* pages; n 0: not set */
    uint32_t slab_first, slab_n;
} ranges[OWNERS];

static uint64_t random_state;

static uint32_t draw(uint32_t below) {
    return (uint32_t)(suite_random(&random_state) % below);
}

static uint64_t address_of(uint32_t page) {
    return model_base + page * PAGE;
}

/* Chooses a start and an end, each at or beside a border of a spot, of 2 MiB or of a table. */
static struct range draw_range(void) {
    static const uint32_t steps[] = {1, 1 << 5, 1 << 14};
    for (;;) {
        uint32_t step = steps[draw(3)], n_step = steps[draw(3)];
        uint32_t first = draw(MODEL_PAGES / step) * step + draw(4) / 3 * draw(3);
        uint32_t n = draw(n_step == 1 << 14 ? 4 : 70) * n_step + draw(4) / 3 * draw(3);
        if (n && first + n <= MODEL_PAGES)
            return (struct range){.first = first, .n = n};
    }
}

static void model_set(unsigned owner) {
    struct range *range = &ranges[owner];
    *range = draw_range();
    ck_assert_int_eq(
        cushim_mem_pagemap_set(&map, address_of(range->first), range->n * PAGE, THING(owner)),
        CUSHIM_OK);
    for (uint32_t i = range->first; i < range->first + range->n; i++) {
        model[i].segment = (uint8_t)(owner + 1);
        model[i].slab = 0;
        model[i].is_vacated = false;
    }
    range->slab_first = range->first + draw(range->n);
    range->slab_n = draw(range->first + range->n - range->slab_first + 1) % 100;
    cushim_mem_pagemap_note_slab(
        &map, slab_at(&slabs[owner], address_of(range->slab_first), range->slab_n * PAGE), true);
    for (uint32_t i = range->slab_first; i < range->slab_first + range->slab_n; i++)
        model[i].slab = (uint8_t)(owner + 1);
}

static void model_clear(unsigned owner) {
    struct range *range = &ranges[owner];
    bool is_vacated = draw(3) == 0;
    if (is_vacated)
        cushim_mem_pagemap_vacate(&map, address_of(range->first), range->n * PAGE);
    cushim_mem_pagemap_note_slab(&map, &slabs[owner], false);
    cushim_mem_pagemap_clear(&map, address_of(range->first), range->n * PAGE, THING(owner));
    for (uint32_t i = range->first; i < range->first + range->n; i++) {
        model[i].is_vacated |= is_vacated;
        if (model[i].segment == owner + 1)
            model[i].segment = 0;
        if (model[i].slab == owner + 1)
            model[i].slab = 0;
    }
    *range = (struct range){0};
}

static bool is_as_modelled(uint32_t page) {
    uint64_t at = address_of(page) + draw(CUSHIM_MEM_SPOT_BYTES);
    uint8_t segment = model[page].segment, slab = model[page].slab;
    return cushim_mem_pagemap_find(&map, at) == (segment ? THING(segment - 1) : NULL) &&
           cushim_mem_pagemap_slab(&map, at) == (slab ? &slabs[slab - 1] : NULL) &&
           cushim_mem_pagemap_is_vacated(&map, at) == model[page].is_vacated;
}

static void check_model(unsigned seed, unsigned step) {
    uint32_t page = 0;
    while (page < MODEL_PAGES && is_as_modelled(page))
        page += step;
    ck_assert_msg(page >= MODEL_PAGES, "seed %u, page %u", seed, page);
    ck_assert_ptr_null(cushim_mem_pagemap_find(&map, model_base - 1));
    ck_assert_ptr_null(cushim_mem_pagemap_find(&map, address_of(MODEL_PAGES)));
}

TEST(after_any_sets_and_clears_the_map_equals_its_model) {
    for (unsigned seed = 1; seed <= MODEL_SEEDS; seed++) {
        random_state = seed;
        for (unsigned step = 0; step < suite_steps(MODEL_STEPS); step++) {
            unsigned owner = draw(OWNERS);
            if (ranges[owner].n)
                model_clear(owner);
            else
                model_set(owner);
            check_model(seed, step % 50 ? 997 : 1);
        }
        for (unsigned owner = 0; owner < OWNERS; owner++) {
            if (ranges[owner].n)
                model_clear(owner);
        }
        check_model(seed, 1);
    }
}

/* ---- threads: TSan tests the memory orders, other runs the values ---- */

/* Neighbours that share tables and entries of 2 MiB, and one inside another. */
static const struct {
    uint64_t base, n_bytes;
} shares[] = {
    {64 * GIB - 3 * PAGE, GIB + 2 * MIB + 8 * PAGE},
    {65 * GIB + 2 * MIB + 5 * PAGE, 2 * MIB},
    {70 * GIB, GIB},
    {70 * GIB + 6 * MIB + PAGE, 3 * PAGE},
};
enum { SHARES = sizeof shares / sizeof shares[0], ROUNDS = 300 };
static atomic_bool is_over;

/* A look-up may return any share that covers the address, or none. */
static bool may_be_seen(uint64_t at, const struct cushim_mem_segment *seen) {
    for (unsigned i = 0; i < SHARES; i++) {
        if (seen == THING(i))
            return at - shares[i].base < shares[i].n_bytes;
    }
    return !seen;
}

static void *look(void *unused) {
    while (!atomic_load(&is_over)) {
        for (unsigned i = 0; i < SHARES; i++) {
            for (uint64_t at = shares[i].base - PAGE; at <= shares[i].base + 10 * MIB; at += PAGE) {
                if (!may_be_seen(at, cushim_mem_pagemap_find(&map, at)))
                    return unused;
            }
        }
    }
    return &map;
}

static void *come_and_go(void *thing) {
    unsigned i = (unsigned)((uint64_t *)thing - things);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (cushim_mem_pagemap_set(&map, shares[i].base, shares[i].n_bytes, thing) != CUSHIM_OK)
            return NULL;
        cushim_mem_pagemap_clear(&map, shares[i].base, shares[i].n_bytes, thing);
    }
    return thing;
}

TEST(segments_of_all_sizes_come_and_go_during_look_ups) {
    pthread_t looker, owners[SHARES];
    void *result;
    pthread_create(&looker, NULL, look, NULL);
    for (unsigned i = 0; i < SHARES; i++)
        pthread_create(&owners[i], NULL, come_and_go, &things[i]);
    for (unsigned i = 0; i < SHARES; i++) {
        pthread_join(owners[i], &result);
        ck_assert_ptr_eq(result, &things[i]);
    }
    atomic_store(&is_over, true);
    pthread_join(looker, &result);
    ck_assert_ptr_eq(result, &map);
    for (unsigned i = 0; i < SHARES; i++)
        ck_assert(is_known_as(shares[i].base, shares[i].n_bytes, NULL));
}

/* Two pages of one entry of 2 MiB, each with its own thread. */
static pthread_barrier_t beginning, end;
/* counted here too, because the thread that leaves the barrier first has to wait */
static atomic_uint n_awake;
static const uint64_t giant = 80 * GIB, apart = 3 * PAGE;

static void *set_a_page(void *thing) {
    uint64_t base = giant + (uint64_t)((uint64_t *)thing - things) * apart;
    bool is_seen = true;
    for (unsigned round = 0; round < 5 * ROUNDS; round++) {
        pthread_barrier_wait(&beginning);
        atomic_fetch_add(&n_awake, 1);
        for (unsigned i = 0; i < 20000 && atomic_load(&n_awake) < 2 * (round + 1); i++) {
        }
        cushim_mem_pagemap_set(&map, base, PAGE, thing);
        pthread_barrier_wait(&end);
        is_seen = is_seen && cushim_mem_pagemap_find(&map, base) == thing;
        cushim_mem_pagemap_clear(&map, base, PAGE, thing);
        pthread_barrier_wait(&end);
    }
    return is_seen ? thing : NULL;
}

TEST(two_threads_that_divide_an_entry_at_once_both_succeed) {
    pthread_t owners[2];
    void *result;
    pthread_barrier_init(&beginning, NULL, 3);
    pthread_barrier_init(&end, NULL, 3);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&owners[i], NULL, set_a_page, &things[i]);
    for (unsigned round = 0; round < 5 * ROUNDS; round++) {
        ck_assert_int_eq(cushim_mem_pagemap_set(&map, giant, GIB, THING(2)), CUSHIM_OK);
        pthread_barrier_wait(&beginning);
        pthread_barrier_wait(&end);
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, giant + PAGE), THING(2));
        ck_assert_ptr_eq(cushim_mem_pagemap_find(&map, giant + GIB - 1), THING(2));
        pthread_barrier_wait(&end);
        cushim_mem_pagemap_clear(&map, giant, GIB, THING(2));
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(owners[i], &result);
        ck_assert_ptr_eq(result, &things[i]);
    }
    ck_assert_ptr_null(cushim_mem_pagemap_find(&map, giant + PAGE));
}

int main(void) {
    return tests_run("pagemap_entries");
}
