/* Repetition: arguments, the choice of a path, the launch. */
#include "cushim/kernels/layout.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/shared/divider.h"
#include "kernels/layout/layout.h"

/*
 * x is read again for every repetition if its rows are shorter than a line, or if a multiprocessor
 * gets fewer pieces of it than a block takes.
 */
enum {
    LINE_BYTES = 128,
    PIECES_PER_SM = LAYOUT_BLOCK_THREADS * LAYOUT_REPEAT_FLYING,
    FLOATS_A_PIECE = 4
};

struct repeat {
    const float *x;
    float *y;
    int64_t outer, axis, inner, reps;
};

static void run_reference(const void *args) {
    const struct repeat *r = args;
    cushim_repeat_f32_ref(r->x, r->y, r->outer, r->axis, r->inner, r->reps);
}

static enum cushim_status launch(const struct cushim_kernel_call *call, struct repeat *r) {
    bool is_wide = r->inner % FLOATS_A_PIECE == 0 && cushim_is_aligned(16, r->x, r->y, NULL, NULL);
    int64_t row = is_wide ? r->inner / FLOATS_A_PIECE : r->inner, n_in = r->outer * r->axis * row,
            n_out = n_in * r->reps;
    bool is_by_output = r->inner * (int64_t)sizeof(float) < LINE_BYTES ||
                        n_in < (int64_t)call->n_sms * PIECES_PER_SM;
    int64_t n = is_by_output ? n_out : n_in;
    struct cushim_divider by_row = cushim_divider_of(row),
                          by_rows = cushim_divider_of(is_by_output ? row * r->reps : 1);
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(
            n, LAYOUT_BLOCK_THREADS * (is_by_output ? LAYOUT_FLYING : LAYOUT_REPEAT_FLYING),
            (int64_t)call->n_sms * LAYOUT_BLOCKS_PER_SM)},
        .block = {LAYOUT_BLOCK_THREADS}};
    void *params[] = {&r->x, &r->y, &n, &by_row,
                      is_by_output ? (void *)&by_rows : (void *)&r->reps};
    unsigned kernel = (is_wide ? LAYOUT_REPEAT_16 : LAYOUT_REPEAT_4) +
                      (is_by_output ? LAYOUT_REPEAT_4_OUT - LAYOUT_REPEAT_4 : 0) +
                      (n > INT32_MAX ? LAYOUT_REPEAT_4_LARGE - LAYOUT_REPEAT_4 : 0);
    return cushim_kernel_call_launch(call, kernel, &shape, params);
}

enum cushim_status cushim_repeat_f32(const float *x, float *y, int64_t outer, int64_t axis,
                                     int64_t inner, int64_t reps, struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct repeat r = {x, y, outer, axis, inner, reps};
    int64_t n;
    CUSHIM_TRY(cushim_check_size(__func__, "outer", outer));
    CUSHIM_TRY(cushim_check_size(__func__, "axis", axis));
    CUSHIM_TRY(cushim_check_size(__func__, "inner", inner));
    CUSHIM_TRY(cushim_check_size(__func__, "reps", reps));
    CUSHIM_TRY(cushim_check_count(__func__, "y", (int64_t[]){outer, axis, inner, reps}, 4,
                                  sizeof(float), &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(__func__, "x", x, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(__func__, "y", y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_layout, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, run_reference, &r, sizeof r);
    return launch(&call, &r);
}
