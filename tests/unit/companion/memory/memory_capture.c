/* Memory calls during captures: the captures always stay valid. */
#include "cushim/context.h"
#include "cushim/library.h"
#include "cushim/memory.h"
#include "cushim/stream.h"
#include "companion/context/address_map.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

#define is(expr, status) ck_assert_msg((expr) == (status), "%s: %s", #expr, cushim_last_error())
#define ok(expr)         is(expr, CUSHIM_OK)

static struct cushim_stream *stream;
static CUstream handle;

/* A capture that the program announces to the library. */
static void begin_in(unsigned flags, CUstreamCaptureMode mode) {
    ok(cushim_stream_create(NULL, flags, 0, &stream));
    ok(cushim_stream_handle(stream, &handle));
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(handle, mode), CUDA_SUCCESS);
    ok(cushim_context_capture_enter(NULL));
}

/* The strictest mode. */
static void begin(unsigned flags) {
    begin_in(flags, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* End the capture, which must be valid and have n_nodes nodes. */
static CUgraph end(size_t n_nodes) {
    CUgraph graph = NULL;
    size_t n = 0;
    ok(cushim_context_capture_leave(NULL));
    ck_assert_int_eq(SIM(cuStreamEndCapture)(handle, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuGraphGetNodes)(graph, NULL, &n), CUDA_SUCCESS);
    ck_assert_uint_eq(n, n_nodes);
    return graph;
}

TEST(calls_that_would_wait_are_refused_and_the_capture_goes_on) {
    char bytes[64] = {0}, *page = aligned_alloc(4096, 4096);
    cushim_devptr p, managed;
    ok(cushim_memory_alloc(NULL, 64, &p));
    ok(cushim_memory_alloc_managed(NULL, 64, CUSHIM_ATTACH_FLAG_GLOBAL, &managed));
    ok(cushim_host_register(NULL, page, 4096, 0));
    begin(0);
    is(cushim_host_unregister(page), CUSHIM_CAPTURE);
    is(cushim_memory_h2d(p, bytes, 64), CUSHIM_CAPTURE);
    is(cushim_memory_d2h(bytes, p, 64), CUSHIM_CAPTURE);
    is(cushim_memory_set8(p, 1, 64), CUSHIM_CAPTURE);
    is(cushim_memory_set8_async(p, 1, 64, NULL), CUSHIM_CAPTURE);
    is(cushim_memory_h2d_async(p, bytes, 64, CUSHIM_STREAM_LEGACY), CUSHIM_CAPTURE);
    is(cushim_memory_copy_peer(p, NULL, p + 32, NULL, 32), CUSHIM_CAPTURE);
    is(cushim_memory_prefetch(managed, 64, -1, stream), CUSHIM_CAPTURE);
    is(cushim_memory_attach(managed, 64, CUSHIM_ATTACH_FLAG_SINGLE, stream), CUSHIM_CAPTURE);
    is(cushim_memory_free_async(p, stream), CUSHIM_CAPTURE);
    const struct cushim_copy2d copy = {.struct_size = sizeof copy,
                                       .flags = CUSHIM_COPY_FLAG_BLOCKING,
                                       .width_bytes = 8,
                                       .rows = 2,
                                       .dst = {.address = p},
                                       .src = {.address = p + 32}};
    is(cushim_memory_copy_2d(&copy, stream), CUSHIM_CAPTURE);
    end(0);
    ok(cushim_memory_h2d(p, bytes, 64));
    ok(cushim_memory_free(p));
    ok(cushim_memory_free(managed));
    ok(cushim_host_unregister(page));
    ck_assert_uint_eq(cushim_address_map_count(), 0);
    free(page);
}

/* Any thread may capture, in any mode; here it is the same thread. */
TEST(frees_succeed_during_a_capture_and_leave_it_valid) {
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        cushim_devptr p, q, managed;
        void *pinned;
        size_t before = SIM(sim_live_allocations)();
        ok(cushim_memory_alloc(NULL, 64, &p));
        ok(cushim_memory_alloc_managed(NULL, 64, CUSHIM_ATTACH_FLAG_GLOBAL, &managed));
        ok(cushim_host_alloc(NULL, 64, 0, &pinned));
        begin_in(0, (CUstreamCaptureMode)mode);
        ok(cushim_memory_alloc(NULL, 64, &q));
        ok(cushim_memory_free(p));
        ok(cushim_memory_free(q));
        ok(cushim_memory_free(managed));
        ok(cushim_host_free(pinned));
        is(cushim_memory_free(p), CUSHIM_DOUBLEFREE);
        ck_assert_uint_eq(SIM(sim_live_allocations)(), before);
        ok(cushim_memory_alloc(NULL, 64, &p));
        ok(cushim_memory_set8_async(p, 1, 64, stream));
        end(1);
        ok(cushim_memory_free(p));
    }
    ck_assert_uint_eq(cushim_address_map_count(), 0);
}

TEST(allocations_leave_a_capture_valid) {
    static char page[4096] __attribute__((aligned(4096)));
    cushim_devptr p, q, managed;
    size_t pitch;
    void *pinned;
    begin(0);
    ok(cushim_memory_alloc(NULL, 64, &p));
    ok(cushim_memory_alloc_pitch(NULL, 64, 2, 4, &q, &pitch));
    ok(cushim_memory_alloc_managed(NULL, 64, CUSHIM_ATTACH_FLAG_GLOBAL, &managed));
    ok(cushim_host_alloc(NULL, 64, 0, &pinned));
    ok(cushim_host_register(NULL, page, sizeof page, 0));
    end(0);
    ok(cushim_memory_free(p));
    ok(cushim_memory_free(q));
    ok(cushim_memory_free(managed));
    ok(cushim_host_free(pinned));
    ok(cushim_host_unregister(page));
}

TEST(work_on_the_captured_stream_becomes_nodes) {
    static char bytes[64];
    cushim_devptr p;
    ok(cushim_memory_alloc(NULL, 64, &p));
    begin(0);
    ok(cushim_memory_set8_async(p, 1, 64, stream));
    ok(cushim_memory_h2d_async(p, bytes, 64, stream));
    ok(cushim_memory_d2d_async(p + 32, p, 32, stream));
    end(3);
    ok(cushim_memory_free(p));
}

TEST(the_legacy_stream_is_usable_during_a_capture_on_a_non_blocking_stream) {
    cushim_devptr p;
    ok(cushim_memory_alloc(NULL, 64, &p));
    begin(1);
    ok(cushim_memory_set8_async(p, 1, 64, NULL));
    is(cushim_memory_set8(p, 1, 64), CUSHIM_CAPTURE);
    end(0);
    ok(cushim_memory_free(p));
}

TEST(stream_ordered_memory_of_a_capture_belongs_to_the_graph) {
    cushim_devptr p, q;
    struct cushim_memory_info info = {.struct_size = sizeof info};
    begin(1);
    ok(cushim_memory_alloc_async(stream, 64, &p));
    ok(cushim_memory_alloc_async(stream, 64, &q));
    ok(cushim_memory_free_async(q, stream));
    CUgraph graph = end(3);
    is(cushim_memory_free(p), CUSHIM_STATE);
    is(cushim_memory_free_async(p, stream), CUSHIM_STATE);
    ok(cushim_memory_query(p, &info));
    ck_assert_int_eq(info.kind, CUSHIM_MEMORY_GRAPH);
    ck_assert_int_eq(info.owner, CUSHIM_OWNER_GRAPH);
    ck_assert_int_eq(SIM(cuGraphDestroy)(graph), CUDA_SUCCESS);
}

SUITE() {
    return tests_run("memory capture");
}
