/*
 * The walk of kernels/launch/walk.h, for strides that need not fit together: it divides by each of
 * them, once per axis and element.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_WALK_CUH
#define CUSHIM_KERNELS_LAYOUT_WALK_CUH

#include "kernels/device/device.cuh"
#include "kernels/launch/walk.h"

namespace {

template <class Unit>
DEVICE void walk_by_value(const Unit *x, Unit *y, const struct cushim_walk &walk, int64_t total) {
    for (int64_t i = thread_of_grid(); i < total; i += threads_of_grid()) {
        int64_t rest = i, from = 0;
        for (int d = 0; d < walk.ndim; d++) {
            int64_t at = rest / walk.out_strides[d];
            from += at * walk.strides[d];
            rest -= at * walk.out_strides[d];
        }
        y[i] = __ldg(x + from);
    }
}

/* An out_stride of 0 leaves its axis at 0. */
template <class Unit>
DEVICE void walk_by_arrays(const Unit *x, Unit *y, const int32_t *in_strides,
                           const int32_t *out_strides, const int32_t *perm, int ndim,
                           int64_t total) {
    for (int64_t i = thread_of_grid(); i < total; i += threads_of_grid()) {
        int64_t rest = i, from = 0;
        for (int d = 0; d < ndim; d++) {
            int64_t by = __ldg(out_strides + d);
            if (by == 0)
                continue;
            int64_t at = rest / by;
            from += at * __ldg(in_strides + __ldg(perm + d));
            rest -= at * by;
        }
        y[i] = __ldg(x + from);
    }
}

} // namespace

#define WALK(bytes, Unit)                                                                          \
    KERNEL(layout_walk_##bytes)                                                                    \
    (const Unit *x, Unit *y, struct cushim_walk walk, int64_t total) {                             \
        walk_by_value(x, y, walk, total);                                                          \
    }                                                                                              \
    KERNEL(layout_walk_##bytes##_arrays)                                                           \
    (const Unit *x, Unit *y, const int32_t *in_strides, const int32_t *out_strides,                \
     const int32_t *perm, int ndim, int64_t total) {                                               \
        walk_by_arrays(x, y, in_strides, out_strides, perm, ndim, total);                          \
    }

WALK(2, uint16_t)
WALK(4, uint32_t)

#endif
