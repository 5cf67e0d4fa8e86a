/* Memory is out: the steps, in order, and the report at the end. */
#include "memory/reclaim.h"

#include <string.h>

#include "base/log.h"
#include "memory/state/heap_state.h"
#include "memory/alloc.h"
#include "memory/free.h"
#include "tests/unit/base/stderr.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static struct fixture *fixture;
static unsigned n_asked;

static size_t others(const struct cushim_mem_heap *heap, uint64_t until_ns) {
    ck_assert_ptr_eq(heap, &fixture->heaps[0]);
    n_asked++;
    return cushim_mem_reclaim_empty(&fixture->heaps[1], until_ns);
}

static struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

/* A device of 64 MiB. */
static void setup(void) {
    fixture = fixture_create(NULL);
    fake_limit(64 * MIB);
}

TEST(segments_held_free_go_before_memory_is_out) {
    enum cushim_status status;
    setup();
    fixture_give(fixture, fixture_take(fixture, 20 * MIB));
    fixture_give(fixture, fixture_take(fixture, 30 * MIB));
    uint64_t address = fixture_take(fixture, 60 * MIB);
    ck_assert_uint_eq(fake_used_bytes(), 60 * MIB);
    ck_assert_uint_eq(fixture->stats.n_out_of_memory, 0);
    ck_assert_uint_eq(fixture_obtain(fixture, 10 * MIB, &status), 0);
    ck_assert_int_eq(status, CUSHIM_NOMEM);
    ck_assert_uint_eq(fixture->stats.n_out_of_memory, 1);
    fixture_give(fixture, address);
    fixture_check(fixture);
}

/* No record may be made during a capture, so the driver's own wait shows that the device is
 * done. */
TEST(segments_held_free_go_while_a_capture_is_open) {
    for (unsigned i = 0; i < 2; i++) {
        setup();
        fixture_give(fixture, fixture_take(fixture, 20 * MIB));
        fixture_give(fixture, fixture_take(fixture, 30 * MIB));
        atomic_store(&fixture_pass, i ? CUSHIM_MEM_PASS_OWN : CUSHIM_MEM_PASS_RELAXED);
        fake_capture(0, true);
        fixture_take(fixture, 60 * MIB);
        ck_assert_uint_eq(fake_used_bytes(), 60 * MIB);
        ck_assert_uint_eq(fake_n_invalidated(), 0);
        ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(blocks_in_caches_go_back_too) {
    uint64_t addresses[64];
    setup();
    for (unsigned i = 0; i < 64; i++) /* 20 MiB, some of it in the cache */
        addresses[i] = fixture_take(fixture, 320 * 1024);
    for (unsigned i = 0; i < 64; i++)
        fixture_give(fixture, addresses[i]);
    fixture_take(fixture, 62 * MIB);
    fixture_check(fixture);
}

static unsigned n_looks_left;

/* The device is done after a few queries. */
static void finish_later(const char *name) {
    if (strcmp(name, "cuEventQuery") == 0 && n_looks_left && --n_looks_left == 0)
        fake_finish(0);
}

TEST(pending_blocks_are_waited_for) {
    CUresult answer;
    setup();
    uint64_t address = fixture_take(fixture, 60 * MIB);
    fake_on_call(finish_later);
    n_looks_left = 10;
    fake_submit(0);
    ck_assert_int_eq(fixture_release_on(fixture, address, fake_stream(0), &answer), CUSHIM_OK);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_DEFERRED);
    /* no idle segment fits: reclaim waits, gives back and allocates again */
    fixture_take(fixture, 64 * MIB);
    fake_on_call(NULL);
    fixture_check(fixture);
}

TEST(other_heaps_of_the_device_are_asked_last) {
    setup();
    fixture_open(fixture, 1);
    fixture->policy.make_room = others;
    n_asked = 0;
    struct cushim_mem_block block;
    struct cushim_mem_lookup lookup;
    CUresult answer;
    fake_set_current(fake_context(1));
    ck_assert_int_eq(cushim_mem_alloc(&fixture->heaps[1], 30 * MIB, &block), CUSHIM_OK);
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, block.address, &lookup));
    ck_assert_int_eq(cushim_mem_free(&fixture->heaps[1], &lookup, &answer), CUSHIM_OK);
    fake_set_current(fake_context(0));
    fixture_take(fixture, 20 * MIB);
    ck_assert_uint_eq(n_asked, 0);
    fixture_take(fixture, 20 * MIB);
    ck_assert_uint_eq(n_asked, 1);
    ck_assert_uint_eq(fixture->heaps[1].held_bytes, 0);
    fixture_check(fixture);
}

TEST(a_device_that_stays_busy_costs_the_deadline_once_and_no_segment) {
    enum cushim_status status;
    setup();
    fixture_give(fixture, fixture_take(fixture, 30 * MIB));
    fake_submit(0); /* runs until a thread waits for it */
    fake_forget_order();
    ck_assert_uint_eq(fixture_obtain(fixture, 60 * MIB, &status), 0);
    ck_assert_int_eq(status, CUSHIM_NOMEM);
    ck_assert_ptr_null(strstr(fake_order(), "cuMemFree_v2")); /* which would never return */
    ck_assert_uint_ne(heap()->watermark.gave_up_ns, 0);
    unsigned n_looks = fake_n_calls("cuEventQuery");
    ck_assert_uint_gt(n_looks, 20);
    ck_assert_uint_eq(fixture_obtain(fixture, 60 * MIB, &status), 0);
    ck_assert_uint_lt(fake_n_calls("cuEventQuery") - n_looks, 10);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED); /* also during a capture */
    ck_assert_uint_eq(fixture_obtain(fixture, 60 * MIB, &status), 0);
    ck_assert_ptr_null(strstr(fake_order(), "cuMemFree_v2"));
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RECORD);
    fake_finish(0);
    fixture_take(fixture, 60 * MIB);
    fixture_check(fixture);
}

TEST(the_report_says_what_was_held_and_which_steps_ran) {
    static struct caught caught;
    enum cushim_status status;
    setup();
    uint64_t live = fixture_take(fixture, 40 * MIB);
    fixture_take(fixture, 3000);
    cushim_log_set_level(CUSHIM_LOG_WARN);
    caught_begin(&caught);
    ck_assert_uint_eq(fixture_obtain(fixture, 50 * MIB, &status), 0);
    caught_end(&caught);
    ck_assert_msg(strstr(caught.text, "out of memory on device 0") &&
                      strstr(caught.text, "request=52428800") && strstr(caught.text, "pending=0") &&
                      strstr(caught.text, "tried:"),
                  "%s", caught.text);
    cushim_log_set_level(CUSHIM_LOG_ERROR);
    caught_begin(&caught);
    fixture_obtain(fixture, 50 * MIB, &status);
    caught_end(&caught);
    ck_assert_str_eq(caught.text, "");
    fixture_give(fixture, live);
}

/* Random sizes until the driver refuses, compared with a driver that allocates steps of 2 MiB. */
TEST(a_device_97_percent_full_serves_random_sizes_as_the_driver_would) {
    enum { DEVICE_MIB = 4096, MOST = 4000 };
    static uint64_t addresses[MOST];
    static size_t sizes[MOST];
    uint64_t seed = 7;
    for (unsigned round = 0; round < 4; round++) {
        size_t n = 0, native_bytes = 0;
        fixture = fixture_create(NULL);
        fake_limit((size_t)DEVICE_MIB * MIB);
        for (unsigned i = 0; i < suite_steps(20000); i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t n_bytes = 1 + (seed >> 33) % ((size_t)(8 << round) * MIB);
            size_t step = n_bytes > MIB ? 2 * MIB : 512;
            size_t cost_bytes = (n_bytes + step - 1) / step * step;
            if (n < MOST && native_bytes + cost_bytes <= (size_t)DEVICE_MIB * MIB / 100 * 97) {
                enum cushim_status status;
                addresses[n] = fixture_obtain(fixture, n_bytes, &status);

                ck_assert_msg(addresses[n] != 0,
                              "%zu bytes were allocated, by the driver alone %zu of %u MiB",
                              n_bytes, native_bytes / MIB, DEVICE_MIB);
                sizes[n++] = n_bytes;
                native_bytes += cost_bytes;
            } else {
                size_t k = (seed >> 17) % n;
                step = sizes[k] > MIB ? 2 * MIB : 512;
                native_bytes -= (sizes[k] + step - 1) / step * step;
                fixture_give(fixture, addresses[k]);
                addresses[k] = addresses[--n];
                sizes[k] = sizes[n];
            }
        }
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

SUITE() {
    return tests_run("reclaim");
}
