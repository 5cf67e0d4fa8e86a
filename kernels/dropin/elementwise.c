/* libkernels.so: elementwise functions. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/elementwise.h"
#include "kernels/dropin/enter.h"
#include "kernels/launch/variants.h"

#define BINARY(op)                                                                                 \
    int launch_##op(const float *a, const float *b, float *c, int n, cudaStream_t stream) {        \
        FORWARD(stream, cushim_##op##_f32(a, b, c, n, stream));                                    \
    }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(pow)

#define SCALAR(op)                                                                                 \
    int launch_##op##_scalar(const float *a, uint32_t s_bits, float *c, int n,                     \
                             cudaStream_t stream) {                                                \
        FORWARD(stream, cushim_##op##_scalar_f32(a, c, float_of(s_bits), n, stream));              \
    }

SCALAR(add)
SCALAR(sub)
SCALAR(mul)
SCALAR(div)

/* The power of the magnitude, because in this interface (-2)^3 = 8. */
int launch_pow_scalar(const float *a, uint32_t s_bits, float *c, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_variant_pow_abs_scalar_f32(a, c, float_of(s_bits), n, stream));
}

#define UNARY(op)                                                                                  \
    int launch_##op(const float *a, float *c, int n, cudaStream_t stream) {                        \
        FORWARD(stream, cushim_##op##_f32(a, c, n, stream));                                       \
    }

UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(sin)
UNARY(cos)
UNARY(tanh)

int launch_fill(float *data, uint32_t value_bits, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_fill_f32(data, float_of(value_bits), n, stream));
}

#define HALF(op)                                                                                   \
    int launch_##op##_fp16(const void *a, const void *b, void *c, int n, cudaStream_t stream) {    \
        FORWARD(stream, cushim_##op##_f16(a, b, c, n, stream));                                    \
    }

HALF(add)
HALF(sub)
HALF(mul)
HALF(div)

#define BINARY_BF16(op)                                                                            \
    int launch_##op##_bf16(const void *a, const void *b, void *c, int n, cudaStream_t stream) {    \
        FORWARD(stream, cushim_##op##_bf16(a, b, c, n, stream));                                   \
    }

BINARY_BF16(add)
BINARY_BF16(sub)
BINARY_BF16(mul)
BINARY_BF16(div)

#define UNARY_BF16(op)                                                                             \
    int launch_##op##_bf16(const void *a, void *c, int n, cudaStream_t stream) {                   \
        FORWARD(stream, cushim_##op##_bf16(a, c, n, stream));                                      \
    }

UNARY_BF16(exp)
UNARY_BF16(log)
UNARY_BF16(sqrt)
UNARY_BF16(rsqrt)
UNARY_BF16(tanh)

/* Without training nothing is dropped. */
int dropout_f32(const float *in, float *out, int n, uint32_t p_bits, uint64_t key, int training,
                uint32_t keep_scale_bits, cudaStream_t stream) {
    float p = training ? float_of(p_bits) : 0;
    FORWARD(stream, cushim_dropout_f32(in, out, p, float_of(keep_scale_bits), key, n, stream));
}

#define ADAMW(type, element)                                                                       \
    int fused_adamw_##type(                                                                        \
        element *param, float *m, double *v, element *grad, uint64_t beta1_bits,                   \
        uint64_t beta2_bits, uint64_t one_minus_beta1_bits, uint64_t one_minus_beta2_bits,         \
        uint64_t eps_bits, uint64_t alpha_bits, uint64_t lr_wd_bits, int n, cudaStream_t stream) { \
        FORWARD(stream,                                                                            \
                cushim_adamw_##type(param, m, v, grad, double_of(beta1_bits),                      \
                                    double_of(beta2_bits), double_of(one_minus_beta1_bits),        \
                                    double_of(one_minus_beta2_bits), double_of(eps_bits),          \
                                    double_of(alpha_bits), double_of(lr_wd_bits), n, stream));     \
    }

ADAMW(f32, float)
ADAMW(bf16, uint16_t)
