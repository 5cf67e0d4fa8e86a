/*
 * A strided copy unit by unit.  The place in the output is split into one coordinate per axis, and
 * these make up the place in the source.  Writes are dense.  Reads are dense if the innermost axis
 * goes from unit to unit; otherwise the caches have to help.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_EACH_CUH
#define CUSHIM_KERNELS_LAYOUT_EACH_CUH

#include "kernels/device/math/divide.cuh"
#include "kernels/layout/layout_plan.h"

namespace {

/* The place in the source of unit `at` of the output; the outermost axis needs no division. */
template <class Number> DEVICE int64_t source_of(Number at, const struct layout_each &each) {
    int64_t from = 0;
#pragma unroll 1
    for (int k = 0; k + 1 < each.n_axes; k++) {
        Number next = divide(at, each.axes[k].size);
        from += (int64_t)(at - next * (Number)each.axes[k].size.by) * each.axes[k].from;
        at = next;
    }
    return each.n_axes > 0 ? from + (int64_t)at * each.axes[each.n_axes - 1].from : 0;
}

template <class Unit, class Number>
DEVICE void copy_each(const Unit *src, Unit *dst, const struct layout_each &each) {
    constexpr int N_FLYING = 4;
    int64_t step = (int64_t)N_FLYING * threads_of_grid();
    int64_t at = (int64_t)N_FLYING * blockDim.x * blockIdx.x + threadIdx.x;
    for (; at < each.n; at += step) {
        Unit units[N_FLYING];
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            if (at + k * blockDim.x < each.n)
                units[k] = __ldg(src + source_of((Number)(at + k * blockDim.x), each));
        }
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            if (at + k * blockDim.x < each.n)
                dst[at + k * blockDim.x] = units[k];
        }
    }
}

} // namespace

/* ... and the same for outputs of 2^31 units and more. */
#define EACH(bytes, Unit)                                                                          \
    KERNEL(layout_each_##bytes)(const Unit *src, Unit *dst, struct layout_each each) {             \
        copy_each<Unit, uint32_t>(src, dst, each);                                                 \
    }                                                                                              \
    KERNEL(layout_each_##bytes##_large)(const Unit *src, Unit *dst, struct layout_each each) {     \
        copy_each<Unit, uint64_t>(src, dst, each);                                                 \
    }

EACH(1, uint8_t)
EACH(2, uint16_t)
EACH(4, uint32_t)
EACH(8, uint2)
EACH(16, uint4)

#endif
