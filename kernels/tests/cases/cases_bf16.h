/* Cases of bfloat16, which each family adds to its own. */
#ifndef CUSHIM_KERNELS_TESTS_CASES_BF16_H
#define CUSHIM_KERNELS_TESTS_CASES_BF16_H

#include "kernels/tests/frame/case.h"

void cases_bf16_elementwise(struct kernel_table *table);
void cases_bf16_convert(struct kernel_table *table);
void cases_bf16_softmax(struct kernel_table *table);
void cases_bf16_norm(struct kernel_table *table);
void cases_bf16_rope(struct kernel_table *table);
void cases_bf16_reduce(struct kernel_table *table);

#endif
