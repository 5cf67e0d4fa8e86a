/*
 * Sums of many floats by one thread.
 *
 * A running sum of n terms may be wrong by n roundings.  So there are four, each fed by the one
 * below it when that has taken 16 terms, and loads are first added in pairs.  Up to 2^18 terms that
 * makes less than 70 roundings; a tree would make 18.
 */
#ifndef CUSHIM_KERNELS_REDUCE_CASCADE_CUH
#define CUSHIM_KERNELS_REDUCE_CASCADE_CUH

#include "kernels/device/vector.cuh"

namespace {

DEVICE float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* How units of the axis are read and sums of columns written. */
struct Single {
    typedef float Sum;
    static constexpr int WIDTH = 1;
    DEVICE float zero() {
        return 0;
    }
    DEVICE float load(const float *from) {
        return __ldg(from);
    }
    DEVICE void store(float *to, float sum) {
        *to = sum;
    }
    DEVICE float across(float sum) {
        return sum;
    }
};

/* Four neighbouring floats, at an address that is a multiple of 16, or at any. */
template <bool IS_ALIGNED> struct Quad {
    typedef float4 Sum;
    static constexpr int WIDTH = 4;
    DEVICE float4 zero() {
        return make_float4(0, 0, 0, 0);
    }
    DEVICE float4 load(const float *from) {
        if (IS_ALIGNED)
            return load_streamed(reinterpret_cast<const float4 *>(from));
        return make_float4(__ldg(from), __ldg(from + 1), __ldg(from + 2), __ldg(from + 3));
    }
    DEVICE void store(float *to, float4 sum) {
        if (IS_ALIGNED) {
            *reinterpret_cast<float4 *>(to) = sum;
        } else {
            to[0] = sum.x, to[1] = sum.y, to[2] = sum.z, to[3] = sum.w;
        }
    }
    DEVICE float across(float4 sum) {
        return (sum.x + sum.y) + (sum.z + sum.w);
    }
};

template <class Unit> struct Cascade {
    typedef typename Unit::Sum Sum;
    Sum rungs[4];
    unsigned n_terms;

    __device__ __forceinline__ Cascade() : n_terms(0) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            rungs[k] = Unit::zero();
    }

    __device__ __forceinline__ void add(Sum term) {
        rungs[0] = rungs[0] + term;
        n_terms++;
#pragma unroll
        for (int k = 1; k < 4; k++) {
            if (n_terms % (1u << 4 * k) != 0)
                break;
            rungs[k] = rungs[k] + rungs[k - 1];
            rungs[k - 1] = Unit::zero();
        }
    }

    __device__ __forceinline__ Sum total() const {
        return ((rungs[3] + rungs[2]) + rungs[1]) + rungs[0];
    }
};

/* Units first, first + step, .. below n, each `stride` floats from the one before it. */
/* Adds in pairs. */
template <int N, class Sum> DEVICE Sum sum_of(Sum (&terms)[N]) {
#pragma unroll
    for (int n = N / 2; n > 0; n /= 2) {
#pragma unroll
        for (int k = 0; k < n; k++)
            terms[k] = terms[k] + terms[k + n];
    }
    return terms[0];
}

/* Units first, first + step, .. below n, each `stride` floats from the one before it. */
template <class Unit>
DEVICE typename Unit::Sum sum_units(const float *from, int64_t first, int64_t n, int64_t step,
                                    int64_t stride) {
    constexpr int N_FLYING = Unit::WIDTH == 1 ? 8 : 4;
    Cascade<Unit> cascade;
    for (int64_t at = first; at < n; at += N_FLYING * step) {
        typename Unit::Sum terms[N_FLYING];
#pragma unroll
        for (int k = 0; k < N_FLYING; k++)
            terms[k] =
                at + k * step < n ? Unit::load(from + (at + k * step) * stride) : Unit::zero();
        cascade.add(sum_of(terms));
    }
    return cascade.total();
}

} // namespace

#endif
