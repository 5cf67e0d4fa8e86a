#include "report/words.h"

const struct cushim_report_word cushim_report_words[CUSHIM_N_WORDS] = {
#define WORD(name, text, sentence) {text, sentence},
#include "report/words.def"
#undef WORD
};
