/* Text from outside: characters stay; invalid bytes and terminal controls are replaced. */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/suite.h"

static const char *clean(const char *text) {
    static char buffer[64];
    snprintf(buffer, sizeof buffer, "%s", text);
    cushim_utf8_clean(buffer);
    return buffer;
}

TEST(characters_are_read_whole) {
    const char *at = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    ck_assert_uint_eq(cushim_utf8_next(&at), 'a');
    ck_assert_uint_eq(cushim_utf8_next(&at), 0xe9);
    ck_assert_uint_eq(cushim_utf8_next(&at), 0x20ac);
    ck_assert_uint_eq(cushim_utf8_next(&at), 0x1f600);
    ck_assert_int_eq(*at, 0);
}

TEST(each_invalid_byte_counts_alone) {
    /* a lone continuation, a cut sequence, an overlong form, a surrogate, beyond U+10FFFF, no
     * head */
    static const char *const bad[] = {"\x80",         "\xe2\x82",         "\xc0\xaf",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = bad[i];
        ck_assert_uint_eq(cushim_utf8_next(&at), CUSHIM_UTF8_BAD);
        ck_assert_ptr_eq(at, bad[i] + 1);
        ck_assert_uint_eq(strspn(clean(bad[i]), "?"), strlen(bad[i]));
    }
}

TEST(no_terminal_control_remains) {
    ck_assert_str_eq(clean("step \xc3\xa9 1"), "step \xc3\xa9 1");
    ck_assert_str_eq(clean("\x1b[2J\a\n\x7f"), "?[2J???");
    ck_assert_str_eq(clean("\xc2\x9b"
                           "31m"),
                     "??31m");
    ck_assert_str_eq(clean("\xe2\x80\xae"
                           "exe"),
                     "???exe");
}

TEST(text_without_room_is_cut_between_characters) {
    char text[32], cell[CUSHIM_CELL_BYTES];
    ck_assert_uint_eq(cushim_utf8_columns("a\xc3\xa9\xe2\x82\xac"), 3);
    ck_assert_str_eq(cushim_utf8_fit(strcpy(text, "caf\xc3\xa9"), 4), "caf\xc3\xa9");
    ck_assert_str_eq(cushim_utf8_fit(strcpy(text, "\xc3\xa9t\xc3\xa9 1999"), 7),
                     "\xc3\xa9t\xc3\xa9 ...");
    ck_assert_str_eq(cushim_utf8_fit(strcpy(text, "forward"), 2), "..");
    ck_assert_str_eq(cushim_utf8_fit(strcpy(text, "forward"), 0), "");
    ck_assert_str_eq(cushim_utf8_cell(cell, "caf\xc3\xa9", 6), "caf\xc3\xa9  ");
    ck_assert_str_eq(cushim_utf8_cell(cell, "caf\xc3\xa9s", 4), "caf\xc3\xa9");
    ck_assert_str_eq(cushim_utf8_cell(cell, "", 3), "   ");
}

SUITE() {
    return tests_run("utf8");
}
