/*
 * libkernels.so: copies in another order.
 *
 * A transpose of many axes comes as strides of input and output, whose arrays may be in host or
 * device memory.  If they are on the host, axes that never move are dropped and neighbours merged.
 * If the result is an ordinary shape it is a strided copy; otherwise it goes step by step.
 */
#include "cushim/kernels/layout.h"

#include "companion/shared.h"
#include "kernels/dropin/enter.h"
#include "kernels/launch/variants.h"

int launch_repeat(const float *src, float *dst, int outerSize, int axisDim, int innerSize, int reps,
                  cudaStream_t stream) {
    FORWARD(stream, cushim_repeat_f32(src, dst, outerSize, axisDim, innerSize, reps, stream));
}

/* Each of the B * numKV heads of S * D elements comes rep times in a row. */
int launch_repeat_interleave_f32(const float *input, float *output, int B, int numKV, int S, int D,
                                 int rep, cudaStream_t stream) {
    if (B < 0 || numKV < 0 || S < 0 || D < 0)
        return DROPIN_INVALID;
    FORWARD(stream, cushim_repeat_f32(input, output, B, numKV, (int64_t)S * D, rep, stream));
}

int launch_transpose_2d(const float *input, float *output, int rows, int cols,
                        cudaStream_t stream) {
    FORWARD(stream, cushim_transpose2d_f32(input, output, rows, cols, stream));
}

int launch_transpose_2d_bf16(const unsigned short *input, unsigned short *output, int rows,
                             int cols, cudaStream_t stream) {
    FORWARD(stream, cushim_transpose2d_u16(input, output, rows, cols, stream));
}

/* ---- many axes ---- */

struct transpose {
    const void *input;
    void *output;
    const int *in_strides, *out_strides, *perm;
    int ndim, total;
    size_t elem_bytes;
};

enum place { PAGEABLE, PINNED, ON_DEVICE };

/*
 * Managed memory counts as the device's.  The driver does not know pageable memory, and may know
 * nothing at all if no context is current.
 */
static enum place place_of(const void *pointer) {
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    unsigned is_managed = 0;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    if (!CUSHIM_DRIVER(cuPointerGetAttribute) ||
        CUSHIM_DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
            CUDA_SUCCESS)
        return PAGEABLE;
    if (CUSHIM_DRIVER(cuPointerGetAttribute)(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                             address) == CUDA_SUCCESS &&
        is_managed)
        return ON_DEVICE;
    return type == CU_MEMORYTYPE_HOST ? PINNED : ON_DEVICE;
}

/* Add a step of the walk: of the axis `out_stride`, in an element i < total. */
static bool add_axis(struct cushim_walk *walk, int64_t out_stride, int64_t stride) {
    int last = walk->ndim - 1;
    if (walk->ndim && walk->out_strides[last] % out_stride == 0 &&
        walk->strides[last] == walk->out_strides[last] / out_stride * stride) {
        walk->out_strides[last] = out_stride; /* both together are one step of the finer one */
        walk->strides[last] = stride;
        return true;
    }
    if (walk->ndim == CUSHIM_WALK_MOST_DIMS)
        return false;
    walk->out_strides[walk->ndim] = out_stride;
    walk->strides[walk->ndim++] = stride;
    return true;
}

/* This is an error, because upstream would divide by a stride of 0 or read beyond the arrays. */
static bool read_walk(const struct transpose *args, struct cushim_walk *walk) {
    int64_t most = (int64_t)args->total - 1; /* the largest rest before an axis */
    walk->ndim = 0;
    for (int d = 0; d < args->ndim; d++) {
        int axis = args->perm[d];
        if (args->out_strides[d] == 0 || axis < 0 || axis >= args->ndim)
            return false;
        int64_t out_stride = args->out_strides[d], stride = args->in_strides[axis];
        if (out_stride < 0) { /* only the quotient changes its sign, the rest is the same */
            out_stride = -out_stride;
            stride = -stride;
        }
        if (most < out_stride)
            continue; /* the index is always 0 */
        if (!add_axis(walk, out_stride, stride))
            return false;
        most = out_stride - 1;
    }
    return true;
}

/* Whether the walk goes over all elements of a contiguous shape. */
static bool is_shape(const struct cushim_walk *walk, int64_t total,
                     int64_t shape[CUSHIM_WALK_MOST_DIMS]) {
    int64_t outer = total;
    for (int d = 0; d < walk->ndim; d++) {
        if (outer % walk->out_strides[d])
            return false;
        shape[d] = outer / walk->out_strides[d];
        outer = walk->out_strides[d];
    }
    return outer == 1;
}

static enum cushim_status walk_by_value(const struct transpose *args, cudaStream_t stream) {
    struct cushim_walk walk;
    int64_t shape[CUSHIM_WALK_MOST_DIMS];
    if (!read_walk(args, &walk))
        return cushim_fail(__func__, CUSHIM_INVALID,
                           "an out_stride of 0, an axis outside of ndim=%d, or more than %d axes "
                           "that do not merge",
                           args->ndim, CUSHIM_WALK_MOST_DIMS);
    if (is_shape(&walk, args->total, shape))
        return cushim_strided_copy(args->input, args->output, shape, walk.strides, walk.ndim,
                                   args->elem_bytes, stream);
    return cushim_variant_transpose_walk(args->input, args->output, &walk, args->total,
                                         args->elem_bytes, stream);
}

static enum cushim_status walk_on_device(const struct transpose *args, cudaStream_t stream) {
    return cushim_variant_transpose_walk_device(args->input, args->output, args->in_strides,
                                                args->out_strides, args->perm, args->ndim,
                                                args->total, args->elem_bytes, stream);
}

static enum cushim_status walk(const struct transpose *args, cudaStream_t stream) {
    if (cushim_driver_use(__func__) != CUSHIM_OK)
        return walk_by_value(args, stream); /* it reports the error */
    enum place places[] = {place_of(args->in_strides), place_of(args->out_strides),
                           place_of(args->perm)};
    bool has_device = false, has_pageable = false;
    for (int i = 0; i < 3; i++) {
        has_device |= places[i] == ON_DEVICE;
        has_pageable |= places[i] == PAGEABLE;
    }
    if (has_device && has_pageable)
        return cushim_fail(__func__, CUSHIM_INVALID, "strides in device and in pageable memory");
    return has_device ? walk_on_device(args, stream) : walk_by_value(args, stream);
}

static int transpose(const struct transpose *args, cudaStream_t stream) {
    struct dropin_scope scope;
    if (args->ndim < 0 || args->total < 0)
        return DROPIN_INVALID;
    if (args->total == 0)
        return DROPIN_OK;
    if (args->ndim == 0)
        FORWARD(stream, walk_by_value(args, stream));
    if (!args->in_strides || !args->out_strides || !args->perm)
        return DROPIN_INVALID;
    cushim_dropin_enter_context(&scope, stream);
    return cushim_dropin_leave(&scope, walk(args, stream));
}

int launch_transpose_nd(const float *input, float *output, const int *in_strides,
                        const int *out_strides, const int *perm, int ndim, int total,
                        cudaStream_t stream) {
    struct transpose args = {input, output, in_strides, out_strides,
                             perm,  ndim,   total,      sizeof *input};
    return transpose(&args, stream);
}

int launch_transpose_nd_bf16(const unsigned short *input, unsigned short *output,
                             const int *in_strides, const int *out_strides, const int *perm,
                             int ndim, int total, cudaStream_t stream) {
    struct transpose args = {input, output, in_strides, out_strides,
                             perm,  ndim,   total,      sizeof *input};
    return transpose(&args, stream);
}
