/* A report of a page: sums, and the parts of held memory. */
#include "report/report.h"

#include "tests/unit/suite.h"

static struct cushim_report report;

static struct cushim_report_held held_of(uint64_t held, uint64_t live, uint64_t block,
                                         uint64_t idle) {
    struct cushim_mem_stats stats = {
        .held_bytes = held, .live_bytes = live, .block_bytes = block, .free_segment_bytes = idle};
    return cushim_report_held(&stats);
}

static void check_sum(struct cushim_report_held held) {
    ck_assert_uint_eq(held.live_bytes + held.rounding_bytes + held.spare_bytes + held.idle_bytes,
                      held.held_bytes);
}

TEST(what_is_held_is_the_sum_of_its_parts) {
    struct cushim_report_held held = held_of(100, 30, 40, 20);
    ck_assert_uint_eq(held.live_bytes, 30);
    ck_assert_uint_eq(held.rounding_bytes, 10);
    ck_assert_uint_eq(held.idle_bytes, 20);
    ck_assert_uint_eq(held.spare_bytes, 40);
    check_sum(held);
}

/* Counters that were read while others wrote them. */
TEST(parts_that_do_not_fit_are_cut) {
    uint64_t seed = 1;
    for (unsigned i = 0; i < suite_steps(10000); i++) {
        uint64_t held = suite_random(&seed) % 100, live = suite_random(&seed) % 100;
        uint64_t block = suite_random(&seed) % 100, idle = suite_random(&seed) % 100;
        struct cushim_report_held parts = held_of(held, live, block, idle);
        check_sum(parts);
        ck_assert_uint_le(parts.live_bytes, live);
        ck_assert_uint_le(parts.idle_bytes, idle);
    }
}

TEST(a_device_is_there_where_anything_was_asked_for) {
    ck_assert(!cushim_report_has_device(&report, 3));
    report.page.stats[3][CUSHIM_KIND_MAPPED].n_requests = 1;
    ck_assert(cushim_report_has_device(&report, 3));
    ck_assert(!cushim_report_has(&report, 3, CUSHIM_KIND_DEVICE));
    report.page.stats[4][CUSHIM_KIND_PINNED].n_refused = 1;
    ck_assert(cushim_report_has(&report, 4, CUSHIM_KIND_PINNED));
    ck_assert(cushim_report_has_device(&report, 4));
}

TEST(sums_are_over_devices_and_kinds_and_three_kinds_are_on_no_device) {
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++)
            report.page.stats[device][kind].n_overruns = 1;
    }
    ck_assert_uint_eq(cushim_report_sum(&report, CUSHIM_KIND_ASYNC, n_overruns),
                      CUSHIM_MAX_DEVICES);
    ck_assert_uint_eq(cushim_report_sum_all(&report, n_overruns),
                      CUSHIM_MAX_DEVICES * CUSHIM_N_KINDS);
    ck_assert_uint_eq(cushim_report_sum_device(&report, 1, n_overruns), CUSHIM_N_KINDS - 3);
}

TEST(a_uuid_is_spelled_as_nvidia_smi_does) {
    unsigned char uuid[16] = {0};
    char text[CUSHIM_REPORT_UUID_BYTES];
    ck_assert_str_eq(cushim_report_uuid(text, uuid), "");
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(i * 17);
    ck_assert_str_eq(cushim_report_uuid(text, uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
}

SUITE() {
    return tests_run("report");
}
