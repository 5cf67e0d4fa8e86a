/* The words of the report as they are printed (words.def). */
#pragma once

struct cushim_report_word {
    const char *text, *sentence;
};

enum {
#define WORD(name, text, sentence) CUSHIM_WORD_##name,
#include "report/words.def"
#undef WORD
    CUSHIM_N_WORDS
};

extern const struct cushim_report_word cushim_report_words[CUSHIM_N_WORDS];

/* The word itself: CUSHIM_WORD(peak_live) is "peak live". */
#define CUSHIM_WORD(name) cushim_report_words[CUSHIM_WORD_##name].text
