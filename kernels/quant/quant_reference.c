/* Dequantisation as a plain loop: in float, product by product, like the kernel. */
#include "cushim/kernels_ref.h"
#include "kernels/reference/q4k.h"

void cushim_dequant_q4k_f32_ref(const void *w, float *y, int64_t rows, int64_t k) {
    const uint8_t *blocks = w;
    for (int64_t i = 0; i < rows * k; i++) {
        struct q4k_value value =
            q4k_value_at(blocks + i / Q4K_VALUES * Q4K_BYTES, (int)(i % Q4K_VALUES));
        float product = (float)value.scale * (float)value.nibble;
        y[i] = product - (float)value.minimum;
    }
}
