/* Findings of a page, with their stacks.  Whatever is in the page, the output is text. */
#include "report/finding.h"

#include "report/page_ring.h"
#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static struct cushim_report report;

static void findings_text(struct cushim_writer *out, const struct cushim_report *of) {
    cushim_finding_text(out, of);
}

static void enter(struct cushim_page_finding finding) {
    cushim_page_ring_put(CUSHIM_PAGE_RING(report.page.findings), &report.page.n_findings, &finding);
}

static struct cushim_page_finding some(void) {
    return (struct cushim_page_finding){.is_refusal = 1,
                                        .address = 4096,
                                        .n_bytes = 1000,
                                        .fault = "double free",
                                        .harm = "freed again",
                                        .call = "cuMemFree_v2",
                                        .text = "double free: of a block",
                                        .n_obtained = 1,
                                        .n_at = 1,
                                        .obtained = {{0x10, "/bin/train", "load"}},
                                        .at = {{0x20, "/bin/train", "drop"}}};
}

TEST(a_finding_is_told_with_its_stacks) {
    static const char option[] = "check=frees";
    enter(some());
    const char *text = full_page_written(findings_text, &report);
    ck_assert_ptr_null(strstr(text, "of the check"));
    strcpy(report.page.head.options, option);
    report.page.head.n_option_bytes = sizeof option;
    ck_assert_str_eq(full_page_written(findings_text, &report),
                     "finding: double free: of a block\n"
                     "  allocated  load  train+0x10\n"
                     "  called at  drop  train+0x20\n"
                     "finding: 1 finding of the check\n");
    const char *json = full_page_written(cushim_finding_json, &report);
    ck_assert_ptr_nonnull(
        strstr(json, "\"called_at\": [\"drop  train+0x20\"]}],\n  \"n_harms\": 1,"));
    ck_assert_ptr_nonnull(strstr(json, "\"offset\": 0, \"allocated\": [\"load  train+0x10\"]"));
}

TEST(damage_names_the_byte_and_the_call_that_found_it) {
    struct cushim_page_finding finding = some();
    finding.is_refusal = 0;
    finding.found = 0xdc;
    finding.offset = (uint64_t)-3;
    enter(finding);
    const char *json = full_page_written(cushim_finding_json, &report);
    ck_assert_ptr_nonnull(strstr(json, "\"found_by\": \"cuMemFree_v2\", \"found\": 220, "));
    ck_assert_ptr_nonnull(strstr(json, "\"offset\": -3,"));
    ck_assert_ptr_nonnull(strstr(full_page_written(findings_text, &report), "  found at   "));
}

TEST(any_page_gives_text) {
    uint64_t seed = 5;
    report.is_of_page = true;
    report.ended = "killed";
    atomic_store(&report.page.head.state, CUSHIM_PAGE_RUNNING);
    memset(report.page.made, 0xff, sizeof report.page.made);
    atomic_store(&report.page.stats[1][0].n_requests, 1);
    for (unsigned k = 0; k < suite_steps(100); k++) {
        struct cushim_page_finding finding;
        uint64_t *words = (uint64_t *)&finding;
        for (size_t i = 0; i < sizeof finding / 8; i++)
            words[i] = suite_random(&seed);
        enter(finding);
        const char *text = full_page_written(findings_text, &report);
        ck_assert_ptr_null(strchr(text, '\x1b'));
        ck_assert_ptr_nonnull(strstr(text, "finding"));
        ck_assert_ptr_nonnull(strstr(text, "stray context: "));
        ck_assert_ptr_null(strchr(full_page_written(cushim_finding_json, &report), '\x1b'));
    }
}

SUITE() {
    return tests_run("finding");
}
