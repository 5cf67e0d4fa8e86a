/* Advice follows from counters: it is given at its border, not below, and has them as evidence. */
#include "report/advice.h"

#include "report/site.h"

#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static const uint64_t GIB = (uint64_t)1 << 30, SECOND = 1000000000;
static struct cushim_report report;
static struct cushim_advice given[CUSHIM_ADVICE_MOST];

static struct cushim_mem_stats *stats(enum cushim_kind kind) {
    return &report.page.stats[1][kind];
}

/* Is only this advice given, with this first evidence? */
static bool is_given(const char *id, uint64_t evidence) {
    memset(given, 0, sizeof given);
    return cushim_advice_give(&report, given) == 1 && strcmp(given[0].id, id) == 0 &&
           given[0].evidence[0].value == evidence;
}

static bool is_none(void) {
    return cushim_advice_give(&report, given) == 0;
}

/* Set, and no other one: a name that begins alike stands before it. */
static void set_option(const char *option) {
    struct cushim_page_head *head = &report.page.head;
    size_t n = strlen(option) + 1;
    memcpy(head->options, "keepsake=x", 11);
    memcpy(head->options + 11, option, n);
    head->n_option_bytes = 11 + n;
}

TEST(refused_calls_are_what_the_check_says_more_of) {
    report.page.n_findings = 2;
    ck_assert(is_given("refused", 2));
    ck_assert_str_eq(
        given[0].text,
        "2 calls were refused: --check names who allocated and who freed their blocks");
    set_option("check=frees");
    ck_assert(is_none());
}

TEST(nothing_counted_is_no_advice) {
    ck_assert(is_none());
    ck_assert_str_eq(full_page_written(cushim_advice_text, &report), "");
    ck_assert_str_eq(full_page_written(cushim_advice_json, &report), "\n  \"advice\": []");
}

TEST(waits_of_a_hundredth_are_worth_a_word_where_frees_are_exact) {
    report.run_ns = 5 * SECOND;
    stats(CUSHIM_KIND_DEVICE)->n_waits = 100;
    stats(CUSHIM_KIND_DEVICE)->wait_ns = SECOND / 20;
    ck_assert(is_given("waits", 100));
    stats(CUSHIM_KIND_DEVICE)->wait_ns--;
    ck_assert(is_none());
    stats(CUSHIM_KIND_DEVICE)->wait_ns++;
    stats(CUSHIM_KIND_DEVICE)->n_waits--;
    ck_assert(is_none());
    stats(CUSHIM_KIND_DEVICE)->n_waits++;
    report.page.head.is_relaxed = 1;
    ck_assert(is_none());
}

TEST(a_gibibyte_of_idle_memory_is_worth_a_word_where_another_process_found_none) {
    stats(CUSHIM_KIND_DEVICE)->held_bytes = stats(CUSHIM_KIND_DEVICE)->free_segment_bytes = GIB;
    ck_assert(is_none());
    report.n_short = 2;
    ck_assert(is_given("idle", GIB));
    ck_assert_ptr_nonnull(strstr(given[0].text, "2 other processes found no memory"));
    ck_assert_ptr_nonnull(strstr(given[0].text, "a smaller --keep"));
    set_option("keep=1G");
    ck_assert(is_given("idle", GIB) && strstr(given[0].text, "a smaller --keep"));
    set_option("keep=0");
    ck_assert(is_given("idle", GIB) && !strstr(given[0].text, "--keep"));
    stats(CUSHIM_KIND_DEVICE)->free_segment_bytes--;
    ck_assert(is_none());
}

TEST(large_copies_of_a_hundredth_may_be_staged_where_none_was) {
    report.run_ns = 10 * SECOND;
    report.page.copies.large[CUSHIM_COPY_BY_DRIVER][0].ns = SECOND / 10;
    ck_assert(is_given("staging", SECOND / 10));
    set_option("copy-stage=on");
    ck_assert(is_none());
    set_option("copy-stage-min=1M");
    ck_assert(is_given("staging", SECOND / 10));
    report.page.copies.large[CUSHIM_COPY_BY_DRIVER][0].ns--;
    ck_assert(is_none());
    report.page.copies.large[CUSHIM_COPY_BY_DRIVER][1].ns = SECOND;
    ck_assert(is_given("staging", SECOND + SECOND / 10 - 1));
    report.page.copies.n_left[CUSHIM_COPY_REASON_PLACE] = 1;
    ck_assert(is_none());
}

TEST(pageable_copies_are_named_from_1_GiB_and_a_tenth) {
    report.page.copies.n_copies[CUSHIM_DEVICE_TO_HOST][CUSHIM_HOST_PAGEABLE] = 7;
    report.page.copies.n_bytes[CUSHIM_DEVICE_TO_HOST][CUSHIM_HOST_PAGEABLE] = GIB;
    report.page.copies.n_bytes[CUSHIM_HOST_TO_DEVICE][CUSHIM_HOST_PINNED] = 9 * GIB;
    ck_assert(is_given("pageable", 7));
    report.page.copies.n_bytes[CUSHIM_HOST_TO_DEVICE][CUSHIM_HOST_PINNED]++;
    ck_assert(is_none());
    report.page.copies.n_bytes[CUSHIM_HOST_TO_DEVICE][CUSHIM_HOST_PINNED] = 0;
    report.page.copies.n_bytes[CUSHIM_DEVICE_TO_HOST][CUSHIM_HOST_PAGEABLE]--;
    ck_assert(is_none());
}

TEST(driver_calls_are_named_where_they_are_many_and_take_time) {
    report.run_ns = SECOND;
    stats(CUSHIM_KIND_DEVICE)->n_requests = 1000;
    stats(CUSHIM_KIND_DEVICE)->n_misses = 50;
    stats(CUSHIM_KIND_DEVICE)->native_alloc_ns = SECOND / 100;
    ck_assert(is_given("growth", 50));
    stats(CUSHIM_KIND_DEVICE)->n_misses--;
    ck_assert(is_none());
}

TEST(what_the_driver_serves_is_named_from_a_half) {
    stats(CUSHIM_KIND_MAPPED)->requested_bytes = GIB;
    stats(CUSHIM_KIND_DEVICE)->requested_bytes = 2 * GIB;
    stats(CUSHIM_KIND_ASYNC)->requested_bytes = GIB;
    ck_assert(is_given("forwarded", 2 * GIB));
    ck_assert_ptr_null(strstr(given[0].text, "--async-keep"));
    set_option("async-keep=0");
    ck_assert(is_given("forwarded", 2 * GIB));
    ck_assert_ptr_nonnull(strstr(given[0].text, "--async-keep=auto"));
    stats(CUSHIM_KIND_DEVICE)->requested_bytes++;
    ck_assert(is_none());
    stats(CUSHIM_KIND_DEVICE)->requested_bytes = 0;
    stats(CUSHIM_KIND_MAPPED)->n_requests = 8;
    stats(CUSHIM_KIND_MAPPED)->n_hits = 6; /* which the driver did not serve */
    ck_assert(is_given("forwarded", GIB + GIB / 4));
}

TEST(memory_beside_live_blocks_is_named_from_512_MiB_and_a_quarter) {
    stats(CUSHIM_KIND_DEVICE)->held_bytes = 2 * GIB;
    stats(CUSHIM_KIND_DEVICE)->live_bytes = GIB;
    stats(CUSHIM_KIND_DEVICE)->block_bytes = GIB;
    stats(CUSHIM_KIND_DEVICE)->free_segment_bytes = GIB / 2;
    ck_assert(is_given("holes", GIB / 2));
    stats(CUSHIM_KIND_DEVICE)->free_segment_bytes++;
    ck_assert(is_none());
    stats(CUSHIM_KIND_DEVICE)->free_segment_bytes = 0;
    stats(CUSHIM_KIND_DEVICE)->held_bytes = 4 * GIB;
    stats(CUSHIM_KIND_DEVICE)->live_bytes = 3 * GIB + 1;
    stats(CUSHIM_KIND_DEVICE)->block_bytes = 3 * GIB + 1;
    ck_assert(is_none());
}

TEST(frees_of_memory_that_nobody_saw_are_named_unless_the_driver_knew_it) {
    report.page.n_foreign_frees = 3;
    ck_assert(is_none()); /* no pool: it may have been freed before */
    stats(CUSHIM_KIND_DEVICE)->n_hits = 1;
    ck_assert(is_given("foreign", 3));
    report.page.n_bypassed = 3;
    ck_assert(is_given("bypassed", 3));
}

TEST(places_that_grow_are_named) {
    static struct cushim_page_sites sites;
    enum { MEAN = 1000, STEPS = 64 };
    struct cushim_page_site *site = cushim_site_find(&sites, 7);
    report.page.head.sample_bytes = MEAN;
    report.run_ns = STEPS * SECOND / 100; /* too short for other advice */
    report.sites = &sites;
    site->key = 7;
    for (unsigned i = 1; i <= STEPS; i++)
        cushim_site_add(site, MEAN, 2 * MEAN, i * SECOND / 100);
    ck_assert(is_given("leak", 1));
    ck_assert_uint_eq(given[0].evidence[1].value, STEPS);
    ck_assert_uint_eq(given[0].evidence[2].value, STEPS * 2 * MEAN);
    cushim_site_subtract(site, MEAN, 2 * MEAN * (STEPS - 1), STEPS * SECOND / 100);
    ck_assert(is_none());
}

TEST(few_requests_in_a_long_run_have_little_to_save) {
    report.run_ns = 20 * SECOND;
    stats(CUSHIM_KIND_DEVICE)->n_requests = 199;
    ck_assert(is_given("few", 199));
    stats(CUSHIM_KIND_DEVICE)->n_requests = 200;
    ck_assert(is_none());
    stats(CUSHIM_KIND_DEVICE)->n_requests = 1;
    report.run_ns = 10 * SECOND - 1;
    ck_assert(is_none());
}

TEST(three_are_given_at_most_and_fit_80_columns) {
    const uint64_t numbers[] = {5, (uint64_t)1 << 40, UINT64_MAX};
    for (unsigned i = 0; i < 3; i++) {
        full_page(&report, numbers[i]);
        report.page.head.is_relaxed = 0;
        ck_assert_uint_le(cushim_advice_give(&report, given), CUSHIM_ADVICE_MOST);
        ck_assert_str_eq(given[0].id, "bypassed");
        char *text = full_page_written(cushim_advice_text, &report), *rest;
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            ck_assert_msg(strlen(line) <= 80, "%zu: %s", strlen(line), line);
    }
}

SUITE() {
    return tests_run("advice");
}
