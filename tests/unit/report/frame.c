/* Frames as text: with a line where somebody knows it; whatever bytes are in them. */
#include "report/frame.h"

#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static struct cushim_report report;
static struct cushim_page_frame frames[2] = {{0x1234, "/usr/bin/train", "load_all"},
                                             {0x20, "/lib/libc.so.6", ""}};
static cushim_report_find_line_fn *find_line;

static bool find(const struct cushim_page_frame *frame, char function[CUSHIM_REPORT_LINE_BYTES],
                 char line[CUSHIM_REPORT_LINE_BYTES]) {
    snprintf(function, CUSHIM_REPORT_LINE_BYTES, "in_%s", frame->function);
    snprintf(line, CUSHIM_REPORT_LINE_BYTES, "train.c:57");
    return *frame->function;
}

static void put_text(struct cushim_writer *out, const struct cushim_report *unused) {
    (void)unused;
    cushim_frame_text(out, "asked at", frames, 2, find_line);
}

static void put_json(struct cushim_writer *out, const struct cushim_report *unused) {
    (void)unused;
    cushim_frame_json(out, frames, 1, find_line);
    cushim_frame_json_texts(out, frames, 2, find_line);
}

START_TEST(a_frame_is_a_name_and_an_offset) {
    ck_assert_str_eq(full_page_written(put_text, &report), "  asked at   load_all  train+0x1234\n"
                                                           "             libc.so.6+0x20\n");
    ck_assert_str_eq(full_page_written(put_json, &report),
                     "[\n      {\"file\": \"/usr/bin/train\", \"offset\": 4660, \"function\": "
                     "\"load_all\"}][\"load_all  train+0x1234\", \"libc.so.6+0x20\"]");
}
END_TEST

START_TEST(a_frame_has_its_line_where_somebody_knows_it) {
    find_line = find;
    ck_assert_str_eq(full_page_written(put_text, &report), "  asked at   in_load_all  train.c:57\n"
                                                           "             libc.so.6+0x20\n");
    ck_assert_str_eq(full_page_written(put_json, &report),
                     "[\n      {\"file\": \"/usr/bin/train\", \"offset\": 4660, \"function\": "
                     "\"in_load_all\", \"line\": \"train.c:57\"}][\"in_load_all  train.c:57\", "
                     "\"libc.so.6+0x20\"]");
}
END_TEST

START_TEST(any_bytes_are_a_name) {
    memset(frames, 0xfe, sizeof frames);
    cushim_frame_clean(frames, 2);
    ck_assert_uint_eq(strspn(frames[1].file, "?"), sizeof frames[1].file - 1);
    ck_assert_uint_eq(strspn(frames[1].function, "?"), sizeof frames[1].function - 1);
}
END_TEST

SUITE() {
    return suite_run("frame", (const TTest *[]){a_frame_is_a_name_and_an_offset,
                                                a_frame_has_its_line_where_somebody_knows_it,
                                                any_bytes_are_a_name, NULL});
}
