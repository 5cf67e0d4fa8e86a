/* The walks that libkernels.so needs besides cushim_strided_copy: arguments and the launch. */
#include "companion/shared.h"
#include "kernels/launch/variants.h"

#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/layout/layout.h"

struct walk {
    const void *x;
    void *y;
    struct cushim_walk walk;
    const int32_t *in_strides, *out_strides, *perm;
    int ndim;
    int64_t total;
    size_t elem_bytes;
};

/* ---- both ---- */

static enum cushim_status check(const char *what, int ndim, int most_dims, int64_t total,
                                size_t elem_bytes) {
    int64_t n;
    if (ndim < 0 || ndim > most_dims)
        return cushim_fail(what, CUSHIM_INVALID, "ndim=%d is not in 0 .. %d", ndim, most_dims);
    if (elem_bytes != 2 && elem_bytes != 4)
        return cushim_fail(what, CUSHIM_INVALID, "elem_bytes=%zu is neither 2 nor 4", elem_bytes);
    CUSHIM_TRY(cushim_check_size(what, "total", total));
    return cushim_check_count(what, "y", &total, 1, elem_bytes, &n);
}

static enum cushim_status check_tensors(const char *what, const struct walk *w) {
    CUSHIM_TRY(cushim_check_pointer(what, "x", w->x, w->elem_bytes));
    return cushim_check_pointer(what, "y", w->y, w->elem_bytes);
}

static struct cushim_kernel_shape shape_of(const struct cushim_kernel_call *call,
                                           const struct walk *w) {
    return (struct cushim_kernel_shape){
        .grid = {cushim_n_blocks(w->total, LAYOUT_BLOCK_THREADS,
                                 (int64_t)call->n_sms * LAYOUT_BLOCKS_PER_SM)},
        .block = {LAYOUT_BLOCK_THREADS}};
}

/* ---- passed by value ---- */

static void run_reference(const void *args) {
    const struct walk *w = args;
    cushim_variant_transpose_walk_ref(w->x, w->y, &w->walk, w->total, w->elem_bytes);
}

enum cushim_status cushim_variant_transpose_walk(const void *x, void *y,
                                                 const struct cushim_walk *walk, int64_t total,
                                                 size_t elem_bytes, struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    CUSHIM_TRY(cushim_check_host(__func__, "walk", walk));
    CUSHIM_TRY(check(__func__, walk->ndim, CUSHIM_WALK_MOST_DIMS, total, elem_bytes));
    for (int d = 0; d < walk->ndim; d++) {
        if (walk->out_strides[d] == 0)
            return CUSHIM_FAIL(CUSHIM_INVALID, "out_strides[%d]=0", d);
    }
    if (total == 0)
        return CUSHIM_OK;
    struct walk w = {.x = x, .y = y, .walk = *walk, .total = total, .elem_bytes = elem_bytes};
    CUSHIM_TRY(check_tensors(__func__, &w));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_layout, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, run_reference, &w, sizeof w);
    struct cushim_kernel_shape shape = shape_of(&call, &w);
    void *params[] = {&w.x, &w.y, &w.walk, &w.total};
    return cushim_kernel_call_launch(&call, elem_bytes == 2 ? LAYOUT_WALK_2 : LAYOUT_WALK_4, &shape,
                                     params);
}

/* ---- from arrays on the device ---- */

static void run_reference_arrays(const void *args) {
    const struct walk *w = args;
    cushim_variant_transpose_walk_device_ref(w->x, w->y, w->in_strides, w->out_strides, w->perm,
                                             w->ndim, w->total, w->elem_bytes);
}

enum cushim_status
cushim_variant_transpose_walk_device(const void *x, void *y, const int32_t *in_strides,
                                     const int32_t *out_strides, const int32_t *perm, int ndim,
                                     int64_t total, size_t elem_bytes, struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct walk w = {.x = x,
                     .y = y,
                     .in_strides = in_strides,
                     .out_strides = out_strides,
                     .perm = perm,
                     .ndim = ndim,
                     .total = total,
                     .elem_bytes = elem_bytes};
    CUSHIM_TRY(check(__func__, ndim, INT32_MAX, total, elem_bytes));
    if (total == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(check_tensors(__func__, &w));
    if (ndim > 0) {
        CUSHIM_TRY(cushim_check_pointer(__func__, "in_strides", in_strides, sizeof *in_strides));
        CUSHIM_TRY(cushim_check_pointer(__func__, "out_strides", out_strides, sizeof *out_strides));
        CUSHIM_TRY(cushim_check_pointer(__func__, "perm", perm, sizeof *perm));
    }
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_layout, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, run_reference_arrays, &w, sizeof w);
    struct cushim_kernel_shape shape = shape_of(&call, &w);
    void *params[] = {&w.x, &w.y, &w.in_strides, &w.out_strides, &w.perm, &w.ndim, &w.total};
    return cushim_kernel_call_launch(
        &call, elem_bytes == 2 ? LAYOUT_WALK_2_ARRAYS : LAYOUT_WALK_4_ARRAYS, &shape, params);
}
