/*
 * The five kinds of RMS norm: what a row is made of, and what is done with it.
 *
 * An op's Access is that of weights and output; a piece of x lies in registers as one of those
 * does, and Op::spread makes floats of it.  Op::read gives a thread's part of a row; `offset`
 * counts elements of x.
 */
#ifndef CUSHIM_KERNELS_NORM_OPS_CUH
#define CUSHIM_KERNELS_NORM_OPS_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/e4m3.cuh"
#include "kernels/norm_args.h"

/* A row that lies in memory as its output does. */
template <class Of> struct PlainOp {
    typedef Of Access;
    typedef typename Access::Piece Piece;
    enum { ADDS_BEFORE = false, ADDS_AFTER = false, GIVES_RSTD = false };
    template <class Row>
    DEVICE void read(const struct norm_args &args, int64_t offset, int n, Piece (&pieces)[Row::N]) {
        Row::read((const typename Access::Element *)args.x + offset, n, pieces);
    }
    DEVICE void spread(const struct norm_args &, Piece piece, float *to) {
        Access::spread(piece, to);
    }
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

/* The codes of one access. */
template <int W> struct E4m3Codes { typedef uint2 Type; };
template <> struct E4m3Codes<1> { typedef uint8_t Type; };

/* x is codes times a scale; weights and output are binary16, and so is x in registers. */
template <int W> struct RmsE4m3 : PlainOp<Access<uint16_t, W>> {
    typedef typename Access<uint16_t, W>::Piece Piece;
    typedef typename E4m3Codes<W>::Type Codes;
    template <class Decode> DEVICE Piece decode(Codes codes) {
        if constexpr (W == 1) {
            return (uint16_t)Decode::four(codes).x;
        } else {
            uint2 low = Decode::four(codes.x), high = Decode::four(codes.y);
            return make_uint4(low.x, low.y, high.x, high.y);
        }
    }
    DEVICE Codes codes_at(const struct norm_args &args, int64_t offset) {
        return *reinterpret_cast<const Codes *>((const uint8_t *)args.x + offset);
    }
    /* All codes first: decoding is long enough to be branched around, and a load behind such a
     * branch waits for the one before it.  What is not there counts as 0 times the scale; where
     * that is NaN, the row is NaN without it. */
    template <class Row>
    DEVICE void read(const struct norm_args &args, int64_t offset, int n, Piece (&pieces)[Row::N]) {
        Codes codes[Row::N] = {};
#pragma unroll
        for (int k = 0; k < Row::N; k++) {
            if (Row::at(k) < n)
                codes[k] = codes_at(args, offset + Row::at(k));
        }
        if (args.has_nan) {
#pragma unroll
            for (int k = 0; k < Row::N; k++)
                pieces[k] = decode<HardwareE4m3>(codes[k]);
        } else {
#pragma unroll
            for (int k = 0; k < Row::N; k++)
                pieces[k] = decode<FiniteE4m3>(codes[k]);
        }
    }
    DEVICE void spread(const struct norm_args &args, Piece piece, float *to) {
        Access<uint16_t, W>::spread(piece, to);
#pragma unroll
        for (int j = 0; j < W; j++)
            to[j] = __fmul_rn(to[j], args.scale);
    }
    DEVICE void load(const struct norm_args &args, int64_t offset, float *to) {
        Codes codes = codes_at(args, offset);
        spread(args, args.has_nan ? decode<HardwareE4m3>(codes) : decode<FiniteE4m3>(codes), to);
    }
};

/* 1 / sqrt(mean + eps): 0 where the sum is too large for a float. */
DEVICE float rstd_of(float sum_of_squares, const struct norm_args &args) {
    return __frsqrt_rn(__fadd_rn(__fdiv_rn(sum_of_squares, (float)args.d), args.eps));
}

#endif
