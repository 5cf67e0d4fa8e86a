/* The words of the report: each has one meaning. */
#include "report/words.h"

#include <string.h>

#include "tests/unit/suite.h"

TEST(each_word_is_there_once_and_has_a_sentence) {
    for (int i = 0; i < CUSHIM_N_WORDS; i++) {
        ck_assert(*cushim_report_words[i].text && *cushim_report_words[i].sentence);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(cushim_report_words[i].text, cushim_report_words[j].text);
    }
    ck_assert_str_eq(CUSHIM_WORD(peak_live), "peak live");
}

SUITE() {
    return tests_run("words");
}
