/* Arenas, cases A1 to A9. */
#include <string.h>

#include "fixture.h"

#include "cushim/arena.h"
#include "cushim/memory.h"
#include "cushim/pool.h"
#include "cushim/stream.h"

static const cushim_devptr no_memory = 0x100000000;

static struct cushim_arena *arena_of(size_t capacity_bytes, unsigned flags,
                                     struct cushim_pool *fallback) {
    struct cushim_arena_options options;
    struct cushim_arena *arena;
    cushim_arena_options_default(&options);
    options.capacity_bytes = capacity_bytes;
    options.flags = flags;
    options.fallback = fallback;
    fixture_ok(cushim_arena_create(&options, &arena));
    return arena;
}

/* A region at an address without memory, which needs no driver. */
static struct cushim_arena *dry_arena(size_t capacity_bytes, unsigned flags) {
    struct cushim_arena_options options;
    struct cushim_arena *arena;
    cushim_arena_options_default(&options);
    options.capacity_bytes = capacity_bytes;
    options.base = no_memory;
    options.flags = flags | CUSHIM_ARENA_FLAG_UNFENCED;
    fixture_ok(cushim_arena_create(&options, &arena));
    return arena;
}

static struct cushim_arena_stats stats_of(struct cushim_arena *arena) {
    struct cushim_arena_stats stats = {.struct_size = sizeof stats};
    fixture_ok(cushim_arena_stats(arena, &stats));
    return stats;
}

static size_t used_of(struct cushim_arena *arena) {
    size_t bytes;
    fixture_ok(cushim_arena_used(arena, &bytes));
    return bytes;
}

static uint64_t epoch_of(struct cushim_arena *arena) {
    uint64_t epoch;
    fixture_ok(cushim_arena_epoch(arena, &epoch));
    return epoch;
}

static cushim_devptr take_on(struct cushim_arena *arena, size_t bytes, struct cushim_stream *s) {
    cushim_devptr ptr;
    fixture_ok(cushim_arena_alloc(arena, 0, 0, bytes, s, &ptr, NULL));
    return ptr;
}

static cushim_devptr take(struct cushim_arena *arena, size_t bytes) {
    return take_on(arena, bytes, CUSHIM_STREAM_LEGACY);
}

TEST(case_A1_a_full_or_drained_arena_asks_its_fallback) {
    struct cushim_pool *pool;
    struct cushim_arena *arena;
    struct cushim_arena_stats stats;
    size_t capacity = 1;
    int is_there;
    fixture_ok(cushim_pool_create(NULL, &pool));
    arena = arena_of(4096, 0, pool);
    cushim_devptr base = take(arena, 256);
    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_ALL));
    stats = stats_of(arena);
    ck_assert_uint_eq(stats.hits, 1);
    ck_assert_uint_eq(stats.misses, 0);
    ck_assert_uint_eq(stats.used_bytes, 0);
    ck_assert_uint_eq(stats.resets, 1);
    ck_assert_uint_eq(take(arena, 256), base);
    fixture_ok(cushim_arena_destroy(arena));

    arena = arena_of(512, 0, pool);
    base = take(arena, 256);
    ck_assert_uint_eq(take(arena, 256), base + 256);
    cushim_devptr third = take(arena, 256);
    fixture_ok(cushim_pool_owns(pool, third, &is_there));
    ck_assert_int_eq(is_there, 1);
    ck_assert_uint_eq(stats_of(arena).misses, 1);
    ck_assert_uint_eq(stats_of(arena).fallback_blocks, 1);
    fixture_ok(cushim_arena_free(arena, 0, third, 256, 0));
    ck_assert_uint_eq(stats_of(arena).fallback_blocks, 0);
    fixture_ok(cushim_arena_drain(arena));
    fixture_ok(cushim_arena_capacity(arena, &capacity));
    ck_assert_uint_eq(capacity, 0);
    cushim_devptr fourth = take(arena, 256);
    fixture_ok(cushim_pool_owns(pool, fourth, &is_there));
    ck_assert_int_eq(is_there, 1);
    fixture_ok(cushim_arena_drain(arena));
    fixture_ok(cushim_arena_free(arena, 0, fourth, 0, 0));
    fixture_ok(cushim_arena_destroy(arena));
    fixture_ok(cushim_pool_destroy(pool));
}

TEST(case_A2_blocks_follow_each_other_until_the_region_is_full) {
    struct cushim_arena *arena = dry_arena(4096, 0);
    cushim_devptr ptr, second;
    ck_assert_uint_eq(take(arena, 100), no_memory);
    ck_assert_uint_eq(used_of(arena), 256);
    second = take(arena, 512);
    ck_assert_uint_eq(second, no_memory + 256);
    ck_assert_uint_eq(used_of(arena), 768);
    fixture_ok(cushim_arena_free(arena, 0, second, 512, 0));
    ck_assert_uint_eq(used_of(arena), 768);
    ck_assert_uint_eq(take(arena, 256), no_memory + 768);
    ck_assert_uint_eq(used_of(arena), 1024);
    fixture_ok(cushim_arena_free(arena, 0, no_memory, 100, 0));
    fixture_ok(cushim_arena_free(arena, 0, no_memory + 768, 256, 0));
    ck_assert_uint_eq(used_of(arena), 1024);
    ck_assert_uint_eq(take(arena, 3072), no_memory + 1024);
    ck_assert_uint_eq(used_of(arena), 4096);
    fixture_is(cushim_arena_alloc(arena, 0, 0, 1, CUSHIM_STREAM_LEGACY, &ptr, NULL), CUSHIM_LIMIT);
    ck_assert_uint_eq(ptr, 0);
    fixture_ok(cushim_arena_destroy(arena));
}

TEST(case_A3_empty_blocks_are_distinct_and_a_floor_survives) {
    struct cushim_arena *arena = dry_arena(4096, 0);
    cushim_devptr first = take(arena, 0);
    ck_assert_uint_eq(take(arena, 0), first + 256);
    ck_assert_uint_eq(take(arena, 1), first + 512);
    ck_assert_uint_eq(used_of(arena), 768);
    fixture_is(cushim_arena_set_floor(arena, 1024), CUSHIM_INVALID);
    fixture_is(cushim_arena_set_floor(arena, 4097), CUSHIM_INVALID);
    fixture_ok(cushim_arena_set_floor(arena, 100));
    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    ck_assert_uint_eq(used_of(arena), 256);
    fixture_ok(cushim_arena_destroy(arena));
}

static void free_known(struct cushim_arena *arena, cushim_devptr ptr, size_t bytes) {
    fixture_ok(cushim_arena_free(arena, 0, ptr, bytes, epoch_of(arena)));
}

TEST(case_A4_freed_spans_merge_and_serve_again) {
    struct cushim_arena *arena = dry_arena(4096, CUSHIM_ARENA_FLAG_REUSE);
    cushim_devptr a = take(arena, 100), b = take(arena, 200);
    free_known(arena, a, 100);
    ck_assert_uint_eq(take(arena, 80), a);
    ck_assert_uint_eq(stats_of(arena).reuses, 1);

    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    a = take(arena, 256);
    free_known(arena, a, 256);
    ck_assert_uint_ne(take(arena, 512), a);
    ck_assert_uint_eq(stats_of(arena).spans, 1);

    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    a = take(arena, 256);
    b = take(arena, 256);
    free_known(arena, b, 256);
    free_known(arena, a, 256);
    ck_assert_uint_eq(stats_of(arena).spans, 1);
    ck_assert_uint_eq(take(arena, 256), a);

    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    a = take(arena, 512);
    free_known(arena, a, 512);
    ck_assert_uint_eq(take(arena, 256), a);
    ck_assert_uint_eq(take(arena, 256), a + 256);
    ck_assert_uint_eq(stats_of(arena).spans, 0);
    fixture_ok(cushim_arena_destroy(arena));
}

TEST(case_A5_a_free_from_before_a_reset_is_stale) {
    struct cushim_arena *arena = dry_arena(4096, CUSHIM_ARENA_FLAG_REUSE);
    cushim_devptr a, b;
    uint64_t before, after;
    fixture_ok(cushim_arena_alloc(arena, 0, 0, 256, CUSHIM_STREAM_LEGACY, &a, &before));
    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    fixture_ok(cushim_arena_alloc(arena, 0, 0, 256, CUSHIM_STREAM_LEGACY, &b, &after));
    ck_assert_uint_eq(a, b);
    ck_assert_uint_eq(after, before + 1);
    fixture_is(cushim_arena_free(arena, 0, a, 256, before), CUSHIM_STALE);
    ck_assert_uint_eq(stats_of(arena).stale, 1);
    ck_assert_uint_eq(stats_of(arena).spans, 0);
    ck_assert_uint_ne(take(arena, 256), b);
    fixture_ok(cushim_arena_destroy(arena));
}

TEST(case_A6_a_reset_stops_at_the_highest_pin) {
    struct cushim_arena *arena = dry_arena(8192, 0);
    cushim_devptr a = take(arena, 1024);
    fixture_ok(cushim_arena_pin(arena, a));
    take(arena, 1024);
    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    ck_assert_uint_eq(used_of(arena), 1024);
    fixture_ok(cushim_arena_unpin(arena, a));
    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    ck_assert_uint_eq(used_of(arena), 0);
    take(arena, 1024);
    cushim_devptr b = take(arena, 1024);
    fixture_ok(cushim_arena_pin(arena, b));
    fixture_ok(cushim_arena_reset(arena, CUSHIM_STREAM_LEGACY));
    ck_assert_uint_eq(used_of(arena), 2048);
    fixture_ok(cushim_arena_unpin(arena, b));
    fixture_ok(cushim_arena_destroy(arena));
}

TEST(a_short_call_takes_a_block_as_the_long_one_does) {
    struct cushim_arena *arena = dry_arena(8192, 0);
    cushim_devptr ptrs[3] = {0};
    fixture_ok(cushim_arena_alloc(arena, -1, CUSHIM_MEMORY_DEVICE, 0, CUSHIM_STREAM_LEGACY,
                                  &ptrs[0], NULL));
    fixture_ok(cushim_arena_take(arena, 0, CUSHIM_STREAM_LEGACY, &ptrs[1]));
    fixture_ok(cushim_arena_take(arena, 1000, CUSHIM_STREAM_LEGACY, &ptrs[2]));
    ck_assert_uint_eq(ptrs[1] - ptrs[0], 256); /* 0 bytes have an address of their own */
    ck_assert_uint_eq(ptrs[2] - ptrs[1], 256);
    ck_assert_uint_eq(used_of(arena), 512 + 1024);
    ck_assert_int_eq(cushim_arena_take(arena, 8192, CUSHIM_STREAM_LEGACY, &ptrs[2]), CUSHIM_LIMIT);
    ck_assert_uint_eq(ptrs[2], 0);
    fixture_ok(cushim_arena_destroy(arena));
}

static size_t pinned_of(struct cushim_arena *arena) {
    size_t bytes;
    fixture_ok(cushim_arena_pinned(arena, &bytes));
    return bytes;
}

TEST(case_A7_pins_are_counted) {
    struct cushim_arena *arena = dry_arena(8192, 0);
    cushim_devptr a = take(arena, 1024), b = take(arena, 512);
    fixture_ok(cushim_arena_pin(arena, a));
    ck_assert_uint_eq(pinned_of(arena), 1024);
    fixture_ok(cushim_arena_pin(arena, a));
    ck_assert_uint_eq(pinned_of(arena), 1024);
    fixture_ok(cushim_arena_pin(arena, b));
    ck_assert_uint_eq(pinned_of(arena), 1536);
    fixture_ok(cushim_arena_unpin(arena, a));
    fixture_ok(cushim_arena_unpin(arena, a));
    fixture_ok(cushim_arena_unpin(arena, b));
    ck_assert_uint_eq(pinned_of(arena), 0);
    fixture_is(cushim_arena_unpin(arena, a), CUSHIM_STATE);
    fixture_is(cushim_arena_pin(arena, 0xdead000), CUSHIM_UNKNOWNPTR);
    fixture_is(cushim_arena_pin(arena, a + 256), CUSHIM_UNKNOWNPTR);
    fixture_ok(cushim_arena_destroy(arena));
}

TEST(case_A8_poison_fills_memory_that_a_reset_reclaims) {
    float values[256], got[256];
    uint32_t words[256];
    /* a reset on ALL, on a stream, on the legacy stream */
    for (unsigned kind = 0; kind < 3; kind++) {
        struct cushim_arena *arena = arena_of(4096, CUSHIM_ARENA_FLAG_POISON, NULL);
        struct cushim_stream *s;
        cushim_devptr low = take(arena, 1024), high = take(arena, 1024);
        fixture_ok(cushim_stream_create(NULL, 1, 0, &s));
        for (unsigned i = 0; i < 256; i++)
            values[i] = 1.5f;
        fixture_ok(cushim_memory_h2d(low, values, sizeof values));
        fixture_ok(cushim_memory_h2d(high, values, sizeof values));
        fixture_ok(cushim_arena_set_floor(arena, 1024));
        fixture_ok(cushim_arena_reset(arena, kind == 0   ? CUSHIM_STREAM_ALL
                                             : kind == 1 ? s
                                                         : CUSHIM_STREAM_LEGACY));
        ck_assert_uint_eq(take_on(arena, 1024, CUSHIM_STREAM_ALL), high);
        fixture_ok(cushim_memory_d2h(got, low, sizeof got));
        fixture_ok(cushim_memory_d2h(words, high, sizeof words));
        for (unsigned i = 0; i < 256; i++) {
            ck_assert(got[i] == 1.5f);
            ck_assert_uint_eq(words[i], 0x7FF80000);
        }
        fixture_ok(cushim_arena_destroy(arena));
        fixture_ok(cushim_stream_destroy(s));
    }
}

enum { N_WORDS = 1 << 16 };

/* The fill runs after work that is unfinished at the reset. */
TEST(case_A8_poison_comes_after_the_fence) {
    static uint32_t words[N_WORDS];
    for (unsigned is_all = 0; is_all < 2; is_all++) {
        struct cushim_arena *arena = arena_of(sizeof words, CUSHIM_ARENA_FLAG_POISON, NULL);
        struct cushim_stream *s;
        fixture_ok(cushim_stream_create(NULL, 1, 0, &s));
        cushim_devptr ptr = take_on(arena, sizeof words, s);
        fixture_spin_fill(s, ptr, 0xBAD, N_WORDS, 50);
        fixture_ok(cushim_arena_reset(arena, is_all ? CUSHIM_STREAM_ALL : s));
        ck_assert_uint_eq(take_on(arena, sizeof words, CUSHIM_STREAM_ALL), ptr);
        fixture_ok(cushim_stream_synchronize(s));
        fixture_ok(cushim_memory_d2h(words, ptr, sizeof words));
        for (unsigned i = 0; i < N_WORDS; i++) {
            if (words[i] != 0x7FF80000)
                ck_abort_msg("word %u is 0x%x", i, words[i]);
        }
        fixture_ok(cushim_arena_destroy(arena));
        fixture_ok(cushim_stream_destroy(s));
    }
}

/* A stream writes a block for a while; after a reset another stream sets it, and these values
 * stay. */
static void overtake(bool is_all) {
    static uint32_t words[N_WORDS];
    struct cushim_arena *arena = arena_of(sizeof words, 0, NULL);
    struct cushim_stream *s, *t;
    fixture_ok(cushim_stream_create(NULL, 1, 0, &s));
    fixture_ok(cushim_stream_create(NULL, 1, 0, &t));
    cushim_devptr first = take_on(arena, sizeof words, s);
    fixture_spin_fill(s, first, 0xBAD, N_WORDS, 50);
    fixture_ok(cushim_arena_reset(arena, is_all ? CUSHIM_STREAM_ALL : s));
    cushim_devptr second = take_on(arena, sizeof words, t);
    ck_assert_uint_eq(first, second);
    fixture_ok(cushim_memory_set32_async(second, 0x600D, N_WORDS, t));
    fixture_ok(cushim_stream_synchronize(t));
    fixture_ok(cushim_stream_synchronize(s));
    fixture_ok(cushim_memory_d2h(words, second, sizeof words));
    for (unsigned i = 0; i < N_WORDS; i++) {
        if (words[i] != 0x600D) /* one assertion per word would be slow */
            ck_abort_msg("word %u is 0x%x", i, words[i]);
    }
    fixture_ok(cushim_arena_destroy(arena));
    fixture_ok(cushim_stream_destroy(s));
    fixture_ok(cushim_stream_destroy(t));
}

TEST(case_A9_work_after_a_reset_comes_after_work_before_it) {
    overtake(false);
    overtake(true);
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
