/* Frames as text, with a line if it is known.  Whatever bytes are in them, the output is text. */
#include "report/frame.h"

#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static struct cushim_report report;
static struct cushim_page_frame frames[2] = {{0x1234, "/usr/bin/train", "load_all"},
                                             {0x20, "/lib/libc.so.6", ""}},
                                python = {CUSHIM_PAGE_PYTHON | 12, "/srv/train.py", "step"};
static cushim_report_find_line_fn *find_line;

static bool find(const struct cushim_page_frame *frame, char function[CUSHIM_REPORT_LINE_BYTES],
                 char line[CUSHIM_REPORT_LINE_BYTES]) {
    snprintf(function, CUSHIM_REPORT_LINE_BYTES, "in_%s", frame->function);
    snprintf(line, CUSHIM_REPORT_LINE_BYTES, "%s", *frame->function ? "train.c:57" : "");
    return *line;
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

TEST(a_frame_is_a_name_and_an_offset) {
    ck_assert_str_eq(full_page_written(put_text, &report), "  asked at   load_all  train+0x1234\n"
                                                           "             libc.so.6+0x20\n");
    ck_assert_str_eq(full_page_written(put_json, &report),
                     "[\n      {\"file\": \"/usr/bin/train\", \"offset\": 4660, \"function\": "
                     "\"load_all\"}][\"load_all  train+0x1234\", \"libc.so.6+0x20\"]");
}

TEST(a_frame_has_its_line_where_somebody_knows_it) {
    find_line = find;
    ck_assert_str_eq(full_page_written(put_text, &report),
                     "  asked at   in_load_all  train.c:57\n"
                     "             in_  libc.so.6+0x20\n"); /* a function without a line */
    ck_assert_str_eq(full_page_written(put_json, &report),
                     "[\n      {\"file\": \"/usr/bin/train\", \"offset\": 4660, \"function\": "
                     "\"in_load_all\", \"line\": \"train.c:57\"}][\"in_load_all  train.c:57\", "
                     "\"in_  libc.so.6+0x20\"]");
    struct cushim_page_frame before = frames[1];
    frames[1] = python; /* knows its line itself */
    ck_assert_str_eq(full_page_written(put_text, &report), "  asked at   in_load_all  train.c:57\n"
                                                           "             step  train.py:12\n");
    frames[1] = before;
}

static void put_command(struct cushim_writer *out, const struct cushim_report *unused) {
    (void)unused;
    cushim_frame_command(out, frames, 2);
}

TEST(a_command_names_the_lines_of_each_file_of_the_program) {
    struct cushim_page_frame before[2] = {frames[0], frames[1]};
    ck_assert_str_eq(full_page_written(put_command, &report),
                     "  lines by   addr2line -Cfpie '/usr/bin/train' 0x1233\n"); /* no libc's */
    frames[1] = (struct cushim_page_frame){0x2000, "/usr/bin/train", "main"};
    ck_assert_str_eq(full_page_written(put_command, &report),
                     "  lines by   addr2line -Cfpie '/usr/bin/train' 0x1233 0x1fff\n");
    frames[1] = (struct cushim_page_frame){0x2000, "/opt/layers.so", "add"};
    ck_assert_str_eq(full_page_written(put_command, &report),
                     "  lines by   addr2line -Cfpie '/usr/bin/train' 0x1233\n"
                     "             addr2line -Cfpie '/opt/layers.so' 0x1fff\n");
    frames[1] = python; /* its line is told already */
    ck_assert_str_eq(full_page_written(put_command, &report),
                     "  lines by   addr2line -Cfpie '/usr/bin/train' 0x1233\n");
    const char *const unusable[] = {"", "train", "/it's", "/opt/libtorch.so"};
    for (int i = 0; i < 4; i++) {
        strcpy(frames[0].file, unusable[i]);
        ck_assert_str_eq(full_page_written(put_command, &report), "");
    }
    memset(frames[0].file, '/', sizeof frames[0].file - 1); /* the end of a longer one */
    ck_assert_str_eq(full_page_written(put_command, &report), "");
    frames[0] = before[0];
    frames[1] = before[1];
}

/* The less space there is, the less is written; the function's name is kept longest. */
TEST(a_long_name_keeps_the_function) {
    static const struct {
        const char *name, *shown;
        size_t columns;
    } rows[] = {
        {"load_all", "load_all", 8},
        {"void ns::Layer<float, 3>::forward(unsigned long)",
         "void ns::Layer<float, 3>::forward(unsigned long)", 48},
        {"void ns::Layer<float, 3>::forward(unsigned long)",
         "void ns::Layer<float, 3>::forward(...)", 47},
        {"void ns::Layer<float, 3>::forward(unsigned long)", "ns::Layer<float, 3>::forward(...)",
         37},
        {"void ns::Layer<float, 3>::forward(unsigned long)", "ns::Layer<...>::forward(...)", 32},
        {"void ns::Layer<float, 3>::forward(unsigned long)", "ns::Layer<...>::forward", 27},
        {"void ns::Layer<float, 3>::forward(unsigned long)", "...::forward", 20},
        {"ns::Map<Key<int>, std::less<int> >::find(Key<int> const&) const",
         "ns::Map<...>::find(...) const", 40},
        {"ns::Map<Key<int>, std::less<int> >::find(Key<int> const&) const", "ns::Map<...>::find",
         20},
        {"run(Args)::{lambda(int, int)#1}::operator()(int, int) const", "...::operator()", 20},
        {"std::ostream& operator<< <char>(std::ostream&, char const*)",
         "std::ostream& operator<< <char>(...)", 40},
        {"void (anonymous namespace)::hold(std::vector<int> const&)",
         "(anonymous namespace)::hold(...)", 34},
        {"ns::Ptr<ns::A>::operator->() const", "ns::Ptr<...>::operator->", 30},
        {"a_function_of_c_with_a_long_name", "...h_a_long_name", 16},
        {"libtorch_cuda_linalg.so+0x1234", "...alg.so+0x1234", 16},
        {"cut<in<the", "...in<the", 9},
        {"\xc3\xa4\xc3\xb6\xc3\xbc", "...\xc3\xbc", 5},
        {"\xc3\xa4\xc3\xb6\xc3\xbc", "...", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[80];
        strcpy(name, rows[i].name);
        cushim_frame_shorten(name, rows[i].columns);
        ck_assert_str_eq(name, rows[i].shown);
    }
}

TEST(whatever_a_name_is_it_becomes_as_short_as_wanted) {
    static const char signs[] = "<>()[]{}:-operator ";
    unsigned seed = 1;
    for (unsigned i = 0; i < suite_steps(20000); i++) {
        char name[64];
        size_t n = (size_t)rand_r(&seed) % (sizeof name - 1), most = 4 + n / 2;
        for (size_t k = 0; k < n; k++)
            name[k] = signs[(size_t)rand_r(&seed) % (sizeof signs - 1)];
        name[n] = 0;
        cushim_frame_shorten(name, most);
        ck_assert_uint_le(strlen(name), most);
    }
}

TEST(a_line_of_a_report_has_80_columns) {
    static struct cushim_page_frame long_frame = {
        0x1234, "/opt/a_folder_of_mine/libsomething_with_a_very_long_name_indeed.so", ""};
    memset(long_frame.function, 'f', sizeof long_frame.function - 1);
    struct cushim_page_frame saved = frames[0];
    find_line = NULL;
    frames[0] = long_frame;
    const char *text = full_page_written(put_text, &report);
    ck_assert_uint_eq(strcspn(text, "\n"), 80);
    ck_assert_ptr_nonnull(strstr(text, "_indeed.so+0x1234\n"));
    frames[0] = saved;
}

TEST(any_bytes_are_a_name) {
    memset(frames, 0xfe, sizeof frames);
    cushim_frame_clean(frames, 2);
    ck_assert_uint_eq(strspn(frames[1].file, "?"), sizeof frames[1].file - 1);
    ck_assert_uint_eq(strspn(frames[1].function, "?"), sizeof frames[1].function - 1);
}

SUITE() {
    return tests_run("frame");
}
