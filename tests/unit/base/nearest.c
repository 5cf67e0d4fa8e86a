#include "base/nearest.h"

#include <string.h>

#include "tests/unit/suite.h"

static const char *const words[] = {"run", "doctor", "help", "check", "check_quarantine", "stats"};

static const char *nearest(const char *word) {
    struct cushim_nearest search;
    cushim_nearest_begin(&search, word, strlen(word));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        cushim_nearest_try(&search, words[i]);
    return search.best;
}

TEST(an_added_missing_changed_or_swapped_letter_is_near) {
    static const char *const mistyped[][2] = {
        {"rum", "run"},       {"rn", "run"},        {"runn", "run"},   {"urn", "run"},
        {"docter", "doctor"}, {"doctro", "doctor"}, {"stat", "stats"}, {"hepl", "help"},
    };
    for (size_t i = 0; i < sizeof mistyped / sizeof mistyped[0]; i++)
        ck_assert_pstr_eq(nearest(mistyped[i][0]), mistyped[i][1]);
}

TEST(capitals_and_hyphens_make_no_difference) {
    ck_assert_pstr_eq(nearest("CHECK-QUARANTINE"), "check_quarantine");
    ck_assert_pstr_eq(nearest("Check-Quarentine"), "check_quarantine");
}

TEST(a_word_unlike_all_others_has_no_nearest) {
    ck_assert_ptr_null(nearest("train"));
    ck_assert_ptr_null(nearest("v"));
    ck_assert_ptr_null(nearest(""));
    ck_assert_ptr_null(nearest("./app"));
}

TEST(a_word_of_any_length_is_taken) {
    char word[2 * CUSHIM_NEAREST_BYTES];
    for (size_t n = 0; n < sizeof word; n++) {
        memset(word, 'x', n);
        word[n] = 0;
        ck_assert_ptr_null(nearest(word));
    }
}

TEST(only_the_given_bytes_are_read) {
    struct cushim_nearest search;
    cushim_nearest_begin(&search, "stat=report.json", 4);
    cushim_nearest_try(&search, "stats");
    ck_assert_pstr_eq(search.best, "stats");
}

SUITE() {
    return tests_run("nearest");
}
