/* Large pageable copies in a report: whether cushim or the driver moved them, how fast, and what
 * may help. */
#include "report/large_copies.h"
#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static struct cushim_report report;

static void count(enum cushim_copy_path path, int back, uint64_t n, uint64_t n_bytes, uint64_t ns) {
    atomic_store(&report.page.copies.large[path][back].n_copies, n);
    atomic_store(&report.page.copies.large[path][back].n_bytes, n_bytes);
    atomic_store(&report.page.copies.large[path][back].ns, ns);
}

TEST(a_report_without_large_copies_says_nothing_of_them) {
    ck_assert_str_eq(full_page_written(cushim_large_copies_text, &report), "");
}

TEST(where_staging_is_off_what_the_driver_took_is_told) {
    report.run_ns = 1000000000;
    count(CUSHIM_COPY_BY_DRIVER, 0, 2, 1 << 30, 100000000);
    ck_assert_str_eq(full_page_written(cushim_large_copies_text, &report),
                     "\npageable        large ones      copies     bytes      time     GB/s\n"
                     "  to device  by the driver           2  1.00 GiB    100 ms     10.7\n");
    atomic_store(&report.page.head.is_software, true);
    const char *text = full_page_written(cushim_large_copies_text, &report);
    ck_assert_msg(strstr(text, "     GB/s (no GPU)\n"), "%s", text);
}

TEST(who_was_not_staged_has_a_reason) {
    report.run_ns = 1;
    count(CUSHIM_COPY_BY_DRIVER, 0, 1, 1 << 30, 100000000);
    count(CUSHIM_COPY_STAGED, 1, 3, 1 << 30, 50000000);
    atomic_store(&report.page.copies.n_left[CUSHIM_COPY_REASON_STREAM], 1);
    ck_assert_str_eq(
        full_page_written(cushim_large_copies_text, &report),
        "\npageable        large ones      copies     bytes      time     GB/s\n"
        "  to device  by the driver           1  1.00 GiB    100 ms     10.7\n"
        "  to host           staged           3  1.00 GiB   50.0 ms     21.5\n"
        "  not staged             1  its stream was busy, and the driver need not wait\n");
    ck_assert_uint_eq(cushim_large_copies_unstaged_ns(&report), 0);
}

SUITE() {
    return tests_run("large_copies");
}
