/* Filling: which bytes are due, and how host and device clear them. */
#include "memory/provider/fill.h"

#include <string.h>

#include "cuda/table.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static struct fixture *fixture;

TEST(only_bytes_that_a_block_covered_before_are_due) {
    struct cushim_mem_segment segment = {.base = 1 << 21, .n_bytes = 4 * MIB};
    uint64_t base = segment.base;
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base, 1000, 1024), 0);
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base + 1024, 1000, 1024), 0);
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base, 1000, 1024), 1000);
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base + 1024, 1024, 1024), 1024);
    /* cut again: the driver's zeros are still in half of it */
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base + 1024, 2000, 2048), 1024);
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base + 1024, 2000, 2048), 2000);
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base + 8192, 1, 512), 0);
    /* bytes in between count as used */
    ck_assert_uint_eq(cushim_mem_fill_due(&segment, base + 4096, 512, 512), 512);
}

TEST(the_host_clears_exactly_the_requested_bytes) {
    enum { MARGIN = 64, MOST = 6 * MIB, ALL = MOST + 2 * MARGIN };
    static const size_t sizes[] = {0,    1,       63,          64,           65,  4096,
                                   5000, 2 * MIB, 2 * MIB + 1, 5 * MIB + 63, MOST};
    unsigned char *bytes = aligned_alloc(64, ALL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(bytes, 0xff, ALL);
        cushim_mem_fill_host(bytes + MARGIN, sizes[i]);
        size_t n_wrong = 0;
        for (size_t at = 0; at < ALL; at++) {
            bool is_inside = at >= MARGIN && at < MARGIN + sizes[i];
            n_wrong += bytes[at] != (is_inside ? 0 : 0xff);
        }
        ck_assert_uint_eq(n_wrong, 0);
    }
    free(bytes);
}

/* ---- clearing by the device, on our own driver functions ---- */

static unsigned n_streams, n_destroyed, n_sets;
static CUresult set_answer;
static CUstreamCaptureMode set_mode;
static CUcontext set_context;
static bool is_busy;

static CUresult create_stream(CUstream *stream, unsigned flags) {
    ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
    *stream = fake_stream(4 * n_streams++); /* the stream of context 0 */
    return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream) {
    (void)stream;
    n_destroyed++;
    return CUDA_SUCCESS;
}

static CUresult set(CUdeviceptr address, unsigned char value, size_t n_bytes, CUstream stream) {
    ck_assert_uint_eq(address, 4096);
    ck_assert_uint_eq(n_bytes, 1000);
    ck_assert_uint_eq(value, 0);
    ck_assert_ptr_eq(stream, fake_stream(0));
    n_sets++;
    set_mode = fake_mode();
    set_context = fake_current();
    if (set_answer == CUDA_SUCCESS && is_busy)
        fake_submit(0);
    return set_answer;
}

static void set_up(void) {
    fixture = fixture_create(NULL);
    fixture->cuda->cuStreamCreate = create_stream;
    fixture->cuda->cuStreamDestroy_v2 = destroy_stream;
    fixture->cuda->cuMemsetD8Async = set;
}

static enum cushim_status clear(void) {
    return cushim_mem_fill_device(&fixture->heaps[0].filler,
                                  &(struct cushim_mem_fill){.address = 4096, .n_bytes = 1000}, 1,
                                  2000000);
}

TEST(the_device_clears_on_one_internal_stream) {
    set_up();
    fake_set_current(fake_context(1)); /* not the heap's context */
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(clear(), CUSHIM_OK);
    ck_assert_uint_eq(n_sets, 3);
    ck_assert_uint_eq(n_streams, 1);
    ck_assert_ptr_eq(set_context, fake_context(0));
    ck_assert_int_eq(set_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    ck_assert_ptr_eq(fake_current(), fake_context(1));
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_uint_eq(fake_n_events(), 0);
    fixture_check(fixture);
}

TEST(a_busy_device_is_not_waited_for) {
    set_up();
    is_busy = true;
    ck_assert_int_eq(clear(), CUSHIM_TIMEOUT);
    ck_assert_ptr_eq(atomic_load(&fixture->heaps[0].filler.stream), fake_stream(0));
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 0);
    fake_finish(0);
    is_busy = false;
    ck_assert_int_eq(clear(), CUSHIM_OK);
    fixture_check(fixture);
}

TEST(a_refusal_is_reported_and_leaves_nothing_behind) {
    set_up();
    set_answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    ck_assert_int_eq(clear(), CUSHIM_FAULT);
    ck_assert_uint_eq(fake_n_events(), 0);
    for (unsigned n = 1; n < 20; n++) { /* whichever call fails, no clearing counts as done */
        unsigned n_before = n_sets;
        set_answer = CUDA_SUCCESS;
        fake_fail_at(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status = clear();
        ck_assert(status != CUSHIM_OK || n_sets == n_before + 1);
        fake_fail_at(0, CUDA_SUCCESS);
    }
    ck_assert_uint_eq(fake_n_events(), 0);
    fixture->cuda->cuMemsetD8Async = (__typeof__(&cuMemsetD8Async))NULL; /* clang needs the cast */
    ck_assert_int_eq(clear(), CUSHIM_NOTSUPPORTED);
    fixture_check(fixture);
}

TEST(a_clearing_without_an_event_does_not_count_as_done) {
    set_up();
    fake_fail_always("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(clear(), CUSHIM_TIMEOUT);
    ck_assert_uint_eq(n_sets, 1);
    fixture_check(fixture);
}

TEST(a_clearing_of_unknown_state_may_be_under_way) {
    set_up();
    is_busy = true;
    for (unsigned n = 1; n < 20; n++) {
        unsigned n_before = n_sets;
        fake_fail_at(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status = clear();
        ck_assert_int_eq(status == CUSHIM_TIMEOUT, n_sets > n_before);
        fake_fail_at(0, CUDA_SUCCESS);
    }
    fake_finish(0);
    fixture_check(fixture);
}

static CUresult read_busily(void *to, CUdeviceptr from, size_t n_bytes, CUstream stream) {
    (void)to;
    (void)from;
    (void)n_bytes;
    (void)stream;
    fake_submit(0);
    return CUDA_SUCCESS;
}

static unsigned n_synchronised;

static CUresult synchronise(CUstream stream) {
    ck_assert_ptr_eq(stream, fake_stream(0));
    fake_finish(0);
    n_synchronised++;
    return CUDA_SUCCESS;
}

TEST(a_read_is_waited_for_whichever_call_fails) {
    static const char *const names[] = {"cuEventRecord", "cuEventSynchronize"};
    unsigned char byte;
    for (unsigned i = 0; i < 2; i++) {
        set_up();
        n_streams = n_synchronised = 0;
        fixture->cuda->cuMemcpyDtoHAsync_v2 = read_busily;
        fixture->cuda->cuStreamSynchronize = synchronise;
        fake_fail_always(names[i], CUDA_ERROR_OUT_OF_MEMORY);
        const struct cushim_mem_fill read = {4096, 1, 0, &byte};
        ck_assert_int_eq(cushim_mem_fill_device(&fixture->heaps[0].filler, &read, 1, 0), CUSHIM_OK);
        ck_assert_uint_eq(n_synchronised, 1);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

SUITE() {
    return tests_run("fill");
}
