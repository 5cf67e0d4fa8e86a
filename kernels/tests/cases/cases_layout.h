/* What the files of the layout family's cases share. */
#ifndef CUSHIM_KERNELS_TESTS_CASES_LAYOUT_H
#define CUSHIM_KERNELS_TESTS_CASES_LAYOUT_H

#include "kernels/tests/frame/case.h"

void cases_strided_copy(struct kernel_table *table);

#endif
