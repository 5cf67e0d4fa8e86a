/*
 * The end of a product with a column, in the kernel that made it or behind it: a residual is added,
 * a gate meets its rows, queries and keys are rotated and keys and values put into their cache.
 *
 * An end that IS_PAIRED takes two rows at once: pair p is row j of a head of 2 half rows, and row j
 * + half, with p = head * half + j.  Before is what it reads for an output, asked for while the
 * product is in progress.  If MAY_SHARE, blocks of a cluster may share k; code for that in all ends
 * would cost a decode step a tenth of its time.  If it KEEPS_LINES, L1 keeps the lines of weights.
 * That helps if k is small, because then the digits of x leave more room for L1.
 */
#ifndef CUSHIM_KERNELS_GEMV_ENDS_CUH
#define CUSHIM_KERNELS_GEMV_ENDS_CUH

#include "kernels/device/math/swiglu.cuh"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_kernels.h"

/* The product as it is. */
struct PlainEnd {
    enum { HAS_NORM = 0, IS_PAIRED = 0, MAY_SHARE = 1 };
    struct Before {};
    float *y;

    MEMBER Before before(int64_t) const {
        return Before();
    }
    MEMBER void finish(int64_t row, float product, float, Before) const {
        y[row] = product;
    }
};

struct AddEnd {
    enum { HAS_NORM = 0, IS_PAIRED = 0, MAY_SHARE = 0, KEEPS_LINES = 0 };
    typedef float Before;
    const struct gemv_end_args &args;

    MEMBER Before before(int64_t row) const {
        return args.residual[row]; /* which may be y */
    }
    MEMBER void finish(int64_t row, float product, float, Before residual) const {
        args.y[row] = residual + product;
    }
};

struct SwiGluEnd {
    enum { HAS_NORM = 1, IS_PAIRED = 1, MAY_SHARE = 0, KEEPS_LINES = 1 };
    struct Before {};
    const struct gemv_end_args &args;

    MEMBER Before before(int64_t) const {
        return Before();
    }
    MEMBER void finish(int64_t pair, float gate, float up, Before) const {
        args.y[pair] = SwiGlu()(gate, up);
    }
};

/* If the position is not in the tables nothing is stored. */
struct QkvEnd {
    enum { HAS_NORM = 1, IS_PAIRED = 1, MAY_SHARE = 0, KEEPS_LINES = 1 };
    struct Before {
        float cosine, sine;
        int position;
    };
    const struct gemv_end_args &args;

    MEMBER Before before(int64_t pair) const {
        Before before = {1, 0, *args.position};
        int64_t at = (int64_t)before.position * args.half + (unsigned)pair % (unsigned)args.half;
        if (before.position >= 0 && before.position < args.max_len) {
            before.cosine = args.cosines[at];
            before.sine = args.sines[at];
        }
        return before;
    }
    MEMBER void finish(int64_t pair, float first, float second, Before with) const {
        int head = (int)((unsigned)pair / (unsigned)args.half), j = (int)pair - head * args.half;
        int kv_head = head - args.n_q_heads, value_head = kv_head - args.n_kv_heads;
        if (with.position < 0 || with.position >= args.max_len)
            return;
        if (args.bias) {
            first += args.bias[(int64_t)head * 2 * args.half + j];
            second += args.bias[(int64_t)head * 2 * args.half + j + args.half];
        }
        float rotated = first * with.cosine - second * with.sine;
        float partner = second * with.cosine + first * with.sine;
        float *to = args.y + (int64_t)head * 2 * args.half;
        if (kv_head >= 0) {
            bool is_value = value_head >= 0;
            to = (is_value ? args.values : args.keys) + with.position * args.position_stride +
                 (is_value ? value_head : kv_head) * args.head_stride;
            if (is_value) {
                rotated = first;
                partner = second;
            }
        }
        to[j] = rotated;
        to[j + args.half] = partner;
    }
};

/* The same for products in memory; a thread has an output, or a pair. */
template <class End> DEVICE void end_products(const float *products, int64_t m, const End &end) {
    int64_t n = End::IS_PAIRED ? m / 2 : m;
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
        int64_t half = end.args.half, row = End::IS_PAIRED ? i + i / half * half : i;
        float second = End::IS_PAIRED ? products[row + half] : 0;
        end.finish(i, products[row], second, end.before(i));
    }
}

#endif
