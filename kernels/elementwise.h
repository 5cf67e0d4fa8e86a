/* The kernels of the elementwise family by number: ELEMENTWISE_<name>, the wide one right after. */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_INSIDE_H
#define CUSHIM_KERNELS_ELEMENTWISE_INSIDE_H

enum elementwise_kernel {
#define EACH(name) ELEMENTWISE_##name, ELEMENTWISE_##name##_wide,
#include "kernels/elementwise.def"
#undef EACH
};

#endif
