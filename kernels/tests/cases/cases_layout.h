/* What the files of the layout family's cases share. */
#ifndef CUSHIM_TESTS_KERNELS_CASES_LAYOUT_H
#define CUSHIM_TESTS_KERNELS_CASES_LAYOUT_H

#include "kernels/tests/frame/case.h"

void cases_strided_copy(struct kernel_table *table);

#endif
