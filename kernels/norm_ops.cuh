/*
 * The five kinds of RMS norm: what a row is made of, and what is done with it.
 *
 * An op's Access is that of weights and output.  Op::load gives x as floats, Op::fill a thread's
 * part of a row of it; `offset` counts elements of x.
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
    template <class Row, int E>
    DEVICE void fill(const struct norm_args &args, int64_t offset, int n, float (&values)[E]) {
        Row::fill(n, values, [&](int at, float *to) { load(args, offset + at, to); });
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

/* The codes of one access. */
template <int W> struct E4m3Codes { typedef uint2 Type; };
template <> struct E4m3Codes<1> { typedef uint8_t Type; };

/* x is codes times a scale; weights and output are binary16. */
template <int W> struct RmsE4m3 : PlainOp<Access<uint16_t, W>> {
    typedef typename E4m3Codes<W>::Type Codes;
    DEVICE uint2 four(const struct norm_args &args, uint32_t codes) {
        return args.has_nan ? BitsE4m3::four(codes) : FiniteE4m3::four(codes);
    }
    DEVICE Codes codes_at(const struct norm_args &args, int64_t offset) {
        return *reinterpret_cast<const Codes *>((const uint8_t *)args.x + offset);
    }
    DEVICE void decode(const struct norm_args &args, Codes codes, float *to) {
        if constexpr (W == 1) {
            *to = __fmul_rn(f32x2_of_f16x2(four(args, codes).x).x, args.scale);
        } else {
            uint2 low = four(args, codes.x), high = four(args, codes.y);
            spread(make_uint4(low.x, low.y, high.x, high.y), to);
#pragma unroll
            for (int j = 0; j < W; j++)
                to[j] = __fmul_rn(to[j], args.scale);
        }
    }
    DEVICE void load(const struct norm_args &args, int64_t offset, float *to) {
        decode(args, codes_at(args, offset), to);
    }
    /* All codes first: decoding is long enough to be branched around, and a load behind such a
     * branch waits for the one before it.  What is not there counts as 0 times the scale; where
     * that is NaN, the row is NaN without it. */
    template <class Row, int E>
    DEVICE void fill(const struct norm_args &args, int64_t offset, int n, float (&values)[E]) {
        Codes codes[Row::N_ACCESSES] = {};
#pragma unroll
        for (int k = 0; k < Row::N_ACCESSES; k++) {
            if (Row::at(k) < n)
                codes[k] = codes_at(args, offset + Row::at(k));
        }
#pragma unroll
        for (int k = 0; k < Row::N_ACCESSES; k++)
            decode(args, codes[k], values + k * W);
    }
};

/* 1 / sqrt(mean + eps): 0 where the sum is too large for a float. */
DEVICE float rstd_of(float sum_of_squares, const struct norm_args &args) {
    return __frsqrt_rn(__fadd_rn(__fdiv_rn(sum_of_squares, (float)args.d), args.eps));
}

#endif
