/* Rotary embedding: arguments, the choice of a path, the launch. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/rope.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/rope/rope_args.h"
#include "kernels/shared/row.h"

enum kernel { ROTATE, ROTATE_WIDE, QK_NORM_4, QK_NORM_8, QK_NORM_16, QK_NORM_ANY, QK_NORM_BF16 };

static const struct cushim_kernel kernels[] = {
    [ROTATE] = {.name = "rope_rotate_f32"},
    [ROTATE_WIDE] = {.name = "rope_rotate_f32_wide"},
    [QK_NORM_4] = {.name = "rope_qk_norm_4"},
    [QK_NORM_8] = {.name = "rope_qk_norm_8"},
    [QK_NORM_16] = {.name = "rope_qk_norm_16"},
    [QK_NORM_ANY] = {.name = "rope_qk_norm_any"},
    [QK_NORM_BF16] = {.name = "rope_qk_norm_bf16"},
};
CUSHIM_KERNEL_FAMILY(rope, kernels);

enum {
    WIDTH = 4, /* of a wide access */
    WARP_LANES = 32,
    BLOCKS_PER_SM = 32,
    HEADS_PER_BLOCK = 4, /* if there are more heads than the device has places */
};

/* ---- a tensor ---- */

static enum cushim_status launch_rope(const struct cushim_kernel_call *call,
                                      struct rope_args *args) {
    bool is_wide = cushim_is_aligned(16, args->x, args->y, args->cosines, args->sines) &&
                   args->head_dim % WIDTH == 0 && args->half_rotary % WIDTH == 0 &&
                   (args->cos_stride % WIDTH == 0 || args->seq == 1);
    int64_t n_units = (args->head_dim - args->half_rotary) / (is_wide ? WIDTH : 1);
    void *params[] = {args};
    args->by_units = cushim_divider_of(n_units);
    args->by_positions = cushim_divider_of(args->seq);
    /* one thread per unit; a tensor that needs too many blocks does not fit into memory */
    struct cushim_kernel_shape shape = {.grid = {cushim_n_blocks(args->batch * args->seq * n_units,
                                                                 ROPE_ROTATE_THREADS, INT32_MAX)},
                                        .block = {ROPE_ROTATE_THREADS},
                                        .is_dependent = true};
    return cushim_kernel_call_launch(call, is_wide ? ROTATE_WIDE : ROTATE, &shape, params);
}

static void rope_reference(const void *arguments) {
    const struct rope_args *args = arguments;
    cushim_rope_f32_ref(args->x, args->cosines, args->sines, args->y, args->batch, args->seq,
                        args->head_dim, args->half_rotary, args->cos_stride);
}

/* half_rotary is half of what is rotated; the rest of the head is not. */
static enum cushim_status check_half(const char *what, int64_t half_rotary, int64_t head_dim) {
    CUSHIM_TRY(cushim_check_size(what, "head_dim", head_dim));
    CUSHIM_TRY(cushim_check_size(what, "half_rotary", half_rotary));
    if (half_rotary <= head_dim / 2)
        return CUSHIM_OK;
    return cushim_fail(what, CUSHIM_INVALID, "half_rotary=%lld is more than half of head_dim=%lld",
                       (long long)half_rotary, (long long)head_dim);
}

static enum cushim_status check_angles(const char *what, const void *cosines, const void *sines,
                                       size_t elem_bytes, int64_t half_rotary) {
    if (half_rotary == 0)
        return CUSHIM_OK; /* none are read */
    CUSHIM_TRY(cushim_check_pointer(what, "cosines", cosines, elem_bytes));
    return cushim_check_pointer(what, "sines", sines, elem_bytes);
}

enum cushim_status cushim_rope_f32(const float *x, const float *cosines, const float *sines,
                                   float *y, int64_t batch, int64_t seq, int64_t head_dim,
                                   int64_t half_rotary, int64_t cos_stride,
                                   struct CUstream_st *stream) {
    struct rope_args args = {.x = x,
                             .cosines = cosines,
                             .sines = sines,
                             .y = y,
                             .batch = batch,
                             .seq = seq,
                             .head_dim = head_dim,
                             .half_rotary = half_rotary,
                             .cos_stride = cos_stride};
    struct cushim_kernel_call call;
    int64_t n, n_angles, sizes[] = {batch, seq, head_dim}, rows[] = {seq, cos_stride};
    CUSHIM_TRY(cushim_check_size(__func__, "batch", batch));
    CUSHIM_TRY(cushim_check_size(__func__, "seq", seq));
    CUSHIM_TRY(check_half(__func__, half_rotary, head_dim));
    CUSHIM_TRY(cushim_check_size(__func__, "cos_stride", cos_stride));
    CUSHIM_TRY(cushim_check_count(__func__, "x", sizes, 3, sizeof *x, &n));
    CUSHIM_TRY(cushim_check_count(__func__, "cosines", rows, 2, sizeof *cosines, &n_angles));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(__func__, "x", x, sizeof *x));
    CUSHIM_TRY(check_angles(__func__, cosines, sines, sizeof(float), half_rotary));
    CUSHIM_TRY(cushim_check_pointer(__func__, "y", y, sizeof *y));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_rope, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, rope_reference, &args, sizeof args);
    return launch_rope(&call, &args);
}

/* ---- one token's heads ---- */

static enum cushim_status launch_qk_norm(const struct cushim_kernel_call *call,
                                         struct qk_norm_rope_args *args, bool is_bf16) {
    static const struct {
        enum kernel kernel;
        int elements; /* per lane */
    } sizes[] = {{QK_NORM_4, 4}, {QK_NORM_8, 8}, {QK_NORM_16, 16}};
    struct cushim_kernel_shape shape = {.is_dependent = true};
    int64_t most = (int64_t)call->n_sms * BLOCKS_PER_SM;
    void *params[] = {args};
    for (unsigned i = 0; !is_bf16 && i < sizeof sizes / sizeof *sizes; i++) {
        if (args->head_dim > sizes[i].elements * WARP_LANES)
            continue;
        unsigned n_heads = args->n_heads > most ? HEADS_PER_BLOCK : 1; /* per block */
        shape.grid[0] = cushim_n_blocks(args->n_heads, n_heads, most);
        shape.block[0] = n_heads * WARP_LANES;
        shape.shared_bytes =
            n_heads * WARP_LANES * (unsigned)sizes[i].elements * (unsigned)sizeof(float);
        return cushim_kernel_call_launch(call, sizes[i].kernel, &shape, params);
    }
    shape.grid[0] = cushim_n_blocks(args->n_heads, 1, most);
    shape.block[0] = ROPE_LONG_THREADS;
    shape.shared_bytes = CUSHIM_ROW_SHARED_BYTES;
    return cushim_kernel_call_launch(call, is_bf16 ? QK_NORM_BF16 : QK_NORM_ANY, &shape, params);
}

static enum cushim_status run_qk_norm(const char *what, struct qk_norm_rope_args args,
                                      size_t elem_bytes, void (*reference)(const void *args),
                                      struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n, sizes[] = {args.n_heads, args.head_dim};
    CUSHIM_TRY(cushim_check_size(what, "n_heads", args.n_heads));
    CUSHIM_TRY(cushim_check_size(what, "n_q_heads", args.n_q_heads));
    if (args.n_q_heads > args.n_heads)
        return cushim_fail(what, CUSHIM_INVALID, "n_q_heads=%lld is more than n_heads=%lld",
                           (long long)args.n_q_heads, (long long)args.n_heads);
    CUSHIM_TRY(check_half(what, args.half_rotary, args.head_dim));
    CUSHIM_TRY(cushim_check_count(what, "x", sizes, 2, elem_bytes, &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "x", args.x, elem_bytes));
    if (args.n_q_heads > 0)
        CUSHIM_TRY(cushim_check_pointer(what, "w_q", args.w_q, elem_bytes));
    if (args.n_q_heads < args.n_heads)
        CUSHIM_TRY(cushim_check_pointer(what, "w_k", args.w_k, elem_bytes));
    CUSHIM_TRY(check_angles(what, args.cosines, args.sines, elem_bytes, args.half_rotary));
    CUSHIM_TRY(cushim_check_pointer(what, "y", args.y, elem_bytes));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_rope, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &args, sizeof args);
    return launch_qk_norm(&call, &args, elem_bytes == 2);
}

#define QK_NORM_ROPE(name, type)                                                                   \
    static void name##_reference(const void *arguments) {                                          \
        const struct qk_norm_rope_args *args = arguments;                                          \
        cushim_##name##_ref(args->x, args->w_q, args->w_k, args->cosines, args->sines, args->y,    \
                            args->eps, args->n_heads, args->head_dim, args->n_q_heads,             \
                            args->half_rotary);                                                    \
    }                                                                                              \
    enum cushim_status cushim_##name(const type *x, const type *w_q, const type *w_k,              \
                                     const type *cosines, const type *sines, type *y, float eps,   \
                                     int64_t n_heads, int64_t head_dim, int64_t n_q_heads,         \
                                     int64_t half_rotary, struct CUstream_st *stream) {            \
        struct qk_norm_rope_args args = {x,   w_q,     w_k,      cosines,   sines,      y,         \
                                         eps, n_heads, head_dim, n_q_heads, half_rotary};          \
        return run_qk_norm(__func__, args, sizeof(type), name##_reference, stream);                \
    }

QK_NORM_ROPE(qk_norm_rope_f32, float)
QK_NORM_ROPE(qk_norm_rope_bf16, uint16_t)
