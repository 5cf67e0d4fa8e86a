/* The four arithmetic operations, each rounded to nearest even and never contracted. */
#ifndef CUSHIM_KERNELS_ARITHMETIC_CUH
#define CUSHIM_KERNELS_ARITHMETIC_CUH

#include "kernels/device/device.cuh"

namespace {

struct Add {
    DEVICE float of(float a, float b) {
        return __fadd_rn(a, b);
    }
};

struct Sub {
    DEVICE float of(float a, float b) {
        return __fsub_rn(a, b);
    }
};

struct Mul {
    DEVICE float of(float a, float b) {
        return __fmul_rn(a, b);
    }
};

struct Div {
    DEVICE float of(float a, float b) {
        return __fdiv_rn(a, b);
    }
};

} // namespace

#endif
