/* Which streams wait for which after a reset or a free, on a device that can be held. */
#include "arena_fixture.h"

TEST(after_a_reset_only_other_streams_wait_and_once) {
    struct cushim_arena *arena = made(default_options(0));
    int is_done;
    begin_streams();
    cushim_devptr first = take_on(arena, 256, s);
    take_on(arena, 256, t); /* valid in this epoch, not in the next */
    busy(s);
    ok(cushim_arena_reset(arena, s));
    unsigned long before = waits_of_device();
    ck_assert_uint_eq(take_on(arena, 256, s), first);
    ck_assert_uint_eq(waits_of_device(), before);
    take_on(arena, 256, t);
    ck_assert_uint_eq(waits_of_device(), before + 1);
    take_on(arena, 256, t);
    take_on(arena, 256, s);
    ck_assert_uint_eq(waits_of_device(), before + 1);
    SIM(sim_release_hold)();
    take_on(arena, 256, CUSHIM_STREAM_ALL);
    ok(cushim_stream_query(s, &is_done)); /* t waits for it too and may end a moment later */
    ck_assert_int_eq(is_done, 1);
    ok(cushim_arena_destroy(arena));
}

TEST(a_block_without_a_wait_makes_no_driver_call) {
    struct cushim_arena *arena = made(default_options(0));
    begin_streams();
    take_on(arena, 256, s);
    SIM(sim_calls_reset)();
    take_on(arena, 256, s);
    cushim_devptr ptr = take_on(arena, 256, CUSHIM_STREAM_ALL);
    ok(cushim_arena_free(arena, 0, ptr, 256, 0));
    ck_assert_uint_eq(SIM(sim_calls_total)(), 0);
    ok(cushim_arena_destroy(arena));
}

TEST(a_reset_on_another_stream_covers_an_older_fence) {
    struct cushim_arena *arena = made(default_options(0));
    begin_streams();
    take_on(arena, 256, s);
    busy(s);
    ok(cushim_arena_reset(arena, s));
    unsigned long before = waits_of_device();
    ok(cushim_arena_reset(arena, t)); /* t is not ordered behind the work on s */
    ck_assert_uint_eq(waits_of_device(), before + 1);
    take_on(arena, 256, t);
    ck_assert_uint_eq(waits_of_device(), before + 1);
    SIM(sim_release_hold)();
    ok(cushim_arena_destroy(arena));
}

TEST(a_reset_moves_to_the_next_region_without_a_wait) {
    struct cushim_arena_options options = default_options(0);
    options.regions = 2;
    struct cushim_arena *arena = made(options);
    begin_streams();
    cushim_devptr first = take_on(arena, 256, s);
    busy(s);
    ok(cushim_arena_reset(arena, s));
    unsigned long before = waits_of_device();
    ck_assert_uint_eq(take_on(arena, 256, t), first + 4096);
    ck_assert_uint_eq(waits_of_device(), before);
    ok(cushim_arena_reset(arena, t));
    ck_assert_uint_eq(take_on(arena, 256, t), first);
    ck_assert_uint_eq(waits_of_device(), before + 1);
    SIM(sim_release_hold)();
    ok(cushim_arena_destroy(arena));
}

TEST(a_freed_span_waits_for_the_work_of_all_streams) {
    struct cushim_arena *arena = made(default_options(CUSHIM_ARENA_FLAG_REUSE));
    begin_streams();
    cushim_devptr first = take_on(arena, 4096, s), ptr;
    busy(s);
    ok(cushim_arena_free(arena, 0, first, 4096, 1));
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 4096, s, &ptr, NULL), CUSHIM_LIMIT);
    SIM(sim_release_hold)();
    ok(cushim_context_synchronize(NULL)); /* the fence completes a moment after s */
    ck_assert_uint_eq(take_on(arena, 4096, t), first);
    ck_assert_uint_eq(stats_of(arena).reuses, 1);
    ok(cushim_arena_destroy(arena));
}

TEST(a_freed_span_serves_the_stream_of_the_options_at_once) {
    struct cushim_arena_options options = default_options(CUSHIM_ARENA_FLAG_REUSE);
    begin_streams();
    options.stream = s;
    struct cushim_arena *arena = made(options);
    cushim_devptr first = take_on(arena, 4096, CUSHIM_STREAM_OWN), ptr;
    busy(s);
    ok(cushim_arena_free(arena, 0, first, 4096, 1));
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 4096, t, &ptr, NULL), CUSHIM_LIMIT);
    ck_assert_uint_eq(take_on(arena, 4096, s), first);
    SIM(sim_release_hold)();
    ok(cushim_arena_destroy(arena));
}

TEST(managed_memory_is_served_once_the_host_has_seen_the_fence) {
    struct cushim_arena_options options = default_options(0);
    options.managed = CUSHIM_ARENA_MANAGED_ALWAYS;
    struct cushim_arena *arena = made(options);
    cushim_devptr ptr;
    int yes;
    begin_streams();
    ok(cushim_arena_managed(arena, &yes));
    ck_assert_int_eq(yes, 1);
    take_on(arena, 256, s);
    ok(cushim_memory_set8_async(take_on(arena, 256, s), 1, 256, s));
    ok(cushim_arena_reset(arena, s));
    ok(cushim_arena_alloc(arena, 0, 1, 256, s, &ptr, NULL));
    ck_assert_uint_eq(SIM(sim_pending)(), 0);
    ok(cushim_arena_destroy(arena));
}

SUITE() {
    return tests_run("arena order");
}
