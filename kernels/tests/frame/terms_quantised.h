/* The magnitudes of a product's terms. */
#ifndef CUSHIM_KERNELS_TESTS_TERMS_QUANTISED_H
#define CUSHIM_KERNELS_TESTS_TERMS_QUANTISED_H

#include "kernels/shared/quant_parts.h"

/* Of a row of k values and a column, whose elements are n apart: scale * q and the minimum count as
 * two terms. */
double terms_quantised(enum quant_format format, const void *w, const float *b, int64_t k,
                       int64_t n);

#endif
