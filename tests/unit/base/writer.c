/* Numbers for people: exact up to a width, and never wider. */
#include "base/writer.h"

#include <string.h>

#include "tests/unit/suite.h"

TEST(counts_are_exact_up_to_nine_digits) {
    char text[CUSHIM_AMOUNT_BYTES];
    ck_assert_str_eq(cushim_text_count(text, 0), "0");
    ck_assert_str_eq(cushim_text_count(text, 1234567), "1,234,567");
    ck_assert_str_eq(cushim_text_count(text, 999999999), "999,999,999");
    ck_assert_str_eq(cushim_text_count(text, 1000000000), "1,000,000 k");
    ck_assert_str_eq(cushim_text_count(text, 9999999999), "9,999,999 k");
    ck_assert_str_eq(cushim_text_count(text, 10000000000), "10,000 M");
    ck_assert_str_eq(cushim_text_count(text, UINT64_MAX), "18,446 P");
}

TEST(times_have_a_common_unit) {
    char text[CUSHIM_AMOUNT_BYTES];
    ck_assert_str_eq(cushim_text_time(text, 999), "999 ns");
    ck_assert_str_eq(cushim_text_time(text, 1500), "1.50 us");
    ck_assert_str_eq(cushim_text_time(text, 86400ull * 1000000000), "86400 s");
    ck_assert_str_eq(cushim_text_time(text, 129600ull * 1000000000), "1.50 d");
    ck_assert_str_eq(cushim_text_time(text, UINT64_MAX), "213504 d");
}

TEST(no_number_is_wider_than_its_column) {
    char text[CUSHIM_AMOUNT_BYTES];
    for (unsigned i = 0; i < 64; i++) {
        for (uint64_t n = (uint64_t)1 << i, k = 0; k < 3; k++) {
            ck_assert_uint_le(strlen(cushim_text_count(text, n - k)), 11);
            ck_assert_uint_le(strlen(cushim_text_bytes(text, n - k)), 9);
            ck_assert_uint_le(strlen(cushim_text_time(text, n - k)), 9);
        }
    }
}

SUITE() {
    return tests_run("writer");
}
