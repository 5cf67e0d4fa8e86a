/* The copies into another order as plain loops over the output. */
#include <string.h>

#include "cushim/kernels_ref.h"
#include "kernels/launch/variants.h"

enum { MOST_DIMS = 8 };

void cushim_repeat_f32_ref(const float *x, float *y, int64_t outer, int64_t axis, int64_t inner,
                           int64_t reps) {
    if (outer == 0 || axis == 0 || inner == 0 || reps == 0)
        return;
    for (int64_t row = 0; row < outer * axis; row++) {
        for (int64_t rep = 0; rep < reps; rep++)
            memcpy(y + (row * reps + rep) * inner, x + row * inner, (size_t)inner * sizeof *y);
    }
}

void cushim_strided_copy_ref(const void *src, void *dst, const int64_t *shape,
                             const int64_t *strides, int ndim, size_t elem_bytes) {
    int64_t at[MOST_DIMS] = {0}, from = 0;
    unsigned char *to = dst;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 0)
            return;
    }
    for (;;) {
        memcpy(to, (const unsigned char *)src + from * (int64_t)elem_bytes, elem_bytes);
        to += elem_bytes;
        int d = ndim - 1;
        for (; d >= 0 && ++at[d] == shape[d]; d--) {
            from -= (shape[d] - 1) * strides[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
        from += strides[d];
    }
}

static void transpose(const void *x, void *y, const int64_t *shape, const int32_t *perm, int ndim,
                      size_t elem_bytes) {
    int64_t strides[MOST_DIMS], to_shape[MOST_DIMS], from_strides[MOST_DIMS], stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape[d];
    }
    for (int d = 0; d < ndim; d++) {
        to_shape[d] = shape[perm[d]];
        from_strides[d] = strides[perm[d]];
    }
    cushim_strided_copy_ref(x, y, to_shape, from_strides, ndim, elem_bytes);
}

void cushim_transpose2d_f32_ref(const float *x, float *y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            memcpy(y + c * rows + r, x + r * cols + c, sizeof *y);
    }
}

void cushim_transpose2d_u16_ref(const uint16_t *x, uint16_t *y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            y[c * rows + r] = x[r * cols + c];
    }
}

void cushim_transpose_nd_f32_ref(const float *x, float *y, const int64_t *shape,
                                 const int32_t *perm, int ndim) {
    transpose(x, y, shape, perm, ndim, sizeof *y);
}

void cushim_transpose_nd_u16_ref(const uint16_t *x, uint16_t *y, const int64_t *shape,
                                 const int32_t *perm, int ndim) {
    transpose(x, y, shape, perm, ndim, sizeof *y);
}

/* ---- what libkernels.so needs besides ---- */

static void copy_element(const void *x, int64_t from, void *y, int64_t to, size_t elem_bytes) {
    memcpy((unsigned char *)y + to * (int64_t)elem_bytes,
           (const unsigned char *)x + from * (int64_t)elem_bytes, elem_bytes);
}

void cushim_variant_transpose_walk_ref(const void *x, void *y, const struct cushim_walk *walk,
                                       int64_t total, size_t elem_bytes) {
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, from = 0;
        for (int d = 0; d < walk->ndim; d++) {
            from += rest / walk->out_strides[d] * walk->strides[d];
            rest %= walk->out_strides[d];
        }
        copy_element(x, from, y, i, elem_bytes);
    }
}

/* An out_stride of 0 counts as infinite: its axis stays at 0. */
void cushim_variant_transpose_walk_device_ref(const void *x, void *y, const int32_t *in_strides,
                                              const int32_t *out_strides, const int32_t *perm,
                                              int ndim, int64_t total, size_t elem_bytes) {
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, from = 0;
        for (int d = 0; d < ndim; d++) {
            if (out_strides[d] == 0)
                continue;
            from += rest / out_strides[d] * in_strides[perm[d]];
            rest %= out_strides[d];
        }
        copy_element(x, from, y, i, elem_bytes);
    }
}
