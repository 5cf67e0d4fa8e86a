/* The magnitudes of a product's terms, of which the bounds of products are parts. */
#include <math.h>

#include "kernels/tests/frame/terms_quantised.h"

#include "kernels/reference/quant_values.h"

double terms_quantised(enum quant_format format, const void *w, const float *b, int64_t k,
                       int64_t n) {
    struct quant_parts parts = cushim_quant_parts(format, w, w);
    double terms = 0;
    for (int64_t i = 0; i < k; i++) {
        struct quant_value value = quant_value_at(&parts, format, i);
        terms += (fabs((double)value.scale * value.q) + fabs(value.minimum)) * fabs(b[i * n]);
    }
    return terms;
}
