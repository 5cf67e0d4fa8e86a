/*
 * The five kinds of RMS norm: what a row is made of, and what is done with it.
 *
 * An op's Access is that of weights and output.  Op::load gives x as floats; `offset` counts
 * elements of x.
 */
#ifndef CUSHIM_KERNELS_NORM_OPS_CUH
#define CUSHIM_KERNELS_NORM_OPS_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/e4m3.cuh"
#include "kernels/norm_args.h"

/* A row that lies in memory as its output does. */
template <class Of> struct PlainOp {
    typedef Of Access;
    enum { ADDS_BEFORE = false, ADDS_AFTER = false, GIVES_RSTD = false };
    DEVICE void load(const struct norm_args &args, int64_t offset, float *to) {
        Access::load((const typename Access::Element *)args.x + offset, to);
    }
};

template <int W> struct RmsF32 : PlainOp<Access<float, W>> {
    enum { GIVES_RSTD = true };
};

/* sum = x + residual is the row, and an output, too. */
template <int W> struct AddRmsF32 : PlainOp<Access<float, W>> {
    enum { ADDS_BEFORE = true };
};

template <int W> struct RmsAddF32 : PlainOp<Access<float, W>> {
    enum { ADDS_AFTER = true };
};

template <int W> struct RmsF16 : PlainOp<Access<uint16_t, W>> {};

/* x is codes times a scale; weights and output are binary16. */
template <int W> struct RmsE4m3 : PlainOp<Access<uint16_t, W>> {
    DEVICE uint2 four(const struct norm_args &args, uint32_t codes) {
        return args.has_nan ? BitsE4m3::four(codes) : FiniteE4m3::four(codes);
    }
    DEVICE void load(const struct norm_args &args, int64_t offset, float *to) {
        const uint8_t *from = (const uint8_t *)args.x + offset;
        if constexpr (W == 1) {
            *to = __fmul_rn(f32x2_of_f16x2(four(args, *from).x).x, args.scale);
        } else {
            uint2 codes = *reinterpret_cast<const uint2 *>(from);
            uint2 low = four(args, codes.x), high = four(args, codes.y);
            spread(make_uint4(low.x, low.y, high.x, high.y), to);
#pragma unroll
            for (int j = 0; j < W; j++)
                to[j] = __fmul_rn(to[j], args.scale);
        }
    }
};

/* 1 / sqrt(mean + eps): 0 where the sum is too large for a float. */
DEVICE float rstd_of(float sum_of_squares, const struct norm_args &args) {
    return __frsqrt_rn(__fadd_rn(__fdiv_rn(sum_of_squares, (float)args.d), args.eps));
}

#endif
