/* What the cases of whole sequences and of decode share. */
#ifndef CUSHIM_KERNELS_TESTS_CASES_ATTENTION_H
#define CUSHIM_KERNELS_TESTS_CASES_ATTENTION_H

#include "kernels/tests/frame/case.h"

kernel_make make_whole_numbers; /* -32 .. 32: scores are exact, and far apart */
kernel_make make_keys_infinite; /* the first of each 32 is -infinity */
kernel_make make_one_infinite, make_one_nan;

/* Values for either form of attention; q, k and v are the first operands of both. */
struct attention_values {
    const char *note;
    kernel_make *q, *k, *v;
};

enum { ATTENTION_N_VALUES = 10 };
extern const struct attention_values attention_values[ATTENTION_N_VALUES];

void attention_set_values(struct kernel_case *c, const struct attention_values *values);

void cases_attention_decode(struct kernel_table *table);
void cases_attention_cached(struct kernel_table *table);

#endif
