/* The kernels of the elementwise family by number: ELEMENTWISE_<name>, the wide one right after. */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_INSIDE_H
#define CUSHIM_KERNELS_ELEMENTWISE_INSIDE_H

#include <stdbool.h>

enum elementwise_kernel {
#define EACH(name) ELEMENTWISE_##name, ELEMENTWISE_##name##_wide,
#include "kernels/elementwise/elementwise.def"
#undef EACH
};

/*
 * Whether a thread of the wide kernel has EACH_LONG_PIECES, as the headers in kernels/elementwise
 * define it.
 */
static inline bool elementwise_is_long(enum elementwise_kernel kernel) {
    return kernel == ELEMENTWISE_div_f16 || kernel == ELEMENTWISE_div_bf16 ||
           kernel == ELEMENTWISE_sin_f32 || kernel == ELEMENTWISE_cos_f32 ||
           (kernel >= ELEMENTWISE_exp_bf16 && kernel <= ELEMENTWISE_tanh_bf16);
}

#endif
