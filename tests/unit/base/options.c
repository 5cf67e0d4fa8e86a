#include "base/options.h"

#include <unistd.h>

#include "base/log.h"
#include "tests/unit/base/stderr.h"
#include "tests/unit/suite.h"

static struct caught caught;
static struct cushim_options options;
static char phrase[CUSHIM_OPTION_PHRASE_BYTES];

static const struct cushim_option_row *row_of(const char *name) {
    const struct cushim_option_row *row = cushim_option_find(name, strlen(name));
    ck_assert_ptr_nonnull(row);
    return row;
}

static const char *set(const char *name, const char *value) {
    return cushim_option_set(&options, row_of(name), value, phrase);
}

/* The messages when the environment is exactly `entries`, which end with NULL. */
static const char *load(char **entries) {
    char **saved = environ;
    caught_begin(&caught);
    environ = entries;
    cushim_options_load(&options);
    environ = saved;
    caught_end(&caught);
    return caught.text;
}

static unsigned n_lines(const char *text) {
    unsigned n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

TEST(every_row_can_be_found_and_its_default_is_in_range) {
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    ck_assert_uint_gt(n_rows, 5);
    for (size_t i = 0; i < n_rows; i++) {
        ck_assert_ptr_eq(row_of(rows[i].name), &rows[i]);
        if (!rows[i].default_text) {
            ck_assert_uint_ge(rows[i].default_number, rows[i].min);
            ck_assert_uint_le(rows[i].default_number, rows[i].max);
        }
    }
    ck_assert_ptr_eq(cushim_option_find("LARGE", 5), row_of("large"));
    ck_assert_ptr_null(cushim_option_find("larg", 4));
    ck_assert_ptr_null(cushim_option_find("larger", 6));
    ck_assert_ptr_null(cushim_option_find("", 0));
}

static void assert_all_are_default(void) {
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    for (size_t i = 0; i < n_rows; i++)
        ck_assert_msg(!cushim_option_is_set(&options, &rows[i]), "%s", rows[i].name);
}

TEST(every_default_as_text_reads_as_itself) {
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        char text[CUSHIM_OPTION_TEXT_BYTES];
        cushim_options_default(&options);
        cushim_option_default_text(&rows[i], text);
        ck_assert_ptr_null(cushim_option_set(&options, &rows[i], text, phrase));
        assert_all_are_default();
    }
}

TEST(a_value_as_text_reads_as_itself) {
    const struct {
        const char *name, *value, *text;
    } values[] = {{"pool", "no", "off"},          {"large", "2097153", "2097153"},
                  {"large", "4096K", "4M"},       {"keep", "50%", "50%"},
                  {"keep", "65536k", "64M"},      {"keep", "0", "0"},
                  {"free", "RELAXED", "relaxed"}, {"stats", "a-%p.json", "a-%p.json"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[CUSHIM_OPTION_TEXT_BYTES];
        cushim_options_default(&options);
        ck_assert_ptr_null(set(values[i].name, values[i].value));
        ck_assert_str_eq(cushim_option_text(&options, row_of(values[i].name), text),
                         values[i].text);
    }
}

TEST(all_variables_but_the_first_have_the_prefix) {
    char text[CUSHIM_OPTION_TEXT_BYTES];
    cushim_option_variable(row_of("cushim"), text);
    ck_assert_str_eq(text, "CUSHIM");
    cushim_option_variable(row_of("large"), text);
    ck_assert_str_eq(text, "CUSHIM_LARGE");
}

TEST(a_switch_takes_eight_words_in_any_case) {
    static const char *const off[] = {"0", "false", "off", "no", "OFF", "False"};
    static const char *const on[] = {"1", "true", "on", "yes", "ON", "Yes"};
    static const char *const bad[] = {"", "2", "o", "onn", " on", "on ", "-1", "y"};
    for (size_t i = 0; i < 6; i++) {
        options.pool = true;
        ck_assert_ptr_null(set("pool", off[i]));
        ck_assert(!options.pool);
        ck_assert(cushim_option_is_off(off[i]));
        ck_assert_ptr_null(set("pool", on[i]));
        ck_assert(options.pool);
        ck_assert(!cushim_option_is_off(on[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_ptr_nonnull(set("pool", bad[i]));
        ck_assert(options.pool);
        ck_assert(!cushim_option_is_off(bad[i]));
    }
}

TEST(a_size_takes_K_M_G_and_T) {
    static const struct {
        const char *text;
        size_t n_bytes;
    } good[] = {{"2097152", 2097152},
                {"2048K", 2048u << 10},
                {"2048k", 2048u << 10},
                {"256M", 256u << 20},
                {"1G", 1u << 30},
                {"3t", (size_t)3 << 40},
                {"00000000004M", 4u << 20},
                {"18446744073709551615", SIZE_MAX},
                {"16777215T", (size_t)16777215 << 40}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(!set("large", good[i].text), "%s", good[i].text);
        ck_assert_uint_eq(options.large, good[i].n_bytes);
    }
}

TEST(a_size_that_cannot_be_read_leaves_the_field) {
    static const char *const bad[] = {"",
                                      "M",
                                      "-4M",
                                      "+4M",
                                      " 4M",
                                      "4 M",
                                      "0x400000",
                                      ".5M",
                                      "4.5",
                                      "4.M",
                                      "4.5.5M",
                                      "4MBB",
                                      "4Mi",
                                      "4iB",
                                      "4,5M",
                                      "1e9",
                                      "18446744073709551616",
                                      "16777216T",
                                      "99999999999999999999",
                                      "2097151",
                                      "1M",
                                      "0",
                                      "4P"};
    options.large = 12345;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(set("large", bad[i]) != NULL, "%s", bad[i]);
        ck_assert_uint_eq(options.large, 12345);
    }
    ck_assert_str_eq(set("large", "16777216T"), "is too large"); /* 2^64, which is not 0 */
}

TEST(an_amount_is_bytes_or_a_share_or_auto) {
    static const struct {
        const char *text;
        size_t number;
        bool is_percent;
    } good[] = {{"0", 0, false},           {"4G", (size_t)4 << 30, false},
                {"0%", 0, true},           {"50%", 50, true},
                {"007%", 7, true},         {"100%", 100, true},
                {"auto", SIZE_MAX, false}, {"AUTO", SIZE_MAX, false},
                {"off", 0, false}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(!set("keep", good[i].text), "%s", good[i].text);
        ck_assert_uint_eq(options.keep.number, good[i].number);
        ck_assert_int_eq(options.keep.is_percent, good[i].is_percent);
        ck_assert_int_eq(cushim_amount_is_auto(options.keep), good[i].number == SIZE_MAX);
    }
}

TEST(an_amount_that_cannot_be_read_leaves_the_field) {
    static const char *const bad[] = {"",     "%",     "101%", "-1%",  "5.5%", "1000%",
                                      " 50%", "50 %",  "5%%",  "50%x", "4Q",   "%50",
                                      "0x5%", "autos", "au",   "1K%",  "+5%",  "0100%"};
    options.keep = (struct cushim_amount){42, true};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(set("keep", bad[i]) != NULL, "%s", bad[i]);
        ck_assert_uint_eq(options.keep.number, 42);
        ck_assert(options.keep.is_percent);
        ck_assert_msg(set("limit", bad[i]) != NULL, "%s", bad[i]);
    }
}

TEST(limits_are_of_all_devices_or_of_those_that_are_named) {
    static const struct {
        const char *text;
        struct cushim_amount of[3]; /* the devices 0, 1 and 63 */
    } good[] = {{"0", {{0, false}, {0, false}, {0, false}}},
                {"25%", {{25, true}, {25, true}, {25, true}}},
                {"0:8K,1:50%", {{8192, false}, {50, true}, {SIZE_MAX, false}}},
                {"63:1K,0:2K", {{2048, false}, {SIZE_MAX, false}, {1024, false}}},
                {"1:0", {{SIZE_MAX, false}, {0, false}, {SIZE_MAX, false}}}};
    static const int devices[] = {0, 1, 63};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(!set("limit", good[i].text), "%s", good[i].text);
        ck_assert_str_eq(options.limit, good[i].text);
        for (int k = 0; k < 3; k++) {
            struct cushim_amount found = cushim_limits_of(options.limit, devices[k]);
            ck_assert_uint_eq(found.number, good[i].of[k].number);
            ck_assert_int_eq(found.is_percent, good[i].of[k].is_percent);
        }
    }
}

TEST(limits_that_cannot_be_read_are_told_and_leave_the_field) {
    static const struct {
        const char *text, *wrong;
    } bad[] = {
        {"0:", "is not a size such as 512M or 1.5G"},
        {":8G", "is not a list such as 0:8G,1:50%"},
        {"0:8G,", "is not a list such as 0:8G,1:50%"},
        {"0:8G,16G", "is not a list such as 0:8G,1:50%"},
        {"0:8G 1:8G", "is not a size such as 512M or 1.5G"},
        {"-1:8G", "is not a list such as 0:8G,1:50%"},
        {"64:8G", "is not a list such as 0:8G,1:50%"},
        {"99999999999999999999:8G", "is not a list such as 0:8G,1:50%"},
        {"0:8G,0:9G", "names a device twice"},
        {"0:101%", "is more than 100%"},
        {"8G,16G", "is not a size such as 512M or 1.5G"},
        {"auto", "is not a size such as 512M or 1.5G"},
        {"0:auto", "is not a size such as 512M or 1.5G"},
        {"0:8G,1:000000000000000000000000000000000000000000000000000000008G", "is too long"}};
    ck_assert_ptr_null(set("limit", "1:7G"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *wrong = set("limit", bad[i].text);
        ck_assert_msg(wrong && strcmp(wrong, bad[i].wrong) == 0, "%s: %s", bad[i].text, wrong);
        ck_assert_str_eq(options.limit, "1:7G");
    }
}

TEST(a_share_of_a_large_total_does_not_overflow) {
    struct cushim_amount third = {33, true}, all = {100, true}, bytes = {123, false};
    ck_assert_uint_eq(cushim_amount_bytes(bytes, 7), 123);
    ck_assert_uint_eq(cushim_amount_bytes(third, 1000), 330);
    ck_assert_uint_eq(cushim_amount_bytes(third, 10), 3);
    ck_assert_uint_eq(cushim_amount_bytes(all, SIZE_MAX), SIZE_MAX);
    ck_assert_uint_eq(cushim_amount_bytes(third, 0), 0);
}

TEST(the_default_of_an_amount_reads_as_a_user_would_write_it) {
    char text[CUSHIM_OPTION_TEXT_BYTES];
    cushim_option_default_text(row_of("keep"), text);
    ck_assert_str_eq(text, "auto");
    cushim_option_default_text(row_of("limit"), text);
    ck_assert_str_eq(text, "0");
}

TEST(a_word_is_stored_as_its_index) {
    static const char *const words[] = {"off", "error", "warn", "info", "debug"};
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_null(set("log", words[i]));
        ck_assert_int_eq(options.log, i);
    }
    ck_assert_ptr_null(set("log", "WARN"));
    ck_assert_int_eq(options.log, 2);
    ck_assert_ptr_nonnull(set("log", ""));
    ck_assert_ptr_nonnull(set("log", "warning"));
    ck_assert_ptr_nonnull(set("log", "war"));
    ck_assert_ptr_nonnull(set("log", "warn|info"));
    ck_assert_ptr_nonnull(set("log", "3"));
    ck_assert_int_eq(options.log, 2);
}

TEST(a_size_is_read_as_people_write_it) {
    static const struct {
        const char *text;
        size_t bytes;
    } sizes[] = {{"4194304", 4u << 20},        {"4194304B", 4u << 20},
                 {"512m", 512u << 20},         {"16G", (size_t)16 << 30},
                 {"16GB", (size_t)16 << 30},   {"16gib", (size_t)16 << 30},
                 {"1.5G", 1536u << 20},        {"1.5GiB", 1536u << 20},
                 {"0.25T", (size_t)256 << 30}, {"2.0000000009G", (size_t)2 << 30}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ck_assert_ptr_null(set("large", sizes[i].text));
        ck_assert_uint_eq(options.large, sizes[i].bytes);
    }
}

TEST(an_option_with_the_words_on_and_off_takes_a_switch_too) {
    static const char *const words[] = {"0", "1", "false", "TRUE", "off", "on", "no", "Yes"};
    ck_assert_ptr_null(set("zero", "auto"));
    ck_assert_int_eq(options.zero, 0);
    for (int i = 0; i < 8; i++) {
        ck_assert_ptr_null(set("zero", words[i]));
        ck_assert_int_eq(options.zero, i % 2 ? 2 : 1);
    }
    ck_assert_ptr_nonnull(set("zero", "2"));
    ck_assert_ptr_nonnull(set("log", "0")); /* off is a word of this option, on is not */
}

TEST(a_mistake_says_what_is_allowed) {
    static const struct {
        const char *name, *value, *wrong;
    } bad[] = {
        {"large", "1", "is too small: 2M is the least"},
        {"copy_ring", "1G1", "is not a size such as 512M or 1.5G"},
        {"copy_ring", "2G", "is too large: 1G is the most"},
        {"copy_threads", "64", "is too large: 63 is the most"},
        {"copy_threads", "99999999999999999999", "is too large: 63 is the most"},
        {"copy_threads", "-1", "is not a whole number"},
        {"spill", "99999999999999999999", "is too large"},
        {"keep", "16777216T", "is too large"},
        {"limit", "18446744073709551615", "is too large"},
        {"free", "lazy", "is not one of the words it can be: exact|relaxed"},
        {"trace", "here", "does not have the form: /FOLDER"},
        {"pool", "2", "is not one of 1/0, true/false, on/off, yes/no"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_str_eq(set(bad[i].name, bad[i].value), bad[i].wrong);
}

TEST(a_path_that_is_too_long_is_refused_not_cut) {
    char text[CUSHIM_OPTION_PATH_BYTES + 1];
    memset(text, 'p', sizeof text);
    text[CUSHIM_OPTION_PATH_BYTES - 1] = 0;
    ck_assert_ptr_null(set("stats", text));
    ck_assert_str_eq(options.stats, text);
    text[CUSHIM_OPTION_PATH_BYTES - 1] = 'p';
    text[CUSHIM_OPTION_PATH_BYTES] = 0;
    ck_assert_ptr_nonnull(set("stats", text));
    ck_assert_uint_eq(strlen(options.stats), CUSHIM_OPTION_PATH_BYTES - 1);
}

TEST(a_correct_environment_gives_no_message) {
    ck_assert_str_eq(load((char *[]){"PATH=x", "CUSHIM=0", "CUSHIM_POOL=off", "CUSHIM_LARGE=1G",
                                     "CUSHIM_LOG=info", "CUSHIM_STATS=a=b", "CUSHIMX=1", NULL}),
                     "");
    ck_assert(!options.cushim && !options.pool && options.copy);
    ck_assert_uint_eq(options.large, 1u << 30);
    ck_assert_int_eq(options.log, CUSHIM_LOG_INFO);
    ck_assert_str_eq(options.stats, "a=b");
    ck_assert(cushim_log_on(CUSHIM_LOG_INFO) && !cushim_log_on(CUSHIM_LOG_DEBUG));
}

TEST(without_an_environment_all_options_have_their_defaults) {
    ck_assert_str_eq(load(NULL), "");
    assert_all_are_default();
}

TEST(a_bad_value_gives_one_message_and_keeps_the_default) {
    const char *said =
        load((char *[]){"CUSHIM_LARGE=12Q", "CUSHIM_POOL=maybe", "CUSHIM_LOG=loud", NULL});
    ck_assert_uint_eq(n_lines(said), 3);
    ck_assert_ptr_nonnull(
        strstr(said, "CUSHIM_LARGE=12Q is not a size such as 512M or 1.5G; it stays 256M"));
    ck_assert_ptr_nonnull(strstr(said, "CUSHIM_POOL=maybe is not one of"));
    ck_assert_ptr_nonnull(strstr(said, "CUSHIM_LOG=loud is not one of the words it can be: "
                                       "off|error|warn|info|debug; it stays error"));
    ck_assert_uint_eq(options.large, 256u << 20);
    ck_assert(options.pool);
    ck_assert_int_eq(options.log, CUSHIM_LOG_ERROR);
}

TEST(an_unknown_name_is_reported_once) {
    const char *said =
        load((char *[]){"CUSHIM_LARGER=1", "CUSHIM_CUSHIM=1", "CUSHIM_=1", "CUSHIM_BARE", NULL});
    ck_assert_uint_eq(n_lines(said), 4);
    ck_assert_ptr_nonnull(strstr(said, ": CUSHIM_LARGER is no option and is ignored "
                                       "(did you mean CUSHIM_LARGE?)\n"));
    ck_assert_ptr_nonnull(strstr(said, ": CUSHIM_CUSHIM is no option and is ignored "
                                       "(did you mean CUSHIM?)\n"));
    ck_assert_ptr_nonnull(strstr(said, ": CUSHIM_ is no option and is ignored\n"));
    ck_assert_ptr_nonnull(strstr(said, ": CUSHIM_BARE is no option and is ignored\n"));
}

TEST(variables_without_the_prefix_are_ignored) {
    ck_assert_str_eq(
        load((char *[]){"CUSHIM_SIM_SEED=1", "CUSHIM_SIM_ANYTHING=x", "CUSHIM_LIBCUDA=x",
                        "CUSHIM_LIBVULKAN=x", "CUSHIM_KERNELS=x", "CUSHIM_KERNEL_ARCH=cpu",
                        "CUSHIM_KERNEL_PDL=0", "CUSHIM_STARTED=1", "CUSHIM_WAITER=1-3", NULL}),
        "");
}

TEST(log_off_silences_messages_about_earlier_variables) {
    ck_assert_str_eq(load((char *[]){"CUSHIM_LARGER=1", "CUSHIM_POOL=x", "CUSHIM_LOG=off", NULL}),
                     "");
}

TEST(an_option_counts_as_set_if_it_differs_from_its_default) {
    static const struct {
        const char *name, *preset, *other;
    } each[] = {{"pool", "on", "off"},  {"copy_threads", "7", "3"}, {"keep", "auto", "7%"},
                {"limit", "0", "0%"},   {"keep", "auto", "64M"},    {"free", "exact", "relaxed"},
                {"stats", "", "stderr"}};
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    cushim_options_default(&options);
    for (size_t i = 0; i < n_rows; i++)
        ck_assert_msg(!cushim_option_is_set(&options, &rows[i]), "%s", rows[i].name);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        ck_assert_ptr_null(set(each[i].name, each[i].preset));
        ck_assert_msg(!cushim_option_is_set(&options, row_of(each[i].name)), "%s", each[i].name);
        ck_assert_ptr_null(set(each[i].name, each[i].other));
        ck_assert_msg(cushim_option_is_set(&options, row_of(each[i].name)), "%s", each[i].name);
    }
}

SUITE() {
    return tests_run("options");
}
