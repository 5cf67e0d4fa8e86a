#include "base/bits.h"

#include "base/clock.h"
#include "tests/unit/suite.h"

TEST(the_floor_of_a_logarithm_is_exact_around_powers_of_two) {
    ck_assert_uint_eq(cushim_log2_floor(1), 0);
    for (unsigned k = 1; k < 64; k++) {
        uint64_t power = (uint64_t)1 << k;
        ck_assert_uint_eq(cushim_log2_floor(power), k);
        ck_assert_uint_eq(cushim_log2_floor(power - 1), k - 1);
        ck_assert_uint_eq(cushim_log2_floor(power | 1), k);
    }
    ck_assert_uint_eq(cushim_log2_floor(UINT64_MAX), 63);
}

TEST(rounding_up_gives_the_next_multiple) {
    size_t out = 1;
    ck_assert(cushim_round_up(0, 64, &out));
    ck_assert_uint_eq(out, 0);
    for (size_t x = 1; x <= 4096; x++) {
        ck_assert(cushim_round_up(x, 512, &out));
        ck_assert(out >= x && out - x < 512 && out % 512 == 0);
    }
}

TEST(rounding_up_reports_an_overflow) {
    size_t out = 7;
    ck_assert(cushim_round_up(SIZE_MAX - 511, 512, &out));
    ck_assert_uint_eq(out, SIZE_MAX - 511);
    out = 7;
    ck_assert(!cushim_round_up(SIZE_MAX - 510, 512, &out));
    ck_assert(!cushim_round_up(SIZE_MAX, 2, &out));
    ck_assert(cushim_round_up(SIZE_MAX, 1, &out));
    ck_assert_uint_eq(out, SIZE_MAX);
}

TEST(aligned_means_a_multiple_of_the_step) {
    ck_assert(cushim_is_aligned(0, 512));
    ck_assert(cushim_is_aligned((uint64_t)1 << 63, 65536));
    ck_assert(!cushim_is_aligned(65535, 65536));
    ck_assert(!cushim_is_aligned(65537, 65536));
}

TEST(the_clocks_do_not_go_back) {
    uint64_t fine_ns = cushim_clock_ns(), coarse_ns = cushim_clock_coarse_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t fine_now_ns = cushim_clock_ns(), coarse_now_ns = cushim_clock_coarse_ns();
        ck_assert_uint_ge(fine_now_ns, fine_ns);
        ck_assert_uint_ge(coarse_now_ns, coarse_ns);
        fine_ns = fine_now_ns;
        coarse_ns = coarse_now_ns;
    }
}

SUITE() {
    return tests_run("bits");
}
