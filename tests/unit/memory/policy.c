/* The budget of a device: what a charge costs, and when it is refused. */
#include "memory/policy.h"

#include "tests/unit/suite.h"

static const size_t mib = 1 << 20;

TEST(small_requests_are_charged_exactly_and_those_above_1_MiB_in_whole_pages) {
    struct cushim_mem_limit budget = {.limit_bytes = 10 * mib};
    ck_assert(cushim_mem_limit_charge(&budget, mib));
    ck_assert_uint_eq(budget.charged_bytes, mib);
    ck_assert(cushim_mem_limit_charge(&budget, mib + 1));
    ck_assert_uint_eq(budget.charged_bytes, 3 * mib);
    ck_assert(cushim_mem_limit_charge(&budget, 4 * mib + 1));
    ck_assert_uint_eq(budget.charged_bytes, 9 * mib);
    ck_assert(!cushim_mem_limit_charge(&budget, mib + 1)); /* a page would pass the limit */
    ck_assert(cushim_mem_limit_charge(&budget, mib));
    ck_assert(!cushim_mem_limit_charge(&budget, 1));
}

TEST(a_refund_takes_back_the_charge) {
    static const size_t sizes[] = {1, 512, 1 << 20, (1 << 20) + 1, 3 << 20, (5 << 20) + 7};
    struct cushim_mem_limit budget = {.limit_bytes = 20 * mib};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ck_assert(cushim_mem_limit_charge(&budget, sizes[i]));
        ck_assert_uint_ge(budget.charged_bytes, sizes[i]);
        cushim_mem_limit_refund(&budget, sizes[i]);
        ck_assert_uint_eq(budget.charged_bytes, 0);
    }
}

TEST(sizes_that_no_device_has_are_refused_and_charge_nothing) {
    struct cushim_mem_limit budget = {.limit_bytes = 20 * mib};
    ck_assert(!cushim_mem_limit_charge(&budget, SIZE_MAX));
    ck_assert(!cushim_mem_limit_charge(&budget, SIZE_MAX - mib));
    ck_assert_uint_eq(budget.charged_bytes, 0);
}

TEST(without_a_limit_nothing_is_refused) {
    struct cushim_mem_limit budget = {.limit_bytes = 0};
    ck_assert(cushim_mem_limit_charge(&budget, SIZE_MAX));
    ck_assert(cushim_mem_limit_charge(NULL, SIZE_MAX));
    cushim_mem_limit_refund(&budget, SIZE_MAX);
    cushim_mem_limit_refund(NULL, SIZE_MAX);
    ck_assert_uint_eq(budget.charged_bytes, 0);
}

SUITE() {
    return tests_run("limit");
}
