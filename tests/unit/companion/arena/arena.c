/* Arenas on the software device: arguments, lifetime, the fallback, captures, failures, threads,
 * and dead contexts. */
#include <pthread.h>

#include "arena_fixture.h"

TEST(another_device_or_a_managed_request_misses) {
    struct cushim_arena *arena = made(default_options(0));
    cushim_devptr ptr = 1;
    ck_assert_int_eq(cushim_arena_alloc(arena, 1, 0, 256, NULL, &ptr, NULL), CUSHIM_BADDEVICE);
    ck_assert_uint_eq(ptr, 0);
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 1, 256, NULL, &ptr, NULL), CUSHIM_LIMIT);
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 3, 256, NULL, &ptr, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, (size_t)-1, NULL, &ptr, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 1, NULL, NULL, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_arena_alloc(NULL, 0, 0, 1, NULL, &ptr, NULL), CUSHIM_INVALID);
    ck_assert_uint_eq(stats_of(arena).misses, 2);
    ok(cushim_arena_destroy(arena));
    ck_assert_int_eq(cushim_arena_destroy(arena), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 1, NULL, &ptr, NULL), CUSHIM_BADHANDLE);
    ok(cushim_arena_destroy(NULL));
}

TEST(options_are_checked) {
    struct cushim_arena *arena;
    struct cushim_arena_options options = default_options(0);
    options.capacity_bytes = 0;
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_arena_create(NULL, &arena), CUSHIM_INVALID); /* CUSHIM_ARENA is unset */
    options = default_options(CUSHIM_ARENA_FLAG_UNFENCED);
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_INVALID);
    options.base = 0x1080;
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_INVALID);
    options = default_options(16);
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_INVALID);
    options = default_options(0);
    options.regions = 5;
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_INVALID);
    options = default_options(0);
    options.struct_size = 4;
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_ABI);
    options = default_options(0);
    options.fallback = (struct cushim_pool *)0x1234;
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_BADHANDLE);
    ck_assert_ptr_null(arena);
}

TEST(only_the_arena_frees_its_region) {
    struct cushim_arena *arena = made(default_options(0));
    cushim_devptr ptr = take_on(arena, 256, NULL);
    ck_assert_int_eq(cushim_memory_free(ptr), CUSHIM_STATE);
    size_t before = SIM(sim_live_bytes)();
    ok(cushim_arena_destroy(arena));
    ck_assert_uint_eq(SIM(sim_live_bytes)(), before - 4096);
}

TEST(a_pinned_arena_lives_until_its_last_unpin) {
    struct cushim_arena *arena = made(default_options(0)), *other = arena;
    cushim_devptr ptr = take_on(arena, 256, NULL);
    size_t before = SIM(sim_live_bytes)();
    ok(cushim_arena_pin(arena, ptr));
    ok(cushim_arena_set_default(arena));
    ck_assert_int_eq(cushim_arena_drain(arena), CUSHIM_STATE);
    ok(cushim_arena_destroy(arena));
    ok(cushim_arena_default(&other));
    ck_assert_ptr_null(other);
    ck_assert_uint_eq(SIM(sim_live_bytes)(), before);
    ck_assert_int_eq(cushim_arena_reset(arena, NULL), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_arena_destroy(arena), CUSHIM_BADHANDLE);
    ok(cushim_arena_unpin(arena, ptr));
    ck_assert_uint_eq(SIM(sim_live_bytes)(), before - 4096);
    ck_assert_int_eq(cushim_arena_unpin(arena, ptr), CUSHIM_BADHANDLE);
}

TEST(a_default_arena_ends_with_its_object) {
    struct cushim_arena *arena = made(default_options(0)), *now = arena;
    struct cushim_pool *pool, *pool_now;
    ok(cushim_arena_default(&now));
    ck_assert_ptr_null(now);
    ok(cushim_arena_set_default(arena));
    ok(cushim_arena_default(&now));
    ck_assert_ptr_eq(now, arena);
    ok(cushim_arena_destroy(arena));
    ok(cushim_arena_default(&now));
    ck_assert_ptr_null(now);
    ck_assert_int_eq(cushim_arena_set_default(arena), CUSHIM_BADHANDLE);
    ok(cushim_pool_create(NULL, &pool));
    ok(cushim_pool_set_default(pool));
    ok(cushim_pool_default(&pool_now));
    ck_assert_ptr_eq(pool, pool_now);
    ok(cushim_pool_set_default(NULL));
    ok(cushim_pool_default(&pool_now));
    ck_assert_ptr_null(pool_now);
    ok(cushim_pool_destroy(pool));
}

TEST(fallback_blocks_outlive_resets_and_their_pool) {
    struct cushim_arena_options options = default_options(0);
    struct cushim_arena *arena;
    cushim_devptr a, b;
    uint64_t epoch;
    ok(cushim_pool_create(NULL, &options.fallback));
    arena = made(options);
    ok(cushim_arena_alloc(arena, 0, 0, 8192, NULL, &a, &epoch));
    b = take_on(arena, 8192, NULL);
    ok(cushim_arena_reset(arena, CUSHIM_STREAM_ALL));
    ck_assert_uint_eq(stats_of(arena).fallback_blocks, 2);
    ck_assert_int_eq(cushim_arena_free(arena, 1, a, 0, epoch), CUSHIM_BADDEVICE);
    ck_assert_int_eq(cushim_arena_free(arena, 0, a, 100, epoch), CUSHIM_INVALID);
    ok(cushim_arena_free(arena, 0, a, 8192, epoch));
    ck_assert_int_eq(cushim_arena_free(arena, 0, a, 8192, epoch), CUSHIM_DOUBLEFREE);
    ok(cushim_pool_destroy(options.fallback));
    ok(cushim_arena_free(arena, 0, b, 0, 0));
    ck_assert_uint_eq(stats_of(arena).fallback_bytes, 0);
    ck_assert_uint_eq(stats_of(arena).refused, 3);
    ok(cushim_arena_destroy(arena));
}

TEST(a_reset_may_free_fallback_blocks) {
    struct cushim_arena_options options = default_options(CUSHIM_ARENA_FLAG_RESET_FALLBACK);
    cushim_devptr ptr;
    uint64_t epoch;
    ok(cushim_pool_create(NULL, &options.fallback));
    struct cushim_arena *arena = made(options);
    ok(cushim_arena_alloc(arena, 0, 0, 8192, NULL, &ptr, &epoch));
    ok(cushim_arena_reset(arena, NULL));
    ck_assert_uint_eq(stats_of(arena).fallback_blocks, 0);
    ck_assert_int_eq(cushim_arena_free(arena, 0, ptr, 0, epoch), CUSHIM_STALE);
    ok(cushim_arena_destroy(arena));
    ok(cushim_pool_destroy(options.fallback));
}

TEST(a_captured_stream_is_refused_and_its_capture_stays_valid) {
    struct cushim_arena *arena = made(default_options(0));
    CUstream raw;
    CUstreamCaptureStatus state;
    CUgraph graph;
    struct cushim_context *ctx;
    cushim_devptr ptr;
    begin_streams();
    take_on(arena, 256, t);
    busy(t);
    ok(cushim_arena_reset(arena, t));
    ok(cushim_stream_handle(s, (struct CUstream_st **)&raw));
    ok(cushim_context_primary(0, &ctx));
    ok(cushim_context_push(ctx));
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(raw, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    ck_assert_int_eq(cushim_arena_reset(arena, s), CUSHIM_CAPTURE);
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 256, s, &ptr, NULL), CUSHIM_CAPTURE);
    take_on(arena, 256, t); /* the arena still serves */
    ok(cushim_context_capture_enter(ctx));
    ck_assert_int_eq(cushim_arena_reset(arena, CUSHIM_STREAM_ALL), CUSHIM_CAPTURE);
    ck_assert_int_eq(cushim_arena_drain(arena), CUSHIM_CAPTURE);
    ok(cushim_context_capture_leave(ctx));
    ck_assert_int_eq(SIM(cuStreamIsCapturing)(raw, &state), 0);
    ck_assert_int_eq(state, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_int_eq(SIM(cuStreamEndCapture)(raw, &graph), 0);
    SIM(sim_release_hold)();
    uint64_t epoch;
    ok(cushim_arena_epoch(arena, &epoch));
    ck_assert_uint_eq(epoch, 2);
    ok(cushim_arena_destroy(arena));
}

TEST(stream_order_is_not_enough_for_a_capture) {
    struct cushim_arena *arena = made(default_options(0));
    CUstream raw;
    CUgraph graph;
    struct cushim_context *ctx;
    cushim_devptr ptr;
    begin_streams();
    take_on(arena, 256, s);
    busy(s);
    ok(cushim_arena_reset(arena, s));
    ok(cushim_stream_handle(s, (struct CUstream_st **)&raw));
    ok(cushim_context_primary(0, &ctx));
    ok(cushim_context_push(ctx));
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(raw, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    ok(cushim_context_capture_enter(ctx));
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 256, s, &ptr, NULL), CUSHIM_CAPTURE);
    SIM(sim_release_hold)();
    ok(cushim_context_capture_leave(ctx));
    ck_assert_int_eq(SIM(cuStreamEndCapture)(raw, &graph), 0);
    ok(cushim_arena_destroy(arena));
}

TEST(a_hold_collects_the_blocks_that_its_capture_takes) {
    struct cushim_arena *arena = made(default_options(0));
    struct cushim_context_object *context;
    struct cushim_arena_graph *hold;
    size_t used;
    ok(cushim_context_of_device("test", 0, &context));
    take_on(arena, 256, NULL);
    ok(cushim_arena_graph_prepare("test", context, arena, &hold));
    cushim_arena_graph_start(hold, 7);
    ck_assert_int_eq(cushim_arena_drain(arena), CUSHIM_STATE); /* the capture may still allocate */
    take_on(arena, 512, CUSHIM_STREAM_ALL);                    /* this thread began it */
    take_on(arena, 256, NULL);                                 /* takes part in no capture */
    take_on(arena, 256, CUSHIM_STREAM_ALL);
    ck_assert_uint_eq(cushim_arena_graph_bytes(hold), 768);
    cushim_arena_graph_stop(hold);
    take_on(arena, 256, CUSHIM_STREAM_ALL);
    ck_assert_uint_eq(cushim_arena_graph_bytes(hold), 768);
    ok(cushim_arena_reset(arena, CUSHIM_STREAM_ALL));
    ok(cushim_arena_used(arena, &used));
    ck_assert_uint_eq(used, 1280);
    ck_assert_int_eq(cushim_arena_drain(arena), CUSHIM_STATE);
    size_t before = SIM(sim_live_bytes)();
    ok(cushim_arena_destroy(arena));
    ck_assert_uint_eq(SIM(sim_live_bytes)(), before);
    cushim_arena_graph_drop(hold);
    ck_assert_uint_eq(SIM(sim_live_bytes)(), before - 4096);
    cushim_object_release(context);
}

TEST(a_dead_context_refuses_use_and_accepts_frees) {
    struct cushim_context *ctx;
    struct cushim_arena_options options = default_options(0);
    cushim_devptr ptr, other;
    ok(cushim_context_create(0, 0, &ctx));
    options.ctx = ctx;
    struct cushim_arena *arena = made(options);
    ok(cushim_arena_alloc(arena, 0, 0, 256, CUSHIM_STREAM_ALL, &ptr, NULL));
    ok(cushim_context_destroy(ctx));
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 256, CUSHIM_STREAM_ALL, &other, NULL),
                     CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_arena_reset(arena, CUSHIM_STREAM_ALL), CUSHIM_DEADCONTEXT);
    ok(cushim_arena_free(arena, 0, ptr, 256, 0));
    ok(cushim_arena_destroy(arena));
    ck_assert_uint_eq(cushim_address_map_count(), 0);
}

TEST(a_stream_of_another_context_is_refused) {
    struct cushim_context *ctx;
    struct cushim_stream *foreign;
    struct cushim_arena *arena = made(default_options(0));
    cushim_devptr ptr;
    ok(cushim_context_create(0, 0, &ctx));
    ok(cushim_stream_create(ctx, 1, 0, &foreign));
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 1, foreign, &ptr, NULL), CUSHIM_BADDEVICE);
    ck_assert_int_eq(cushim_arena_reset(arena, foreign), CUSHIM_BADDEVICE);
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, 1, (struct cushim_stream *)0x1234, &ptr, NULL),
                     CUSHIM_BADHANDLE);
    ok(cushim_arena_destroy(arena));
    ok(cushim_context_destroy(ctx));
}

/* Uses everything that calls the driver; the first failure ends it, and the arena stays usable. */
static enum cushim_status work(void) {
    struct cushim_arena_options options =
        default_options(CUSHIM_ARENA_FLAG_POISON | CUSHIM_ARENA_FLAG_REUSE);
    struct cushim_arena *arena;
    cushim_devptr ptr;
    enum cushim_status status = cushim_arena_create(&options, &arena);
    if (status != CUSHIM_OK)
        return status;
    status = cushim_arena_alloc(arena, 0, 0, 256, s, &ptr, NULL);
    for (unsigned i = 0; i < 2 && status == CUSHIM_OK; i++) {
        uint64_t before, after;
        ok(cushim_arena_epoch(arena, &before));
        status = cushim_arena_reset(arena, i ? CUSHIM_STREAM_ALL : s);
        ok(cushim_arena_epoch(arena, &after));
        ck_assert_uint_eq(after, before + (status == CUSHIM_OK));
        if (status == CUSHIM_OK)
            status = cushim_arena_alloc(arena, 0, 0, 256, t, &ptr, NULL);
    }
    enum cushim_status drained = cushim_arena_drain(arena);
    ok(cushim_arena_destroy(arena));
    return status == CUSHIM_OK ? drained : status;
}

TEST(a_refused_driver_call_leaves_nothing_behind) {
    begin_streams();
    ok(work()); /* objects that are created once exist */
    size_t before = SIM(sim_live_bytes)();
    unsigned n;
    for (n = 1;; n++) {
        SIM(sim_fail_at)(n, CUDA_ERROR_NOT_SUPPORTED);
        enum cushim_status status = work();
        bool has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ck_assert_uint_le(SIM(sim_live_bytes)(), before + 4096); /* a refused free is a leak */
        before = SIM(sim_live_bytes)();
        ck_assert_uint_eq(cushim_address_map_count(), 0);
        if (!has_failed) {
            ok(status);
            break;
        }
    }
    ck_assert_uint_gt(n, 10);
}

enum { N_THREADS = 4, N_ROUNDS = 4000 };
static struct cushim_arena *shared;
static atomic_bool is_wrong;

static void *churn(void *stream) {
    for (unsigned i = 0; i < suite_turns(N_ROUNDS); i++) {
        cushim_devptr ptr;
        uint64_t epoch;
        enum cushim_status status =
            cushim_arena_alloc(shared, 0, 0, 256 * (1 + i % 3), stream, &ptr, &epoch);
        if (status == CUSHIM_LIMIT) {
            cushim_arena_reset(shared, stream);
            continue;
        }
        if (status != CUSHIM_OK)
            atomic_store(&is_wrong, true);
        if (i % 5 == 0 && cushim_arena_pin(shared, ptr) == CUSHIM_OK)
            cushim_arena_unpin(shared, ptr);
        if (i % 2) {
            status = cushim_arena_free(shared, 0, ptr, 0, epoch);
            if (status != CUSHIM_OK && status != CUSHIM_STALE)
                atomic_store(&is_wrong, true);
        }
    }
    return NULL;
}

TEST(threads_may_allocate_free_pin_and_reset_at_once) {
    for (unsigned flags = 0; flags <= CUSHIM_ARENA_FLAG_REUSE; flags++) {
        pthread_t threads[N_THREADS];
        shared = made(default_options(flags));
        begin_streams();
        for (unsigned i = 0; i < N_THREADS; i++)
            pthread_create(&threads[i], NULL, churn, i % 2 ? s : t);
        for (unsigned i = 0; i < N_THREADS; i++)
            pthread_join(threads[i], NULL);
        ck_assert(!is_wrong);
        struct cushim_arena_stats stats = stats_of(shared);
        ck_assert_uint_eq(stats.hits + stats.misses, N_THREADS * suite_turns(N_ROUNDS));
        ck_assert_uint_eq(stats.pinned_bytes, 0);
        ck_assert_uint_eq(stats.refused, 0);
        ok(cushim_arena_destroy(shared));
    }
}

SUITE() {
    return tests_run("arena");
}
