/* CUSHIM_CHECK in pools: a write to a block after its free is found when the block is reused. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cushim/cushim.h"
#include "companion/core/driver.h"
#include "sim.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"

static char said[1024];

static void note(void *cookie, int level, const char *line) {
    (void)cookie, (void)level;
    strncat(said, line, sizeof said - strlen(said) - 1);
}

static struct cushim_pool *p;
static struct cushim_stream *s;

static void setup(void) {
    said[0] = 0;
    cushim_log_set_sink(note, NULL);
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    options.poll_us = 5000000; /* until the software device's thread has run */
    ck_assert_int_eq(cushim_pool_create(&options, &p), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(NULL, 1, 0, &s), CUSHIM_OK);
}

static cushim_devptr take(struct cushim_stream *on) {
    cushim_devptr ptr;
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 5000, on, &ptr), CUSHIM_OK);
    return ptr;
}

static void give(cushim_devptr ptr, struct cushim_stream *on) {
    ck_assert_int_eq(cushim_pool_free(p, -1, ptr, 0, on), CUSHIM_OK);
}

static uint64_t n_damaged(void) {
    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    ck_assert_int_eq(cushim_pool_stats(p, -1, -1, &stats), CUSHIM_OK);
    return stats.damaged;
}

/* Write as a kernel that still has the address. */
static void write_late(cushim_devptr at) {
    CUstream stream;
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_handle(s, &stream), CUSHIM_OK);
    ck_assert_int_eq(CUSHIM_DRIVER(cuMemsetD8Async)(at, 7, 1, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_stream_synchronize(s), CUSHIM_OK);
}

TEST(a_write_after_the_free_is_reported_at_the_reuse) {
    setup();
    struct cushim_stream *const streams[] = {s, CUSHIM_STREAM_LEGACY, CUSHIM_STREAM_PER_THREAD,
                                             CUSHIM_STREAM_ALL};
    for (unsigned i = 0; i < sizeof streams / sizeof *streams; i++) {
        setup(); /* only one block can be reused */
        cushim_devptr ptr = take(streams[i]);
        give(ptr, streams[i]);
        write_late(ptr + 4321);
        ck_assert_uint_eq(take(streams[i]), ptr);
        ck_assert_uint_eq(n_damaged(), 1);
        ck_assert_ptr_nonnull(strstr(said, "was written after its free: 0x7 at offset 4321"));
    }
}

TEST(work_that_was_queued_before_the_free_is_no_finding) {
    setup();
    cushim_devptr ptr = take(s);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set8_async(ptr, 1, 5000, s), CUSHIM_OK);
    give(ptr, s);
    SIM(sim_release_hold)();
    ck_assert_uint_eq(take(s), ptr);
    ck_assert_uint_eq(n_damaged(), 0);
    ck_assert_str_eq(said, "");
}

TEST(freed_memory_reads_as_the_pattern) {
    setup();
    unsigned char bytes[5000];
    cushim_devptr ptr = take(s);
    ck_assert_int_eq(cushim_memory_set8(ptr, 1, sizeof bytes), CUSHIM_OK);
    give(ptr, s);
    ck_assert_uint_eq(take(s), ptr);
    ck_assert_int_eq(cushim_memory_d2h(bytes, ptr, sizeof bytes), CUSHIM_OK);
    for (unsigned i = 0; i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], 0xDD);
}

TEST(a_finding_is_reported_once) {
    setup();
    cushim_devptr ptr = take(s);
    give(ptr, s);
    write_late(ptr);
    give(take(s), s);
    take(s);
    ck_assert_uint_eq(n_damaged(), 1);
    ck_assert_int_eq(cushim_pool_stats_reset(p), CUSHIM_OK);
    ck_assert_uint_eq(n_damaged(), 0);
}

TEST(a_capture_gets_no_check) {
    setup();
    struct cushim_stream *other;
    struct cushim_graph *g;
    cushim_devptr ptr = take(s);
    ck_assert_int_eq(cushim_stream_create(NULL, 1, 0, &other), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_begin(other, NULL), CUSHIM_OK);
    unsigned long before = SIM(sim_calls)("cuMemsetD8Async");
    give(ptr, s);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemsetD8Async"), before);
    ck_assert_int_eq(cushim_memory_set8_async(take(other), 0, 4, other), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(other, &g), CUSHIM_OK);
    ck_assert_uint_eq(n_damaged(), 0);
}

TEST(a_driver_failure_only_skips_the_check) {
    setup();
    for (unsigned n = 1; n < 8; n++) {
        cushim_devptr ptr = take(s);
        SIM(sim_fail_at)(n, CUDA_ERROR_UNKNOWN);
        give(ptr, s);
        ck_assert_uint_eq(take(s), ptr);
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        give(ptr, s);
    }
    ck_assert_uint_eq(n_damaged(), 0);
}

SUITE() {
    setenv("CUSHIM_CHECK", "frees", 1);
    unsetenv("CUSHIM_LOG");
    return tests_run("pool check");
}
