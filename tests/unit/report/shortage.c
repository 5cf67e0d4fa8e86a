/* The report of a shortage: the advice follows from the numbers, and whatever these are, the output
 * is text.
 */
#include "report/shortage.h"

#include "report/page_ring.h"
#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static const uint64_t GIB = (uint64_t)1 << 30;
static struct cushim_report report;

static struct cushim_page_shortage some(void) {
    struct cushim_page_shortage shortage = {.asked_bytes = 4 * GIB,
                                            .device_bytes = 80 * GIB,
                                            .held_bytes = 60 * GIB,
                                            .live_bytes = 50 * GIB,
                                            .spare_bytes = 10 * GIB,
                                            .largest_free_bytes = GIB,
                                            .n_frames = 1};
    shortage.blocks[0].n = 50;
    shortage.blocks[0].n_bytes = GIB;
    shortage.frames[0] = (struct cushim_page_frame){0x1234, "/usr/bin/train", "load_all"};
    return shortage;
}

static const struct cushim_page_shortage *told;
static bool is_live;
static cushim_report_find_line_fn *find_line;

static void put_told(struct cushim_writer *out, const struct cushim_report *unused) {
    (void)unused;
    cushim_shortage_text(out, 3, told, &report.page.head, is_live, find_line);
}

/* An option that its process was started with; NULL: none. */
static void set_option(const char *option) {
    report.page.head.n_option_bytes = option ? strlen(option) + 1 : 0;
    strcpy(report.page.head.options, option ? option : "");
}

static const char *text_of(const struct cushim_page_shortage *shortage) {
    told = shortage;
    return full_page_written(put_told, &report);
}

static bool find(const struct cushim_page_frame *frame, char function[CUSHIM_REPORT_LINE_BYTES],
                 char line[CUSHIM_REPORT_LINE_BYTES]) {
    snprintf(function, CUSHIM_REPORT_LINE_BYTES, "in_%s", frame->function);
    snprintf(line, CUSHIM_REPORT_LINE_BYTES, "train.c:57");
    return true;
}

TEST(it_says_what_there_was_and_who_asked) {
    struct cushim_page_shortage shortage = some();
    ck_assert_str_eq(
        text_of(&shortage),
        "out of memory #3: 4.00 GiB of device memory for device 0\n"
        "  device     80.0 GiB\n"
        "  held       60.0 GiB = live 50.0 GiB + rounding 0 B\n"
        "             + spare 10.0 GiB + idle 0 B\n"
        "  not live   in use by the GPU 0 B, in caches 0 B, largest 1.00 GiB\n"
        "  tried      waited for the GPU; caches gave 0 B,\n"
        "             segments 0 B, other pools 0 B\n"
        "  biggest    50 x 1.00 GiB (live blocks)\n"
        "  asked at   load_all  train+0x1234\n"
        "  advice     10.0 GiB are free in pieces of at most 1.00 GiB, live blocks between\n"
        "             them: allocate what stays before what goes\n");
    find_line = find;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "  asked at   in_load_all  train.c:57\n"));
    find_line = NULL;
}

TEST(what_helps_follows_from_the_numbers) {
    struct cushim_page_shortage shortage = some();
    ck_assert_ptr_null(strstr(text_of(&shortage), "  shared "));
    shortage.retired_bytes = 6 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "  shared     6.00 GiB were freed and serve"));
    ck_assert_ptr_nonnull(
        strstr(text_of(&shortage), "6.00 GiB were freed, but other processes have their IPC"));
    shortage.retired_bytes = 4 * GIB; /* of 10 that are free: the pieces are to blame */
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "10.0 GiB are free in pieces"));
    shortage.retired_bytes = 0;
    shortage.spare_bytes = 0;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "the driver did not say what takes the rest"));
    shortage.is_busy = 1;
    shortage.pending_bytes = 5 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "5.00 GiB were freed while the GPU worked"));
    shortage.rounding_bytes = 27 * GIB; /* of 80, with 50 that live and 4 asked for */
    ck_assert_ptr_nonnull(strstr(text_of(&shortage),
                                 "50.0 GiB are live and 27.0 GiB round them up: free some\n"
                                 "             of it first; `biggest` says what it is\n"));
    uint64_t n = shortage.blocks[0].n;
    shortage.blocks[0].n = 0; /* and no line `biggest` */
    ck_assert_ptr_null(strstr(text_of(&shortage), "`biggest`"));
    shortage.blocks[0].n = n;
    shortage.live_bytes = 78 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "78.0 GiB are live, so it cannot fit"));
    shortage.asked_bytes = 90 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "the device has less than that in all:"));
    ck_assert_ptr_null(strstr(text_of(&shortage), "spilled"));
    set_option("spill=128M");
    shortage.spilled_bytes = 96 << 20;
    ck_assert_ptr_nonnull(
        strstr(text_of(&shortage), "  spilled    96.0 MiB of --spill=128M lie in host memory\n"));
    set_option(NULL);
    shortage.kind = CUSHIM_KIND_PINNED;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "the host had no memory to pin"));
}

TEST(a_limit_that_refuses_names_what_lives_and_how_it_is_raised) {
    struct cushim_page_shortage shortage = some();
    shortage.limit_bytes = 52 * GIB; /* 50 live, and 4 were asked for */
    ck_assert_ptr_nonnull(
        strstr(text_of(&shortage),
               "  advice     --limit allows 52.0 GiB, and 50.0 GiB are live: free some first\n"
               "             (`biggest` says what it is), or raise --limit\n"));
    report.page.head.process = 4711;
    is_live = true;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), ", or raise --limit, while it runs by\n"
                                                     "             `cushim limit 4711 SIZE`\n"));
    shortage.blocks[0].n = 0;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "live: free some first,\n"
                                                     "             or raise --limit, while it"));
    set_option("limit-group=team");
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "`cushim limit team SIZE`\n"));
    shortage.live_bytes = 4 * GIB;
    shortage.group_bytes = 45 * GIB; /* with what others have it is too much */
    ck_assert_ptr_nonnull(strstr(
        text_of(&shortage), "--limit allows its group 52.0 GiB, of which others have 45.0 GiB:\n"
                            "             free some first, or raise --limit, while it runs by\n"));
    set_option("limit-group=\x1b[31m"); /* of a page that others wrote */
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "`cushim limit ?[31m SIZE`\n"));
    set_option(NULL);
    is_live = false;
    shortage.asked_bytes = 60 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage),
                                 "--limit allows 52.0 GiB in all: ask for less at a time,\n"
                                 "             or raise --limit\n"));
    shortage.device_bytes = shortage.limit_bytes;
    shortage.total_bytes = 59 * GIB; /* no limit would do */
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "  advice     the device has less than that"));
}

/* What the driver said at that moment is taken apart, and nothing else is. */
TEST(the_device_is_split_as_it_was_measured) {
    struct cushim_page_shortage shortage = some();
    shortage.total_bytes = 80 * GIB;
    shortage.free_bytes = GIB;
    shortage.plain_bytes = 60 * GIB;
    ck_assert_ptr_nonnull(
        strstr(text_of(&shortage),
               "  device     80.0 GiB = cudaMalloc 60.0 GiB + other 19.0 GiB + free 1.00 GiB\n"));
    shortage.spare_bytes = 0;
    ck_assert_ptr_nonnull(
        strstr(text_of(&shortage), "50.0 GiB are live, and 19.0 GiB of the device are contexts"));
    shortage.live_bytes = 18 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "19.0 GiB of the device are contexts and"));
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "nvidia-smi shows them"));
    shortage.others[0] = (struct cushim_page_other){4711, 8 * GIB, "train"};
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "  others     8.00 GiB held by train, process "
                                                     "4711\n"));
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "`others` has the largest"));
    shortage.live_bytes = 50 * GIB;
    shortage.async_bytes = 3 * GIB;
    shortage.pools_bytes = 1 * GIB;
    shortage.mapped_bytes = 8 * GIB;
    shortage.array_bytes = GIB / 2;
    ck_assert_ptr_nonnull(strstr(
        text_of(&shortage),
        "  device     80.0 GiB = cudaMalloc 60.0 GiB + async 2.00 GiB + pools keep 1.00 GiB\n"
        "             + mapped 8.00 GiB + array 512 MiB + other 7.50 GiB\n"
        "             + free 1.00 GiB\n"));
    shortage.asked_bytes = 20 * GIB; /* with 50 + 2 + 8 + 0.5 that live */
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "60.5 GiB are live, so it cannot fit"));
    shortage.asked_bytes = GIB;
    shortage.free_bytes = GIB / 2;
    ck_assert_ptr_nonnull(
        strstr(text_of(&shortage), "1.00 GiB are in the driver's pools and not "));
    shortage.free_bytes = GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "1.00 GiB are free by the driver's word"));
    shortage.limit_bytes = 70 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "--limit allows 70.0 GiB, and"));
    shortage.free_bytes = 90 * GIB; /* of a damaged page */
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "other 0 B"));
}

TEST(what_the_driver_was_asked_for_was_tried_nowhere_else) {
    struct cushim_page_shortage shortage = some();
    shortage.is_native = 1;
    shortage.kind = CUSHIM_KIND_MAPPED;
    shortage.blocks[0].n = 0;
    const char *text = text_of(&shortage);
    ck_assert_ptr_nonnull(strstr(text, "out of memory #3: 4.00 GiB of mapped memory"));
    ck_assert_ptr_null(strstr(text, "  tried "));
    ck_assert_ptr_null(strstr(text, "  not live "));
    ck_assert_ptr_null(strstr(text, "free in pieces")); /* of pools, which do not serve it */
    shortage.mapped_bytes = 30 * GIB;
    ck_assert_ptr_nonnull(strstr(text_of(&shortage), "free some of it first\n"));
    ck_assert_ptr_null(strstr(text_of(&shortage), "`biggest`"));
}

TEST(any_page_gives_text_and_whole_json) {
    uint64_t seed = 11;
    for (unsigned k = 0; k < suite_steps(300); k++) {
        atomic_uint_fast64_t *words = &report.page.shortages[0][0];
        for (size_t i = 0; i < sizeof report.page.shortages / sizeof *words; i++)
            atomic_store(&words[i], suite_random(&seed) >> (k % 3 * 16));
        for (unsigned i = 0; i < CUSHIM_PAGE_SHORTAGES; i++)
            report.page.shortages[i][0] =
                report.page.shortages[i][CUSHIM_PAGE_ROW(cushim_page_shortage) - 1] = i + 1;
        report.page.n_shortages = CUSHIM_PAGE_SHORTAGES;
        char *text = full_page_written(cushim_report_text, &report), *rest;
        ck_assert_ptr_nonnull(strstr(text, "out of memory #8"));
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            if (!strstr(line, "+0x"))
                ck_assert_msg(k % 3 == 0 || strlen(line) <= 160, "%zu: %s", strlen(line), line);
            ck_assert_ptr_null(strchr(line, '\x1b'));
        }
        ck_assert_ptr_nonnull(strstr(full_page_written(cushim_shortage_json, &report), "\n    {"));
    }
}

SUITE() {
    return tests_run("shortage");
}
