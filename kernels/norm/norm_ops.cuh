/*
 * The kinds of RMS norm: what a row is made of, and what is done with it.
 *
 * An op's Access is that of weights and output.  A Piece is what an access of x moves, and lies in
 * registers as it does in memory.  Op::read gives a thread's part of a row, Op::spread makes floats
 * of a piece, and Op::factor_of gives their factor from the sum of their squares.  Op::load gives
 * the numbers themselves.  `offset` counts elements of x.
 */
#ifndef CUSHIM_KERNELS_NORM_OPS_CUH
#define CUSHIM_KERNELS_NORM_OPS_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/math/e4m3.cuh"
#include "kernels/norm/norm_args.h"

/* 1 / sqrt(mean + eps); 0 if the sum is too large for a float. */
DEVICE float rstd_of(float sum_of_squares, const struct norm_args &args) {
    return __frsqrt_rn(__fadd_rn(__fdiv_rn(sum_of_squares, (float)args.d), args.eps));
}

/* A row that lies in memory as its output does. */
template <class Of> struct PlainOp {
    typedef Of Access;
    typedef typename Access::Piece Piece;
    enum { ADDS_BEFORE = false, ADDS_AFTER = false, GIVES_RSTD = false };
    template <class Row>
    DEVICE void read(const struct norm_args &args, int64_t offset, int n, Piece (&pieces)[Row::N]) {
        Row::read((const typename Access::Element *)args.x + offset, n, pieces);
    }
    DEVICE void spread(Piece piece, float *to) {
        Access::spread(piece, to);
    }
    DEVICE float factor_of(float sum_of_squares, const struct norm_args &args) {
        return rstd_of(sum_of_squares, args);
    }
    DEVICE void load(const struct norm_args &args, int64_t offset, float *to) {
        Access::load((const typename Access::Element *)args.x + offset, to);
    }
};

template <int W> struct RmsF32 : PlainOp<Access<float, W>> {
    enum { GIVES_RSTD = true };
};

/* sum = x + residual is the row, and an output too. */
template <int W> struct AddRmsF32 : PlainOp<Access<float, W>> {
    enum { ADDS_BEFORE = true };
};

template <int W> struct RmsAddF32 : PlainOp<Access<float, W>> {
    enum { ADDS_AFTER = true };
};

template <int W> struct AddRmsBf16 : PlainOp<Access<bf16, W>> {
    enum { ADDS_BEFORE = true };
};

template <int W> struct RmsAddBf16 : PlainOp<Access<bf16, W>> {
    enum { ADDS_AFTER = true };
};

template <int W> struct RmsF16 : PlainOp<Access<uint16_t, W>> {};

/* The codes of one access. */
template <int W> struct E4m3Codes { typedef uint2 Type; };
template <> struct E4m3Codes<1> { typedef uint8_t Type; };

/*
 * x is codes times a scale; weights and output are binary16.
 *
 * A row in registers stays codes, which take half of the registers of halves, and is decoded twice;
 * the scale is applied once per row.  So this must not take a scale that makes a product subnormal
 * or infinite: the launcher (scale_enters_once) gives rows with such a scale to norm_stream.
 */
template <int W, class Decode> struct RmsCodes : PlainOp<Access<uint16_t, W>> {
    typedef typename E4m3Codes<W>::Type Piece;
    DEVICE Piece read(const uint8_t *codes) {
        if constexpr (W == 1)
            return *codes;
        else
            return load_streamed(reinterpret_cast<const uint2 *>(codes));
    }
    template <class Row>
    DEVICE void read(const struct norm_args &args, int64_t offset, int n, Piece (&pieces)[Row::N]) {
#pragma unroll
        for (int k = 0; k < Row::N; k++)
            pieces[k] =
                Row::at(k) < n ? read((const uint8_t *)args.x + offset + Row::at(k)) : Piece();
    }
    DEVICE void spread(Piece codes, float *to) {
        if constexpr (W == 1) {
            *to = f32_of_e4m3<Decode>(codes);
        } else {
            codes = afresh(codes);
            uint2 low = Decode::four(codes.x), high = Decode::four(codes.y);
            ::spread(make_uint4(low.x, low.y, high.x, high.y), to);
        }
    }
    DEVICE float factor_of(float sum_of_squares, const struct norm_args &args) {
        return args.scale * rstd_of(sum_of_squares * args.scale * args.scale, args);
    }
    DEVICE void load(const struct norm_args &args, int64_t offset, float *to) {
        spread(*reinterpret_cast<const Piece *>((const uint8_t *)args.x + offset), to);
#pragma unroll
        for (int j = 0; j < W; j++)
            to[j] = __fmul_rn(to[j], args.scale);
    }
};

template <int W> struct RmsE4m3 : RmsCodes<W, HardwareE4m3> {};

/* The codes 0x7F and 0xFF are 480 and -480. */
template <int W> struct RmsE4m3Finite : RmsCodes<W, FiniteE4m3> {};

#endif
