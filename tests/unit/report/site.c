/* Sites: sums of samples, growing places, and text for any bytes of a page. */
#include "report/site.h"

#include <string.h>

#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

enum { MEAN = 1 << 19, SECOND = 1000000000 };

static struct cushim_page_sites sites;
static struct cushim_report report;

static struct cushim_page_site *site_of(uint64_t key) {
    struct cushim_page_site *site = cushim_site_find(&sites, key);
    ck_assert_ptr_nonnull(site);
    site->key = key;
    return site;
}

/* The only site of a page, as reported run_ns after the start. */
static struct cushim_site told(uint64_t run_ns) {
    struct cushim_site site = {0};
    report.sites = &sites;
    report.page.head.sample_bytes = MEAN;
    report.run_ns = run_ns;
    for (unsigned i = 0; i < CUSHIM_PAGE_SITES; i++) {
        if (cushim_site_get(&report, i, &site))
            break;
    }
    return site;
}

TEST(large_blocks_are_counted_and_small_ones_stand_for_more) {
    struct cushim_page_site *site = site_of(7);
    cushim_site_add(site, MEAN, 3 * MEAN, 0);
    ck_assert_uint_eq(told(0).live_bytes, 3 * MEAN);
    ck_assert_uint_eq(told(0).n_live, 1);
    ck_assert_uint_eq(told(0).error_bytes, 0);
    cushim_site_add(site, MEAN, MEAN / 4, 0); /* one of four is taken: it is four blocks */
    ck_assert_uint_eq(told(0).live_bytes, 4 * MEAN);
    ck_assert_uint_eq(told(0).n_live, 5);
    ck_assert_uint_gt(told(0).error_bytes, MEAN * 8 / 10); /* MEAN times the root of 3/4 */
    ck_assert_uint_lt(told(0).error_bytes, MEAN * 9 / 10);
    cushim_site_subtract(site, MEAN, MEAN / 4, 0);
    cushim_site_subtract(site, MEAN, 3 * MEAN, 0);
    ck_assert_uint_eq(told(0).live_bytes, 0);
    ck_assert_uint_eq(told(0).n_live, 0);
    ck_assert_uint_eq(told(0).error_bytes, 0);
    ck_assert_uint_eq(told(0).peak_live_bytes, 4 * MEAN);
}

/* Blocks of 1 to 100,000 bytes, of which samples are taken; the bytes of all. */
static uint64_t add_samples(struct cushim_page_site *site, unsigned n, uint64_t seed) {
    uint64_t all_bytes = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t n_bytes = 1 + suite_random(&seed) % 100000;
        all_bytes += n_bytes;
        if (suite_random(&seed) % MEAN < n_bytes)
            cushim_site_add(site, MEAN, n_bytes, 0);
    }
    return all_bytes;
}

/* Sums of samples come near the true sums, whatever the sizes. */
TEST(samples_are_right_on_average) {
    enum { N = 200000 };
    uint64_t all_bytes = add_samples(site_of(1), N, 3);
    struct cushim_site sum = told(0);
    uint64_t off_bytes =
        sum.live_bytes > all_bytes ? sum.live_bytes - all_bytes : all_bytes - sum.live_bytes;
    ck_assert_uint_lt(off_bytes, 5 * sum.error_bytes);
    ck_assert_uint_gt(sum.n_live, N / 2);
    ck_assert_uint_lt(sum.n_live, N * 2);
}

/* The reported error holds: of 1,000 programs at most one is off by four times as much. */
TEST(a_sum_is_within_four_of_its_errors) {
    enum { SEEDS = 1000, N = 2000 };
    unsigned n_off = 0;
    for (uint64_t i = 1; i <= SEEDS; i++) {
        memset(&sites, 0, sizeof sites);
        uint64_t all_bytes = add_samples(site_of(1), N, i * 0x9e3779b97f4a7c15u);
        struct cushim_site sum = told(0);
        n_off += sum.live_bytes > all_bytes + 4 * sum.error_bytes ||
                 sum.live_bytes + 4 * sum.error_bytes < all_bytes;
    }
    ck_assert_uint_le(n_off, SEEDS / 1000);
}

static uint64_t hour_bytes; /* as the last call of grows() said */

/* Adds 2 to 1,000,000 bytes every step_ns, with noise around it, after a late start; then nothing
 * happens for pause_ns. */
static bool grows(unsigned n_late, uint64_t noise_bytes, uint64_t slack_bytes, uint64_t peak_bytes,
                  uint64_t step_ns, uint64_t pause_ns) {
    enum { N = 32 };
    uint64_t live_bytes[N], moments_ns[N];
    for (unsigned i = 0; i < N; i++) {
        live_bytes[i] = i < n_late ? 0 : 1000000 + 2 * i + i % 2 * noise_bytes;
        moments_ns[i] = i * step_ns;
    }
    return cushim_site_grows(live_bytes, moments_ns, N, moments_ns[N - 1] + pause_ns, slack_bytes,
                             peak_bytes, &hour_bytes);
}

TEST(growth_is_more_than_noise_and_a_part_of_the_peak) {
    ck_assert(grows(0, 0, 0, 1, SECOND, 0));
    ck_assert(grows(24, 0, 0, 1, SECOND, 0));
    ck_assert(!grows(25, 0, 0, 1, SECOND, 0)); /* two moments a quarter are the fewest */
    ck_assert(grows(0, 1, 0, 1, SECOND, 0));
    ck_assert(!grows(0, 3, 0, 1, SECOND, 0));
    ck_assert(grows(0, 0, 1, 1, SECOND, 0));
    ck_assert(!grows(0, 0, 2, 1, SECOND, 0));
    ck_assert(grows(0, 0, 0, 6200, SECOND, 0));
    ck_assert(!grows(0, 0, 0, 6300, SECOND, 0)); /* 62 bytes are less than 1 % */
}

/* It grows for 31 seconds, and for 3.9 of these in the last quarter of 36 or more. */
TEST(what_grew_for_long_and_then_computed_does_not_grow) {
    ck_assert(grows(0, 0, 0, 1, SECOND, (uint64_t)5 * SECOND));
    ck_assert(!grows(0, 0, 0, 1, SECOND, (uint64_t)7 * SECOND));
    ck_assert(
        grows(0, 0, 0, 1, SECOND / 1000, SECOND / 5)); /* a busy machine stops it at its end */
    ck_assert(!grows(0, 0, 0, 1, SECOND / 1000, SECOND / 3));
}

TEST(less_than_a_minute_has_no_growth_in_an_hour) {
    ck_assert(grows(0, 0, 0, 1, (uint64_t)2 * SECOND, 0));
    ck_assert_uint_eq(hour_bytes, 3600);
    ck_assert(grows(24, 0, 0, 1, (uint64_t)2 * SECOND, 0)); /* it grew for 14 of 62 seconds */
    ck_assert_uint_eq(hour_bytes, 0);
    ck_assert(grows(0, 0, 0, 1, 0, 0));
    ck_assert_uint_eq(hour_bytes, 0);
    ck_assert(!grows(0, 3, 0, 1, (uint64_t)2 * SECOND, 0));
    ck_assert_uint_eq(hour_bytes, 0);
}

TEST(growth_is_told_as_what_may_leak_in_an_hour) {
    ck_assert_str_eq(CUSHIM_LEAK((uint64_t)120 << 20), "may leak, +120 MiB/h");
    ck_assert_str_eq(CUSHIM_LEAK(0), "may leak");
}

TEST(who_has_more_in_each_quarter_grows) {
    struct cushim_page_site *site = site_of(1);
    for (uint64_t second = 1; second <= 100; second++) {
        cushim_site_add(site, MEAN, MEAN, second * SECOND);
        ck_assert_int_eq(told(second * SECOND).grows, second >= 8); /* by then, and from then on */
    }
    ck_assert_ptr_nonnull(strstr(full_page_written(cushim_site_text, &report), "may leak, +"));
    ck_assert_uint_eq(cushim_site_growth(&report).n_sites, 1);
    ck_assert_uint_eq(cushim_site_growth(&report).live_bytes, (uint64_t)100 * MEAN);
    /* the last quarter of the time had none */
    ck_assert(!told((uint64_t)200 * SECOND).grows);
}

TEST(a_pause_hides_no_growth) {
    struct cushim_page_site *site = site_of(1);
    for (uint64_t second = 1; second <= 100; second++)
        cushim_site_add(site, MEAN, MEAN, (second > 50 ? 1000 + second : second) * SECOND);
    ck_assert(told((uint64_t)1101 * SECOND).grows);
}

TEST(who_gives_back_or_came_at_once_does_not_grow) {
    struct cushim_page_site *site = site_of(1);
    for (unsigned i = 0; i < 100; i++)
        cushim_site_add(site, MEAN, MEAN, SECOND);
    ck_assert(!told((uint64_t)100 * SECOND).grows);
    for (uint64_t second = 2; second <= 100; second++) {
        cushim_site_add(site, MEAN, MEAN, second * SECOND);
        cushim_site_subtract(site, MEAN, MEAN, second * SECOND);
    }
    ck_assert(!told((uint64_t)101 * SECOND).grows);
}

TEST(a_full_table_has_no_row_for_another) {
    for (uint64_t key = 1; key <= CUSHIM_PAGE_SITES; key++)
        site_of(key);
    ck_assert_ptr_eq(cushim_site_find(&sites, 5), site_of(5));
    ck_assert_ptr_null(cushim_site_find(&sites, CUSHIM_PAGE_SITES + 1));
}

TEST(any_bytes_are_told) {
    report.sites = &sites;
    memset(&sites, 0xff, sizeof sites);
    for (unsigned i = 0; i < CUSHIM_PAGE_SITES; i++)
        sites.rows[i].n_frames = i < 12 ? UINT64_MAX : 0;
    report.page.head.sample_bytes = UINT64_MAX;
    report.run_ns = UINT64_MAX;
    char *text = full_page_written(cushim_site_text, &report);
    ck_assert_ptr_nonnull(strstr(text, "site 10"));
    ck_assert_ptr_nonnull(strstr(text, "  and 1014 sites more"));
    full_page_written(cushim_site_json, &report);
    report.sites = NULL;
    ck_assert_str_eq(full_page_written(cushim_site_text, &report), "");
    ck_assert_str_eq(full_page_written(cushim_site_json, &report), "");
}

SUITE() {
    return tests_run("site");
}
