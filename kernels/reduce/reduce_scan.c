/* The selective scan: arguments and launch. */
#include "cushim/kernels/reduce.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/arguments.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/reduce_scan.h"

static void scan_reference(const void *of) {
    const struct scan_args *args = of;
    cushim_selective_scan_f32_ref(args->x, args->a, args->b, args->c, args->d, args->y, args->batch,
                                  args->n_channels, args->n_states, args->seq);
}

enum cushim_status cushim_selective_scan_f32(const float *x, const float *a, const float *b,
                                             const float *c, const float *d, float *y,
                                             int64_t batch, int64_t n_channels, int64_t n_states,
                                             int64_t seq, struct CUstream_st *stream) {
    const char *what = __func__;
    struct cushim_kernel_call call;
    struct scan_args args = {x, a, b, c, d, y, batch, n_channels, n_states, seq};
    int64_t n, n_of_a, n_of_b;
    CUSHIM_TRY(cushim_check_size(what, "batch", batch));
    CUSHIM_TRY(cushim_check_size(what, "n_channels", n_channels));
    CUSHIM_TRY(cushim_check_size(what, "n_states", n_states));
    CUSHIM_TRY(cushim_check_size(what, "seq", seq));
    CUSHIM_TRY(cushim_check_count(what, "a", (int64_t[]){n_channels, n_states}, 2, sizeof(float),
                                  &n_of_a));
    CUSHIM_TRY(cushim_check_count(what, "b", (int64_t[]){batch, n_states, seq}, 3, sizeof(float),
                                  &n_of_b));
    CUSHIM_TRY(
        cushim_check_count(what, "x", (int64_t[]){batch, n_channels, seq}, 3, sizeof(float), &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "x", x, sizeof(float)));
    if (n_states > 0) {
        CUSHIM_TRY(cushim_check_pointer(what, "a", a, sizeof(float)));
        CUSHIM_TRY(cushim_check_pointer(what, "b", b, sizeof(float)));
        CUSHIM_TRY(cushim_check_pointer(what, "c", c, sizeof(float)));
    }
    if (d)
        CUSHIM_TRY(cushim_check_pointer(what, "d", d, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "y", y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_reduce, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, scan_reference, &args, sizeof args);
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(batch * n_channels, REDUCE_SCAN_THREADS / REDUCE_SCAN_LANES,
                                 INT32_MAX)},
        .block = {REDUCE_SCAN_THREADS}};
    void *params[] = {&args};
    return cushim_kernel_call_launch(&call, REDUCE_SELECTIVE_SCAN, &shape, params);
}
