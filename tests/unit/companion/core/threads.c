/*
 * The fast path of a launch does everything or nothing. It makes only the necessary calls, and if
 * it does not apply, the result is that of the slow path.
 */
#include <pthread.h>

#include "cushim/function.h"
#include "cushim/graph.h"
#include "cushim/memory.h"
#include "cushim/memory_copy.h"
#include "cushim/module.h"
#include "cushim/stream.h"
#include "companion/graph/graph.h"
#include "companion/module/launch.h"
#include "companion/core/thread.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

static atomic_uint n_ran;

SIM_KERNEL(one, uint32_t) {
    (void)launch, (void)args;
    atomic_fetch_add(&n_ran, 1);
}

/* The objects of the three kinds of launch, all in one context. */
struct fixture {
    struct cushim_context *ctx;
    struct cushim_stream *s;
    struct cushim_module *m;
    struct cushim_function *f;
    struct cushim_prepared *q;
    struct cushim_graphexec *x;
};

enum way { FUNCTION, PREPARED, GRAPH, N_WAYS };
static const char *const entries[N_WAYS] = {"cuLaunchKernel", "cuLaunchKernel", "cuGraphLaunch"};

static const void *word[] = {&(uint32_t){7}};

/* Creates them in this context and makes it current; nothing is launched yet. */
static struct fixture begin_in(struct cushim_context *ctx) {
    struct fixture fixture = {.ctx = ctx};
    struct cushim_graph *g;
    cushim_devptr block;
    ck_ok(cushim_context_push(fixture.ctx));
    ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &fixture.s));
    ck_ok(cushim_module_load(fixture.ctx, SIM_MODULE_IMAGE, 0, NULL, &fixture.m));
    ck_ok(cushim_module_function(fixture.m, "one", &fixture.f));
    ck_ok(cushim_function_prepare(fixture.f, "I", &fixture.q));
    ck_ok(cushim_memory_alloc(fixture.ctx, 64, &block));
    ck_ok(cushim_graph_begin(fixture.s, NULL));
    ck_ok(cushim_memory_set32_async(block, 1, 16, fixture.s));
    ck_ok(cushim_graph_end(fixture.s, &g));
    ck_ok(cushim_graph_instantiate(g, 0, &fixture.x));
    SIM(sim_calls_reset)();
    return fixture;
}

static enum cushim_status go(const struct fixture *fixture, enum way way, struct cushim_stream *s) {
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    launch.stream = s;
    return way == FUNCTION   ? cushim_function_launch(fixture->f, &launch, word, 1)
           : way == PREPARED ? cushim_prepared_launch(fixture->q, &launch, word)
                             : cushim_graphexec_launch(fixture->x, s);
}

static uint64_t n_launches_of(const struct fixture *fixture) {
    struct cushim_graphexec_info info = {.struct_size = sizeof info};
    ck_ok(cushim_graphexec_info(fixture->x, &info));
    return info.launches;
}

/* Creates them in a new context. */
static struct fixture begin_cold(void) {
    struct cushim_context *ctx;
    ck_ok(cushim_context_create(0, 0, &ctx));
    return begin_in(ctx);
}

/* Launches once each way, so that the next launch takes the fast path
 * (companion/module/launch.h). */
static void warm(const struct fixture *fixture) {
    for (enum way way = 0; way < N_WAYS; way++)
        ck_ok(go(fixture, way, fixture->s));
    ck_ok(cushim_stream_synchronize(fixture->s));
    ck_assert_uint_eq(n_ran, 2);
    n_ran = 0;
    SIM(sim_calls_reset)();
}

static struct fixture begin(void) {
    struct fixture fixture = begin_cold();
    warm(&fixture);
    return fixture;
}

static void check_that_it_asks_once_and_launches(const struct fixture *fixture, uint64_t n_before) {
    for (enum way way = 0; way < N_WAYS; way++) {
        SIM(sim_calls_reset)();
        ck_ok(go(fixture, way, fixture->s));
        ck_assert_uint_eq(n_calls(entries[way]), 1);
        ck_assert_uint_eq(n_calls("cuCtxGetCurrent"), 1);
        ck_assert_uint_eq(SIM(sim_calls_total)(), 2);
    }
    ck_ok(cushim_stream_synchronize(fixture->s));
    ck_assert_uint_eq(n_ran, 2);
    ck_assert_uint_eq(n_launches_of(fixture), n_before + 1);
}

TEST(a_fast_launch_makes_one_query_and_the_launch) {
    struct fixture fixture = begin_cold();
    check_that_it_asks_once_and_launches(&fixture, 0);
    n_ran = 0;
    check_that_it_asks_once_and_launches(&fixture, 1);
}

static bool is_fast(const struct cushim_fast_launch *fast) {
    return atomic_load(&fast->n_fast) == cushim_changes_now();
}

TEST(a_condition_for_the_slow_path_ends_the_fast_path) {
    struct fixture fixture = begin();
    struct cushim_pin pin;
    const struct cushim_function_object *function =
        cushim_handle_pin(&pin, CUSHIM_KIND_FUNCTION, fixture.f);
    bool may_be_fast = atomic_load(&cushim_pin_is_fenced);
    ck_assert(is_fast(&function->fast) == may_be_fast);
    ck_ok(cushim_context_capture_enter(fixture.ctx));
    ck_assert(!is_fast(&function->fast));
    ck_ok(go(&fixture, FUNCTION, fixture.s));
    ck_assert(!is_fast(&function->fast));
    ck_ok(cushim_context_capture_leave(fixture.ctx));
    ck_ok(go(&fixture, FUNCTION, fixture.s));
    ck_assert(is_fast(&function->fast) == may_be_fast);
    ck_ok(cushim_module_unload(fixture.m));
    ck_assert(!is_fast(&function->fast));
    cushim_handle_unpin(&pin);
}

TEST(another_current_context_is_replaced_and_restored) {
    struct fixture fixture = begin();
    ck_ok(cushim_context_push(primary(0)));
    CUcontext before = sim_current();
    for (enum way way = 0; way < N_WAYS; way++) {
        SIM(sim_calls_reset)();
        ck_ok(go(&fixture, way, fixture.s));
        ck_assert_uint_eq(n_calls(entries[way]), 1);
        ck_assert_uint_eq(n_calls("cuCtxSetCurrent"), 2);
        ck_assert_ptr_eq(sim_current(), before);
    }
}

TEST(streams_of_other_contexts_and_invalid_ones_are_refused) {
    struct fixture fixture = begin();
    struct cushim_stream *there, *gone;
    ck_ok(cushim_stream_create(primary(0), 1, 0, &there));
    ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &gone));
    ck_ok(cushim_stream_destroy(gone));
    SIM(sim_calls_reset)();
    for (enum way way = 0; way < N_WAYS; way++) {
        ck_is(go(&fixture, way, there), CUSHIM_BADDEVICE);
        ck_is(go(&fixture, way, gone), CUSHIM_BADHANDLE);
        ck_assert_uint_eq(n_calls(entries[way]), 0);
        ck_ok(go(&fixture, way, fixture.s)); /* and no pin is held */
        SIM(sim_calls_reset)();
    }
    ck_ok(cushim_stream_destroy(there));
}

static void *destroy_context(void *ctx) {
    ck_ok(cushim_context_destroy(ctx));
    return NULL;
}

TEST(a_context_that_died_while_current_is_reported) {
    struct fixture fixture = begin();
    pthread_t other;
    CUcontext handle = sim_current();
    pthread_create(&other, NULL, destroy_context, fixture.ctx);
    pthread_join(other, NULL);
    ck_assert_ptr_eq(sim_current(), handle);
    SIM(sim_calls_reset)();
    for (enum way way = 0; way < N_WAYS; way++)
        ck_is(go(&fixture, way, fixture.s), CUSHIM_DEADCONTEXT);
    ck_assert_uint_eq(SIM(sim_calls_total)(), 0);
}

TEST(dead_and_missing_objects_are_refused_without_a_driver_call) {
    struct fixture fixture = begin();
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    launch.stream = fixture.s;
    ck_is(cushim_prepared_launch(fixture.q, &launch, NULL), CUSHIM_INVALID);
    ck_said("index=0");
    ck_is(cushim_function_launch(fixture.f, &launch, word, 0), CUSHIM_INVALID);
    ck_is(cushim_function_launch(fixture.f, NULL, word, 1), CUSHIM_INVALID);
    launch.block[1] = 0;
    ck_is(cushim_prepared_launch(fixture.q, &launch, (const void *const *)word), CUSHIM_INVALID);
    ck_ok(cushim_module_unload(fixture.m));
    ck_is(go(&fixture, FUNCTION, fixture.s), CUSHIM_BADHANDLE);
    ck_is(go(&fixture, PREPARED, fixture.s), CUSHIM_BADHANDLE);
    ck_said("its module is unloaded");
    ck_ok(cushim_graphexec_destroy(fixture.x));
    ck_is(go(&fixture, GRAPH, fixture.s), CUSHIM_BADHANDLE);
    ck_assert_uint_eq(n_calls("cuLaunchKernel") + n_calls("cuGraphLaunch"), 0);
}

TEST(a_capture_is_refused_on_the_legacy_stream_and_keeps_the_module) {
    struct fixture fixture = begin();
    struct cushim_graph *g;
    ck_ok(cushim_graph_begin(fixture.s, NULL));
    ck_is(go(&fixture, PREPARED, NULL), CUSHIM_CAPTURE);
    ck_ok(go(&fixture, PREPARED, fixture.s));
    ck_ok(cushim_graph_end(fixture.s, &g));
    ck_ok(cushim_prepared_destroy(fixture.q));
    ck_ok(cushim_module_unload(fixture.m));
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 0);
    ck_ok(cushim_graph_destroy(g));
}

TEST(a_driver_that_fails_is_quoted) {
    struct fixture fixture = begin();
    for (enum way way = 0; way < N_WAYS; way++) {
        fail_at(2);
        ck_is(go(&fixture, way, fixture.s), CUSHIM_NOMEM);
        ck_said(entries[way]);
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ck_ok(go(&fixture, way, fixture.s));
        fail_at(1); /* the query of the current context */
        ck_assert(fail_is_over(go(&fixture, way, fixture.s)) == false);
    }
}

/* ---- primary contexts, which others cannot destroy ---- */

static CUcontext demanded;
static unsigned n_demands;
static __typeof__(&cuLaunchKernel) launch_kernel;

/* A driver that refuses a launch while another context than that of the stream is current. */
static CUresult CUDAAPI demand_current(CUfunction f, unsigned grid_x, unsigned grid_y,
                                       unsigned grid_z, unsigned block_x, unsigned block_y,
                                       unsigned block_z, unsigned shared_bytes, CUstream stream,
                                       void **each, void **packed) {
    n_demands++;
    return sim_current() != demanded ? CUDA_ERROR_INVALID_CONTEXT
                                     : launch_kernel(f, grid_x, grid_y, grid_z, block_x, block_y,
                                                     block_z, shared_bytes, stream, each, packed);
}

TEST(a_launch_in_a_primary_context_needs_no_query_of_the_current_one) {
    struct fixture fixture = begin_in(primary(0));
    warm(&fixture);
    unsigned n_questions = !atomic_load(&cushim_pin_is_fenced);
    for (enum way way = 0; way < N_WAYS; way++) {
        SIM(sim_calls_reset)();
        ck_ok(go(&fixture, way, fixture.s));
        ck_assert_uint_eq(n_calls(entries[way]), 1);
        ck_assert_uint_eq(SIM(sim_calls_total)(), 1 + n_questions);
    }
    ck_ok(cushim_stream_synchronize(fixture.s));
    ck_assert_uint_eq(n_ran, 2);
}

TEST(with_another_context_current_it_still_launches_in_the_primary_one) {
    struct fixture fixture = begin_in(primary(0));
    struct cushim_context *other;
    CUcontext before;
    warm(&fixture);
    demanded = sim_current();
    ck_ok(cushim_context_create(1, 0, &other));
    ck_ok(cushim_context_push(other));
    before = sim_current();
    for (unsigned i = 0; i < 2; i++) {
        ck_ok(go(&fixture, FUNCTION, fixture.s));
        ck_ok(go(&fixture, PREPARED, fixture.s));
        ck_ok(go(&fixture, GRAPH, fixture.s));
        ck_assert_ptr_eq(sim_current(), before);
        ck_ok(cushim_stream_synchronize(fixture.s));
        ck_assert_uint_eq(n_ran, 2 * (i + 1));
        launch_kernel = atomic_load(&CUSHIM_DRIVER(cuLaunchKernel));
        atomic_store(&CUSHIM_DRIVER(cuLaunchKernel), demand_current); /* for the second round */
    }
}

TEST(a_special_stream_is_resolved_in_the_modules_context) {
    struct fixture fixture = begin_in(primary(0));
    struct cushim_context *other;
    struct cushim_stream *s;
    warm(&fixture);
    ck_ok(cushim_stream_wrap(fixture.ctx, CU_STREAM_LEGACY, &s));
    launch_kernel = atomic_load(&CUSHIM_DRIVER(cuLaunchKernel));
    demanded = sim_current();
    atomic_store(&CUSHIM_DRIVER(cuLaunchKernel), demand_current);
    ck_ok(cushim_context_create(1, 0, &other));
    ck_ok(cushim_context_push(other));
    SIM(sim_calls_reset)();
    ck_ok(go(&fixture, PREPARED, s));
    ck_assert_uint_eq(n_calls("cuLaunchKernel"), 1);
    ck_assert_uint_eq(n_calls("cuCtxSetCurrent"), 2);
    ck_assert_uint_eq(n_demands, 1); /* no launch was tried in the other context */
}

/* ---- threads ---- */

enum { N_TURNS = 2000 };
static _Atomic(struct cushim_stream *) shared;
static atomic_bool is_over;

static void *exchange_streams(void *argument) {
    const struct fixture *fixture = argument;
    while (!atomic_load(&is_over)) {
        struct cushim_stream *s;
        if (cushim_stream_create(fixture->ctx, 1, 0, &s) == CUSHIM_OK)
            cushim_stream_destroy(atomic_exchange(&shared, s));
    }
    return NULL;
}

static void *launch_graphs(void *argument) {
    struct fixture fixture = *(const struct fixture *)argument;
    ck_ok(cushim_context_push(fixture.ctx));
    for (unsigned i = 0; i < N_TURNS; i++)
        ck_ok(go(&fixture, GRAPH, fixture.s));
    return NULL;
}

/* Each thread counts its own launches, because a lost addition would show once in a million. */
static void check_counters(const struct fixture *fixture, uint64_t n_done) {
    struct cushim_pin pin;
    const struct cushim_graphexec_object *exec =
        cushim_handle_pin(&pin, CUSHIM_KIND_GRAPHEXEC, fixture->x);
    bool is_ours = atomic_load(&exec->counter) == cushim_thread_get();
    ck_assert_uint_eq(atomic_load(&exec->n_launches_of_counter), is_ours ? n_done : N_TURNS);
    ck_assert_uint_eq(atomic_load(&exec->n_launches), is_ours ? N_TURNS : n_done);
    cushim_handle_unpin(&pin);
}

TEST(streams_are_destroyed_while_threads_launch_and_no_launch_is_lost) {
    struct fixture fixture = begin();
    pthread_t threads[2];
    uint64_t n_done = 0;
    struct cushim_stream *first;
    ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &first));
    atomic_store(&shared, first);
    pthread_create(&threads[0], NULL, exchange_streams, &fixture);
    pthread_create(&threads[1], NULL, launch_graphs, &fixture);
    for (unsigned i = 0; i < N_TURNS; i++) {
        enum cushim_status status = go(&fixture, GRAPH, atomic_load(&shared));
        ck_assert(status == CUSHIM_OK || status == CUSHIM_BADHANDLE);
        if (status == CUSHIM_BADHANDLE)
            ck_said("stream=");
        n_done += status == CUSHIM_OK;
    }
    pthread_join(threads[1], NULL);
    atomic_store(&is_over, true);
    pthread_join(threads[0], NULL);
    ck_assert_uint_eq(n_launches_of(&fixture), n_done + N_TURNS + 1);
    check_counters(&fixture, n_done + 1);
}

SUITE() {
    return tests_run("at once");
}
