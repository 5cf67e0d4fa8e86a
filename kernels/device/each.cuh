/*
 * The loops of kernels in which each output element depends on the same element of each input.
 *
 * A block does a tile of neighbouring pieces, 16 bytes or an element each.  A thread asks for all
 * its pieces before it waits for the first.  It reads an element before it writes it, and no other
 * thread touches that element, so an output may be exactly an input.  An operation is an object
 * with operator() on one or two elements.
 */
#ifndef CUSHIM_KERNELS_EACH_CUH
#define CUSHIM_KERNELS_EACH_CUH

#include "kernels/device/device.cuh"
#include "kernels/shared/each_tile.h"

/* A kernel of such a loop (kernels/launch/each.c). */
#define EACH_KERNEL(name) KERNEL_OF(EACH_THREADS, 8, name)

/*
 * Do the block's part of n elements.  A Work has pieces of WIDTH elements: load() gives the Value
 * of piece i, and store() computes and stores its result.  `single` does the same for one element,
 * and for those that fill no piece.  A thread has N pieces, IN_FLIGHT of them at a time.
 */
template <int N, int IN_FLIGHT, class Work, class Single>
DEVICE void each_tile(const Work &work, const Single &single, int64_t n) {
    int64_t first = (int64_t)blockIdx.x * (N * EACH_THREADS), i = first + threadIdx.x;
    if ((first + N * EACH_THREADS) * Work::WIDTH <= n) {
#pragma unroll 1
        for (int begin = 0; begin < N; begin += IN_FLIGHT) {
            typename Work::Value values[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                values[k] = work.load(i + (begin + k) * EACH_THREADS);
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                work.store(i + (begin + k) * EACH_THREADS, values[k]);
        }
        return;
    }
    int64_t n_pieces = n / Work::WIDTH, rest = n_pieces * Work::WIDTH + threadIdx.x;
#pragma unroll 1
    for (; i < n_pieces; i += EACH_THREADS)
        work.store(i, work.load(i));
    if (Work::WIDTH > 1 && rest < n)
        single.store(rest, single.load(rest));
}

/*
 * How many elements a piece has.  Pieces are loaded and stored in the plain way, because without a
 * place in L1, or first to leave L2, they took longer in all (measured on an H200).
 */
template <class Piece> struct WidthOf {
    enum { WIDTH = 1 };
};

template <> struct WidthOf<float4> {
    enum { WIDTH = 4 };
};

/* of halves */
template <> struct WidthOf<uint4> {
    enum { WIDTH = 8 };
};

/* ---- works ---- */

/* to[i] = f(from[i]) */
template <class F, class Piece> struct OfOne {
    typedef Piece Value;
    enum { WIDTH = WidthOf<Piece>::WIDTH };
    F f;
    const Piece *from;
    Piece *to;
    __device__ Piece load(int64_t i) const {
        return from[i];
    }
    __device__ void store(int64_t i, Piece value) const {
        to[i] = f(value);
    }
};

/* to[i] = f(a[i], b[i]) */
template <class F, class Piece> struct OfTwo {
    struct Value {
        Piece a, b;
    };
    enum { WIDTH = WidthOf<Piece>::WIDTH };
    F f;
    const Piece *a, *b;
    Piece *to;
    __device__ Value load(int64_t i) const {
        Value value = {a[i], b[i]};
        return value;
    }
    __device__ void store(int64_t i, const Value &value) const {
        to[i] = f(value.a, value.b);
    }
};

/* The operation on each of four elements. */
template <class Op> struct Each4 {
    Op op;
    __device__ float4 operator()(float4 a) const {
        return make_float4(op(a.x), op(a.y), op(a.z), op(a.w));
    }
    __device__ float4 operator()(float4 a, float4 b) const {
        return make_float4(op(a.x, b.x), op(a.y, b.y), op(a.z, b.z), op(a.w, b.w));
    }
};

/* ---- c[i] = op(a[i]) or op(a[i], b[i]) ---- */

/* For pointers that are multiples of 16; op4 is the operation on a Wide. */
template <class Wide, int PIECES = EACH_PIECES, class Op4, class Op, class T>
DEVICE void each_wide_of(const Op4 &op4, const Op &op, const T *a, T *c, int64_t n) {
    OfOne<Op4, Wide> work = {op4, reinterpret_cast<const Wide *>(a), reinterpret_cast<Wide *>(c)};
    OfOne<Op, T> single = {op, a, c};
    each_tile<PIECES, PIECES>(work, single, n);
}

template <class Wide, int PIECES = EACH_PIECES, class Op4, class Op, class T>
DEVICE void each_wide_of(const Op4 &op4, const Op &op, const T *a, const T *b, T *c, int64_t n) {
    OfTwo<Op4, Wide> work = {op4, reinterpret_cast<const Wide *>(a),
                             reinterpret_cast<const Wide *>(b), reinterpret_cast<Wide *>(c)};
    OfTwo<Op, T> single = {op, a, b, c};
    each_tile<PIECES, PIECES>(work, single, n);
}

template <int PIECES = EACH_PIECES, class Op>
DEVICE void each_wide(const Op &op, const float *a, float *c, int64_t n) {
    each_wide_of<float4, PIECES>(Each4<Op>{op}, op, a, c, n);
}

template <class Op>
DEVICE void each_wide(const Op &op, const float *a, const float *b, float *c, int64_t n) {
    each_wide_of<float4>(Each4<Op>{op}, op, a, b, c, n);
}

/* For any pointers. */
template <class Op, class T> DEVICE void each(const Op &op, const T *a, T *c, int64_t n) {
    OfOne<Op, T> work = {op, a, c};
    each_tile<EACH_ELEMENTS, EACH_ELEMENTS>(work, work, n);
}

template <class Op, class T>
DEVICE void each(const Op &op, const T *a, const T *b, T *c, int64_t n) {
    OfTwo<Op, T> work = {op, a, b, c};
    each_tile<EACH_ELEMENTS, EACH_ELEMENTS>(work, work, n);
}

#endif
