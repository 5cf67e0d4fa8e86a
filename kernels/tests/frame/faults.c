/* The frame finds faults: a copy by the driver, and what could be wrong with it. */
#include <stdio.h>
#include <string.h>

#include "cushim/cushim.h"
#include "kernels/tests/frame/frame.h"
#include "tests/unit/suite.h"

enum { IN, OUT, N = 100, MOST_TEXT = 1024 };

static struct frame frame;
static char text[MOST_TEXT];

static void lay_out(struct kernel_case *c) {
    case_operand(c, "a", TYPE_F32, ROLE_IN, (size_t)c->sizes[0]);
    case_operand(c, "c", TYPE_F32, ROLE_OUT, (size_t)c->sizes[0]);
}

static void ref(const struct kernel_case *c) {
    if (c->sizes[0])
        memcpy(c->host[OUT], c->host[IN], (size_t)c->sizes[0] * sizeof(float));
}

static cushim_devptr address(const struct kernel_case *c, int operand) {
    return (uintptr_t)c->device[operand];
}

static enum cushim_status copy(const struct kernel_case *c, size_t n) {
    return n ? cushim_memory_d2d_async(address(c, OUT), address(c, IN), n * sizeof(float),
                                       frame.stream)
             : CUSHIM_OK;
}

static enum cushim_status copy_all(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)stream;
    return copy(c, (size_t)c->sizes[0]);
}

/* After the copy, a word somewhere. */
static enum cushim_status copy_and_set(const struct kernel_case *c, cushim_devptr p,
                                       uint32_t word) {
    enum cushim_status status = copy(c, (size_t)c->sizes[0]);
    return status != CUSHIM_OK ? status : cushim_memory_set32_async(p, word, 1, frame.stream);
}

/* Run one case; the text says what is wrong. */
static bool run(enum cushim_status function(const struct kernel_case *c, struct CUstream_st *s),
                void layout(struct kernel_case *c), void reference(const struct kernel_case *c),
                int64_t n) {
    struct kernel_subject subject = {
        .name = "copy", .n_sizes = 1, .lay_out = layout, .run = function, .ref = reference};
    struct kernel_table table = {.family = "test"};
    if (!frame.stream)
        ck_assert_int_eq(cushim_stream_create(NULL, 0, 0, &frame.stream), CUSHIM_OK);
    struct kernel_case *c = table_add(&table, &subject, NULL, &n, NULL);
    bool is_good = frame_run(&frame, c, 1, text, sizeof text);
    free(table.entries);
    return is_good;
}

#define refused(function, part)                                                                    \
    do {                                                                                           \
        ck_assert(!run((function), lay_out, ref, N));                                              \
        ck_assert_msg(strstr(text, (part)) != NULL, "%s", text);                                   \
    } while (0)

TEST(a_right_case_passes) {
    ck_assert_msg(run(copy_all, lay_out, ref, N), "%s", text);
    ck_assert_msg(run(copy_all, lay_out, ref, 1), "%s", text);
    ck_assert_msg(run(copy_all, lay_out, ref, 0), "%s", text);
    frame.is_bare = true;
    ck_assert_msg(run(copy_all, lay_out, ref, N), "%s", text);
}

static enum cushim_status refuse(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)c, (void)stream;
    return CUSHIM_NOTSUPPORTED;
}

TEST(a_status_is_seen) {
    refused(refuse, "first run, key 0x1: the function: CUSHIM_NOTSUPPORTED");
}

static enum cushim_status spoil(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)stream;
    return copy_and_set(c, address(c, OUT) + 12, 0x3fc00000);
}

TEST(a_wrong_value_is_seen) {
    refused(spoil, "first run, key 0x1: c[3] = 1.5 (0x3fc00000), the reference has ");
}

static enum cushim_status miss_last(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)stream;
    return copy(c, (size_t)c->sizes[0] - 1);
}

TEST(an_unwritten_float_is_seen) {
    refused(miss_last, "first run, key 0x1: c[99] = -nan (0xffffffff), the reference has ");
}

/* Bytes, for which the poison is an ordinary value. */
static void lay_out_bytes(struct kernel_case *c) {
    case_operand(c, "a", TYPE_U8, ROLE_IN, 4 * (size_t)c->sizes[0]);
    case_operand(c, "c", TYPE_U8, ROLE_OUT, 4 * (size_t)c->sizes[0]);
}

static void ref_all_but_poison(const struct kernel_case *c) {
    ref(c);
    memset((float *)c->host[OUT] + N - 1, 0xFF, sizeof(float));
}

static void ref_all_but_last(const struct kernel_case *c) {
    memcpy(c->host[OUT], c->host[IN], (N - 1) * sizeof(float));
}

TEST(an_unwritten_byte_is_seen_unless_the_reference_leaves_it_too) {
    ck_assert(!run(miss_last, lay_out_bytes, ref_all_but_poison, N));
    ck_assert_msg(strstr(text, "second run, key 0x1: c[396] = 90 (0x5a) was not written"), "%s",
                  text);
    ck_assert_msg(run(miss_last, lay_out_bytes, ref_all_but_last, N), "%s", text);
    ck_assert_msg(run(miss_last, lay_out, ref_all_but_last, N), "%s", text);
}

static enum cushim_status write_behind(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)stream;
    return copy_and_set(c, address(c, OUT) + 4 * N, 0);
}

static enum cushim_status write_before(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)stream;
    return copy_and_set(c, address(c, OUT) - 8, 0);
}

static enum cushim_status write_beside_input(const struct kernel_case *c,
                                             struct CUstream_st *stream) {
    (void)stream;
    return copy_and_set(c, address(c, IN) + 4 * N + 4092, 0);
}

TEST(a_write_beside_a_buffer_is_seen) {
    refused(write_behind, "first run, key 0x1: c: byte 400 was written, of 400");
    refused(write_before, "first run, key 0x1: c: byte -8 was written, of 400");
    refused(write_beside_input, "first run, key 0x1: a: byte 4492 was written, of 400");
}

static enum cushim_status write_input(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)stream;
    return copy_and_set(c, address(c, IN) + 16, 0);
}

TEST(a_written_input_is_seen) {
    refused(write_input, "first run, key 0x1: a, an input: byte 16 was written, of 400");
}

/* To a reference -NaN and NaN are the same, but not from run to run. */
static enum cushim_status alternate(const struct kernel_case *c, struct CUstream_st *stream) {
    static uint32_t sign;
    (void)stream;
    return copy_and_set(c, address(c, OUT), 0x7FC00000 | (sign ^= 0x80000000));
}

static void ref_nan(const struct kernel_case *c) {
    const uint32_t nan = 0x7FC00000;
    ref(c);
    memcpy(c->host[OUT], &nan, sizeof nan);
}

TEST(other_bits_in_a_second_run_are_seen) {
    ck_assert(!run(alternate, lay_out, ref_nan, N));
    ck_assert_msg(strstr(text, "second run, key 0x1: c[0] = nan (0x7fc00000), at first -nan"), "%s",
                  text);
}

/* Does what a kernel would do if the host had read a number from device memory. */
static enum cushim_status freeze(const struct kernel_case *c, struct CUstream_st *stream) {
    uint32_t word;
    (void)stream;
    memcpy(&word, c->host[IN], sizeof word);
    return copy_and_set(c, address(c, OUT), word);
}

TEST(a_number_frozen_in_a_capture_is_seen) {
    refused(freeze, "first replay, key 0x2: c[0] = ");
}

static enum cushim_status wait_for_it(const struct kernel_case *c, struct CUstream_st *stream) {
    enum cushim_status status = copy_all(c, stream);
    return status != CUSHIM_OK ? status : cushim_stream_synchronize(frame.stream);
}

TEST(a_call_that_no_capture_allows_is_seen) {
    refused(wait_for_it, "capture, key 0x1: the function: CUSHIM_CAPTURE");
}

static void lay_out_in_place(struct kernel_case *c) {
    lay_out(c);
    c->operands[OUT].in_place_of = 1 + IN;
}

static enum cushim_status set_first(const struct kernel_case *c, struct CUstream_st *stream) {
    (void)stream;
    ck_assert_ptr_eq(c->device[IN], c->device[OUT]);
    return cushim_memory_set32_async(address(c, OUT), 0x40000000, 1, frame.stream);
}

static void ref_set_first(const struct kernel_case *c) {
    ck_assert_ptr_eq(c->host[IN], c->host[OUT]);
    *(float *)c->host[OUT] = 2;
}

TEST(in_place_the_input_may_change_if_the_references_does) {
    ck_assert_msg(run(set_first, lay_out_in_place, ref_set_first, N), "%s", text);
    ck_assert(!run(set_first, lay_out_in_place, ref, N));
    ck_assert_msg(strstr(text, "c[0] = 2 (0x40000000), the reference has "), "%s", text);
}

/* The contents of the output when the function is first called. */
static unsigned char held[N * sizeof(float)];
static bool has_looked;

static enum cushim_status look_and_miss_last(const struct kernel_case *c,
                                             struct CUstream_st *stream) {
    if (!has_looked) {
        has_looked = true;
        cushim_memory_d2h_async(held, address(c, OUT), sizeof held, frame.stream);
        cushim_stream_synchronize(frame.stream);
    }
    return miss_last(c, stream);
}

TEST(a_bare_frame_writes_of_an_output_what_the_reference_leaves_alone) {
    static const unsigned char poison[4] = {0xFF, 0xFF, 0xFF, 0xFF};
    frame.is_bare = true;
    ck_assert_msg(run(look_and_miss_last, lay_out, ref_all_but_last, N), "%s", text);
    for (size_t i = 0; i < N - 1; i++)
        ck_assert_mem_ne(held + 4 * i, poison, 4);
    ck_assert_mem_eq(held + 4 * (N - 1), poison, 4);
    ck_assert(!run(miss_last, lay_out, ref, N));
    ck_assert_msg(strstr(text, "first run, key 0x1: c[99] = ") != NULL, "%s", text);
}

int main(void) {
    return tests_run("faults");
}
