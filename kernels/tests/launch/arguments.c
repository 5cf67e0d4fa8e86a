/*
 * The checks that every kernel makes of its arguments: the values that pass, and the texts of those
 * that fail.
 */
#include "kernels/launch/arguments.h"

#include <limits.h>

#include "cushim/kernels.h"
#include "kernels/tests/launch/fixture.h"

#define SAID(what, why)                                                                            \
    what " failed: CUSHIM_INVALID: argument outside its documented range (" why ")"
#define refused(expr, text)                                                                        \
    do {                                                                                           \
        ck_is((expr), CUSHIM_INVALID);                                                             \
        ck_assert_str_eq(cushim_last_error(), text);                                               \
    } while (0)

TEST(a_size_is_not_negative) {
    ck_ok(cushim_check_size("f", "n", 0));
    ck_ok(cushim_check_size("f", "n", INT64_MAX));
    refused(cushim_check_size("f", "n", -1), SAID("f", "n=-1 is negative"));
    refused(cushim_check_size("f", "rows", INT64_MIN),
            SAID("f", "rows=-9223372036854775808 is negative"));
}

TEST(a_size_is_a_multiple_of_a_block) {
    ck_ok(cushim_check_multiple("f", "k", 0, 256));
    ck_ok(cushim_check_multiple("f", "k", 512, 256));
    refused(cushim_check_multiple("f", "k", 300, 256), SAID("f", "k=300 is not a multiple of 256"));
    refused(cushim_check_multiple("f", "k", 31, 32), SAID("f", "k=31 is not a multiple of 32"));
}

TEST(elements_and_bytes_can_be_counted) {
    int64_t n = 7;
    ck_ok(cushim_check_count("f", "x", (int64_t[]){3, 5, 7}, 3, 4, &n));
    ck_assert_int_eq(n, 105);
    ck_ok(cushim_check_count("f", "x", NULL, 0, 4, &n));
    ck_assert_int_eq(n, 1);
    ck_ok(cushim_check_count("f", "x", (int64_t[]){INT64_MAX}, 1, 1, &n));
    ck_assert_int_eq(n, INT64_MAX);
    ck_ok(cushim_check_count("f", "x", (int64_t[]){INT64_MAX / 4}, 1, 4, &n));
    ck_assert_int_eq(n, INT64_MAX / 4);
    n = 7;
    refused(cushim_check_count("f", "x", (int64_t[]){INT64_MAX / 4 + 1}, 1, 4, &n),
            SAID("f", "x=2305843009213693952 elements: more bytes than can be counted"));
    ck_assert_int_eq(n, 0);
    refused(cushim_check_count("f", "x", (int64_t[]){INT64_C(1) << 32, INT64_C(1) << 31}, 2, 1, &n),
            SAID("f", "x has more elements than can be counted"));
}

TEST(an_empty_tensor_has_no_elements_whatever_its_other_sizes_are) {
    int64_t n = 7;
    ck_ok(cushim_check_count("f", "x", (int64_t[]){INT64_MAX, INT64_MAX, 0}, 3, 4, &n));
    ck_assert_int_eq(n, 0);
}

TEST(a_host_array_is_there) {
    int array[1] = {0};
    ck_ok(cushim_check_host("f", "dims", array));
    refused(cushim_check_host("f", "dims", NULL), SAID("f", "dims=NULL"));
}

TEST(a_pointer_is_there_and_a_multiple_of_its_element) {
    ck_ok(cushim_check_pointer("f", "a", (const void *)0x1004, 4));
    ck_ok(cushim_check_pointer("f", "a", (const void *)0x1001, 1));
    refused(cushim_check_pointer("f", "a", NULL, 4), SAID("f", "a=NULL"));
    refused(cushim_check_pointer("f", "a", (const void *)0x1002, 4),
            SAID("f", "a=0x1002 is not a multiple of 4"));
    refused(cushim_check_pointer("f", "v", (const void *)0x1004, 8),
            SAID("f", "v=0x1004 is not a multiple of 8"));
}

TEST(success_leaves_the_text_alone) {
    int64_t n;
    refused(cushim_check_size("f", "n", -1), SAID("f", "n=-1 is negative"));
    ck_ok(cushim_check_size("g", "n", 1));
    ck_ok(cushim_check_multiple("g", "n", 2, 2));
    ck_ok(cushim_check_count("g", "x", (int64_t[]){1}, 1, 1, &n));
    ck_ok(cushim_check_host("g", "x", &n));
    ck_ok(cushim_check_pointer("g", "x", &n, 8));
    ck_assert_str_eq(cushim_last_error(), SAID("f", "n=-1 is negative"));
}

TEST(alignment_is_of_all_addresses) {
    const void *good = (const void *)0x1010, *bad = (const void *)0x1018;
    ck_assert(cushim_is_aligned(16, good, good, NULL, NULL));
    ck_assert(!cushim_is_aligned(16, bad, good, NULL, NULL));
    ck_assert(!cushim_is_aligned(16, good, bad, NULL, NULL));
    ck_assert(!cushim_is_aligned(16, good, good, bad, NULL));
    ck_assert(!cushim_is_aligned(16, good, good, good, bad));
    ck_assert(cushim_is_aligned(8, bad, bad, bad, bad));
}

TEST(blocks_cover_items_up_to_a_limit) {
    ck_assert_uint_eq(cushim_n_blocks(0, 256, 100), 1);
    ck_assert_uint_eq(cushim_n_blocks(1, 256, 100), 1);
    ck_assert_uint_eq(cushim_n_blocks(256, 256, 100), 1);
    ck_assert_uint_eq(cushim_n_blocks(257, 256, 100), 2);
    ck_assert_uint_eq(cushim_n_blocks(INT64_MAX, 256, 100), 100);
}

/* Sizes come before emptiness, that before pointers, and none of it needs a driver. */
TEST(checks_come_in_their_order_and_before_the_driver) {
    const float *odd = (const float *)0x1002;
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    refused(cushim_add_f32(NULL, NULL, NULL, -1, NULL), SAID("cushim_add_f32", "n=-1 is negative"));
    ck_ok(cushim_add_f32(NULL, odd, NULL, 0, NULL));
    refused(cushim_add_f32(NULL, odd, NULL, 1, NULL), SAID("cushim_add_f32", "a=NULL"));
    refused(cushim_add_f32(odd, NULL, NULL, 1, NULL),
            SAID("cushim_add_f32", "a=0x1002 is not a multiple of 4"));
}

int main(void) {
    return tests_run("check");
}
