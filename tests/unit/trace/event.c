/* Events: they are read as they were written, and other bytes are no event. */
#include "trace/event.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"

static const uint64_t frames[] = {0x7fff00001234, 0x400100, 0x7fff00001200};

static const struct cushim_trace_event samples[] = {
    {.code = CUSHIM_TRACE_ALLOC,
     .flags = CUSHIM_TRACE_NO_CALL,
     .address = 0x7ff144e00a00,
     .n_bytes = 1000,
     .stack = 7},
    {.code = CUSHIM_TRACE_ALLOC, .flags = CUSHIM_TRACE_NATIVELY, .address = 12345, .n_bytes = 1},
    {.code = CUSHIM_TRACE_ALLOC,
     .flags = CUSHIM_TRACE_RESTORED,
     .address = UINT64_MAX,
     .n_bytes = UINT64_MAX,
     .stack = UINT64_MAX},
    {.code = CUSHIM_TRACE_FREE, .address = 0x7ff144e00a00},
    {.code = CUSHIM_TRACE_FREE, .address = 1},
    {.code = CUSHIM_TRACE_WAIT, .n_waits = 2, .number = 1500000},
    {.code = CUSHIM_TRACE_REFUSE, .n_bytes = (uint64_t)1 << 40, .stack = 3},
    {.code = CUSHIM_TRACE_SEGMENT, .address = 0x7ff144000000, .n_bytes = (uint64_t)44 << 30},
    {.code = CUSHIM_TRACE_SEGMENT,
     .flags = CUSHIM_TRACE_GIVEN_BACK,
     .address = 0x7ff144000200,
     .n_bytes = 512},
    {.code = CUSHIM_TRACE_DEVICE, .n_bytes = (uint64_t)80 << 30, .text = "H100", .text_bytes = 4},
    {.code = CUSHIM_TRACE_PLACE,
     .device = 63,
     .kind = 3,
     .pool = 0x55aa55aa55aa,
     .thread = 4194304},
    {.code = CUSHIM_TRACE_GONE, .number = 0x55aa55aa55aa},
    {.code = CUSHIM_TRACE_MARK, .text = "<script>", .text_bytes = 8},
    {.code = CUSHIM_TRACE_STACK, .number = 9, .frames = frames, .n_frames = 3},
    {.code = CUSHIM_TRACE_MODULE,
     .address = 0x400000,
     .n_bytes = 4096,
     .number = 8192,
     .text = "/usr/bin/train",
     .text_bytes = 14},
    {.code = CUSHIM_TRACE_COPY, .n_bytes = 1 << 30, .number = 24100000, .text = ""},
    {.code = CUSHIM_TRACE_COPY,
     .flags = CUSHIM_TRACE_TO_HOST | CUSHIM_TRACE_NATIVELY,
     .n_bytes = UINT64_MAX,
     .number = UINT64_MAX,
     .text = "capture",
     .text_bytes = 7},
};
enum { N = sizeof samples / sizeof *samples };

static void check_same(const struct cushim_trace_event *now,
                       const struct cushim_trace_event *wanted) {
    ck_assert_int_eq((int)now->code, (int)wanted->code);
    ck_assert_uint_eq(now->flags & ~CUSHIM_TRACE_UNALIGNED, wanted->flags);
    ck_assert_uint_eq(now->address, wanted->address);
    ck_assert_uint_eq(now->n_bytes, wanted->n_bytes);
    ck_assert_uint_eq(now->number, wanted->number);
    ck_assert_uint_eq(now->n_waits, wanted->n_waits);
    ck_assert_uint_eq(now->stack, wanted->stack);
    ck_assert_uint_eq(now->device, wanted->device);
    ck_assert_uint_eq(now->kind, wanted->kind);
    ck_assert_uint_eq(now->pool, wanted->pool);
    ck_assert_uint_eq(now->thread, wanted->thread);
    ck_assert_uint_eq(now->n_frames, wanted->n_frames);
    for (unsigned i = 0; i < now->n_frames; i++)
        ck_assert_uint_eq(now->frames[i], wanted->frames[i]);
    ck_assert_uint_eq(now->text_bytes, wanted->text_bytes);
    if (wanted->text_bytes)
        ck_assert_mem_eq(now->text, wanted->text, wanted->text_bytes);
}

/* All samples, 1000 ns apart. */
static size_t write_samples(uint8_t *bytes) {
    struct cushim_trace_base base = {0};
    size_t n_bytes = 0;
    for (int i = 0; i < N; i++) {
        struct cushim_trace_event event = samples[i];
        event.time_ns = 1000u * (unsigned)(i + 1);
        n_bytes += cushim_trace_encode(bytes + n_bytes, &base, &event);
    }
    return n_bytes;
}

TEST(what_is_written_is_read_again) {
    uint8_t bytes[N * CUSHIM_TRACE_EVENT_BYTES];
    uint64_t space[CUSHIM_TRACE_FRAMES];
    struct cushim_trace_base base = {0};
    size_t n_bytes = write_samples(bytes), at = 0;
    for (int i = 0; i < N; i++) {
        struct cushim_trace_event event;
        size_t n = cushim_trace_decode(bytes + at, n_bytes - at, &base, &event, space);
        ck_assert_uint_gt(n, 0);
        check_same(&event, &samples[i]);
        /* times are cut to 16 ns, and the rests do not add up */
        ck_assert_uint_le(event.time_ns, 1000u * (unsigned)(i + 1));
        ck_assert_uint_gt(event.time_ns + 16, 1000u * (unsigned)(i + 1));
        at += n;
    }
    ck_assert_uint_eq(at, n_bytes);
}

TEST(a_pair_of_4_kib_takes_few_bytes) {
    uint8_t bytes[2 * CUSHIM_TRACE_EVENT_BYTES];
    struct cushim_trace_base base = {0, 0x7ff144e00000};
    struct cushim_trace_event event = {.code = CUSHIM_TRACE_ALLOC,
                                       .time_ns = 500,
                                       .address = 0x7ff144f00000,
                                       .n_bytes = 4096,
                                       .stack = 300};
    size_t n_bytes = cushim_trace_encode(bytes, &base, &event);
    event.code = CUSHIM_TRACE_FREE;
    event.time_ns = 900;
    n_bytes += cushim_trace_encode(bytes + n_bytes, &base, &event);
    ck_assert_uint_le(n_bytes, 20);
}

/* Copies of the exact length, so that a sanitizer sees a read past the end. */
static size_t decode_alone(const uint8_t *from, size_t n_bytes, uint64_t *space) {
    struct cushim_trace_base base = {0};
    struct cushim_trace_event event;
    uint8_t *alone = malloc(n_bytes ? n_bytes : 1);
    memcpy(alone, from, n_bytes);
    size_t n = cushim_trace_decode(alone, n_bytes, &base, &event, space);
    ck_assert_uint_le(n, n_bytes);
    free(alone);
    return n;
}

TEST(a_cut_event_is_none) {
    uint8_t bytes[CUSHIM_TRACE_EVENT_BYTES];
    uint64_t space[CUSHIM_TRACE_FRAMES];
    for (int i = 0; i < N; i++) {
        struct cushim_trace_base base = {0};
        size_t n_bytes = cushim_trace_encode(bytes, &base, &samples[i]);
        for (size_t n = 0; n < n_bytes; n++)
            ck_assert_uint_eq(decode_alone(bytes, n, space), 0);
        ck_assert_uint_eq(decode_alone(bytes, n_bytes, space), n_bytes);
    }
}

TEST(random_bytes_are_survived) {
    uint8_t bytes[256];
    uint64_t space[CUSHIM_TRACE_FRAMES], random = 42;
    for (unsigned i = suite_steps(20000); i > 0; i--) {
        size_t n = suite_random(&random) % sizeof bytes;
        for (size_t at = 0; at < n; at++)
            bytes[at] = (uint8_t)(suite_random(&random) >> 40);
        decode_alone(bytes, n, space);
    }
}

SUITE() {
    return tests_run("event");
}
