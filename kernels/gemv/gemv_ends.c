/*
 * Products with a column, with what stands before and behind them in a model: arguments, and the
 * launch.
 *
 * One kernel does it if all weights are q4k and blocks stay on the matrix units (sm_90).  Otherwise
 * the norm, the products and their end are separate kernels, connected by scratch.
 */
#include "cushim/kernels/gemv.h"
#include "cushim/kernels/norm.h"
#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/gemv/gemv_direct.h"
#include "kernels/gemv/gemv_ends.h"
#include "kernels/gemv/gemv_forms.h"
#include "kernels/launch/arguments.h"

enum { PAIRS = GEMV_DIRECT_ROWS / 2 };

/* A call; m counts rows of w. */
struct product {
    struct gemv_rows w;
    const float *x;
    int64_t m, k;
    struct gemv_end_args end;
    void *scratch;
    size_t scratch_bytes;
};

/* How a product ends: the kernel that does it all, or the one behind the products. */
struct ending {
    const char *what; /* the public function */
    unsigned in_one, behind;
    void (*reference)(const void *args);
};

size_t cushim_gemv_q4k_scratch(int64_t m, int64_t k) {
    int64_t n;
    if (m <= 0 || k < 0 || __builtin_add_overflow(m, k, &n) ||
        __builtin_mul_overflow(n, (int64_t)sizeof(float), &n))
        return 0;
    return (size_t)n; /* products, and x with its norm */
}

/* ---- checks ---- */

static enum cushim_status check_sizes(const char *what, const struct product *args) {
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "k", args->k));
    for (int i = 0; i < args->w.n; i++) {
        struct quant_layout layout = cushim_quant_layout(args->w.of[i].format);
        CUSHIM_TRY(cushim_check_multiple(what, "k", args->k, layout.values));
        CUSHIM_TRY(cushim_check_count(what, "w", (int64_t[]){args->m, args->k / layout.values}, 2,
                                      (size_t)layout.bytes, &n));
    }
    return cushim_check_count(what, "x", &args->k, 1, sizeof(float), &n);
}

static enum cushim_status check_pointers(const char *what, const struct product *args) {
    size_t least = cushim_gemv_q4k_scratch(args->m, args->k);
    if (args->k) {
        for (int i = 0; i < args->w.n; i++)
            CUSHIM_TRY(
                cushim_check_pointer(what, "w", args->w.of[i].w.head,
                                     (size_t)cushim_quant_layout(args->w.of[i].format).alignment));
        CUSHIM_TRY(cushim_check_pointer(what, "x", args->x, sizeof(float)));
        if (args->end.norm)
            CUSHIM_TRY(cushim_check_pointer(what, "norm", args->end.norm, sizeof(float)));
    }
    CUSHIM_TRY(cushim_check_pointer(what, "scratch", args->scratch, sizeof(float)));
    return args->scratch_bytes >= least
               ? CUSHIM_OK
               : cushim_fail(what, CUSHIM_INVALID, "scratch_bytes=%zu is less than %zu",
                             args->scratch_bytes, least);
}

/* ---- launches ---- */

/*
 * Whether one kernel does it: weights lie at multiples of 16, the eight pairs of a tile are in one
 * head, and an int32_t holds the bytes between their rows.
 */
static bool is_direct(const struct cushim_kernel_call *call, const struct product *args,
                      struct gemv_direct *direct) {
    const struct quant_layout layout = cushim_quant_layout(QUANT_Q4K);
    int64_t half = args->end.half, row_bytes = args->k / layout.values * layout.bytes;
    struct gemv_direct_sizes sizes = {
        .n_tiles = half ? (args->m / 2 - 1) / PAIRS + 1 : (args->m - 1) / GEMV_DIRECT_ROWS + 1,
        .n_steps = args->k / GEMV_DIRECT_STEP,
        .tile_bytes = GEMV_DIRECT_ROWS * row_bytes,
        .n_cols = 1,
        .column_bytes = GEMV_DIRECT_DIGITS_OF_SUPER,
        .bytes_of_warp = GEMV_DIRECT_NORM_BYTES + GEMV_DIRECT_STAGED(layout.bytes),
        .early_bytes = GEMV_DIRECT_EARLY_OF_MORE,
        .is_alone = true};
    return args->w.n == 1 && args->w.of[0].format == QUANT_Q4K &&
           cushim_is_aligned(16, args->w.of[0].w.head, args->x, args->end.norm, NULL) &&
           args->m <= INT32_MAX && (half % PAIRS == 0 || half == args->m / 2) &&
           (half + PAIRS) * row_bytes <= INT32_MAX &&
           cushim_gemv_direct_shape(call, direct, &sizes);
}

/* The products are at the start of scratch. */
static enum cushim_status launch_behind(const struct cushim_kernel_call *call, unsigned kernel,
                                        struct product *args) {
    enum { THREADS = 256, BLOCKS_PER_SM = 4 };
    int64_t n = args->end.half ? args->m / 2 : args->m;
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(n, THREADS, (int64_t)call->n_sms * BLOCKS_PER_SM)},
        .block = {THREADS},
        .is_dependent = true};
    void *params[] = {&args->scratch, &args->m, &args->end};
    return cushim_kernel_call_launch(call, kernel, &shape, params);
}

static enum cushim_status run(const struct ending *ending, struct product *args,
                              struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct gemv_direct direct;
    float *products = args->scratch, *normed = products + args->m;
    const float *x = args->x;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, ending->what, &cushim_family_gemv, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, ending->reference, args, sizeof *args);
    if (is_direct(&call, args, &direct)) {
        void *params[] = {&args->w.of[0].w.head, &args->x,  &args->m, &args->k, &direct.most_tiles,
                          &direct.early_bytes,   &args->end};
        return cushim_kernel_call_launch(&call, ending->in_one, &direct.shape, params);
    }
    if (args->end.norm && args->k) {
        CUSHIM_TRY(cushim_rms_norm_f32(x, args->end.norm, normed, NULL, args->end.eps, 1, args->k,
                                       stream));
        x = normed;
    }
    for (int i = 0; i < args->w.n; products += args->w.of[i++].m)
        CUSHIM_TRY(cushim_gemv_multiply(ending->what,
                                        (struct gemv_product){args->w.of[i].format, args->w.of[i].w,
                                                              x, products, args->w.of[i].m, args->k,
                                                              .n = 1, .is_column = true},
                                        stream));
    return launch_behind(&call, ending->behind, args);
}

/* ---- the calls ---- */

static void add_reference(const void *args) {
    const struct product *a = args;
    cushim_gemv_add_ref(a->w, a->x, a->end.residual, a->end.y, a->m, a->k);
}

enum cushim_status cushim_gemv_add(struct gemv_how how, struct gemv_rows w, const float *x,
                                   const float *residual, float *y, int64_t m, int64_t k,
                                   void *scratch, size_t scratch_bytes,
                                   struct CUstream_st *stream) {
    const struct ending ending = {how.what, how.is_early ? GEMV_Q4K_ADD_EARLY : GEMV_Q4K_ADD,
                                  GEMV_END_ADD, add_reference};
    struct product args = {w, x, m, k, {.residual = residual, .y = y}, scratch, scratch_bytes};
    int64_t n;
    CUSHIM_TRY(cushim_check_size(how.what, "m", m));
    cushim_gemv_split(&args.w, m, 0, 0);
    CUSHIM_TRY(check_sizes(how.what, &args));
    CUSHIM_TRY(cushim_check_count(how.what, "y", &m, 1, sizeof(float), &n));
    if (m == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(check_pointers(how.what, &args));
    CUSHIM_TRY(cushim_check_pointer(how.what, "residual", residual, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(how.what, "y", y, sizeof(float)));
    return run(&ending, &args, stream);
}

enum cushim_status cushim_gemv_add_q4k_f32(const void *w, const float *x, const float *residual,
                                           float *y, int64_t m, int64_t k, void *scratch,
                                           size_t scratch_bytes, struct CUstream_st *stream) {
    return cushim_gemv_add((struct gemv_how){__func__, false}, cushim_gemv_rows_of_q4k(w), x,
                           residual, y, m, k, scratch, scratch_bytes, stream);
}

static void swiglu_reference(const void *args) {
    const struct product *a = args;
    cushim_gemv_swiglu_ref(a->w, a->x, a->end.norm, a->end.y, a->end.eps, a->m / 2, a->k);
}

enum cushim_status cushim_gemv_swiglu(struct gemv_how how, struct gemv_rows w, const float *x,
                                      const float *norm, float *y, float eps, int64_t m, int64_t k,
                                      void *scratch, size_t scratch_bytes,
                                      struct CUstream_st *stream) {
    const struct ending ending = {how.what, how.is_early ? GEMV_Q4K_SWIGLU_EARLY : GEMV_Q4K_SWIGLU,
                                  GEMV_END_SWIGLU, swiglu_reference};
    struct product args = {w, x, 0, k, {.norm = norm, .eps = eps, .y = y}, scratch, scratch_bytes};
    CUSHIM_TRY(cushim_check_size(how.what, "m", m));
    if (m > INT32_MAX)
        return cushim_fail(how.what, CUSHIM_INVALID, "m=%lld is more than can be counted",
                           (long long)m);
    args.m = 2 * m;
    args.end.half = (int32_t)m;
    cushim_gemv_split(&args.w, m, m, 0);
    CUSHIM_TRY(check_sizes(how.what, &args));
    if (m == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(check_pointers(how.what, &args));
    CUSHIM_TRY(cushim_check_pointer(how.what, "y", y, sizeof(float)));
    return run(&ending, &args, stream);
}

enum cushim_status cushim_gemv_swiglu_q4k_f32(const void *w, const float *x, const float *norm,
                                              float *y, float eps, int64_t m, int64_t k,
                                              void *scratch, size_t scratch_bytes,
                                              struct CUstream_st *stream) {
    return cushim_gemv_swiglu((struct gemv_how){__func__, false}, cushim_gemv_rows_of_q4k(w), x,
                              norm, y, eps, m, k, scratch, scratch_bytes, stream);
}

static void qkv_reference(const void *args) {
    const struct product *a = args;
    const struct gemv_end_args *e = &a->end;
    cushim_gemv_qkv_ref(a->w, a->x, e->norm, e->bias, e->cosines, e->sines, e->position, e->y,
                        e->keys, e->values, e->eps, e->n_q_heads, e->n_kv_heads,
                        2 * (int64_t)e->half, a->k, e->max_len, e->position_stride, e->head_stride);
}

static enum cushim_status check_heads(const char *what, int64_t n_q_heads, int64_t n_kv_heads,
                                      int64_t head_dim, int64_t *m) {
    CUSHIM_TRY(cushim_check_size(what, "n_q_heads", n_q_heads));
    CUSHIM_TRY(cushim_check_size(what, "n_kv_heads", n_kv_heads));
    CUSHIM_TRY(cushim_check_size(what, "head_dim", head_dim));
    CUSHIM_TRY(cushim_check_multiple(what, "head_dim", head_dim, 2));
    if (head_dim == 0)
        return cushim_fail(what, CUSHIM_INVALID, "head_dim=0");
    if (n_q_heads > INT32_MAX || n_kv_heads > INT32_MAX || head_dim > INT32_MAX ||
        __builtin_mul_overflow(n_q_heads + 2 * n_kv_heads, head_dim, m) || *m > INT32_MAX)
        return cushim_fail(what, CUSHIM_INVALID, "w has more rows than can be counted");
    return CUSHIM_OK;
}

/* Keys and values lie in the same way. */
static enum cushim_status check_cache(const char *what, const struct gemv_end_args *end) {
    int64_t position, head, n;
    if (end->n_kv_heads == 0 || end->max_len == 0)
        return CUSHIM_OK;
    if (__builtin_mul_overflow(end->max_len - 1, end->position_stride, &position) ||
        __builtin_mul_overflow((int64_t)end->n_kv_heads - 1, end->head_stride, &head) ||
        __builtin_add_overflow(position, head, &n) ||
        __builtin_add_overflow(n, 2 * (int64_t)end->half, &n) ||
        __builtin_mul_overflow(n, (int64_t)sizeof(float), &n))
        return cushim_fail(what, CUSHIM_INVALID, "keys reach more bytes than can be counted");
    CUSHIM_TRY(cushim_check_pointer(what, "keys", end->keys, sizeof(float)));
    return cushim_check_pointer(what, "values", end->values, sizeof(float));
}

enum cushim_status cushim_gemv_qkv(struct gemv_how how, struct gemv_rows w, const float *x,
                                   const float *norm, const float *bias, const float *cos_table,
                                   const float *sin_table, const int32_t *position, float *q,
                                   float *keys, float *values, float eps, int64_t n_q_heads,
                                   int64_t n_kv_heads, int64_t head_dim, int64_t k, int64_t max_len,
                                   int64_t position_stride, int64_t head_stride, void *scratch,
                                   size_t scratch_bytes, struct CUstream_st *stream) {
    const struct ending ending = {how.what, how.is_early ? GEMV_Q4K_QKV_EARLY : GEMV_Q4K_QKV,
                                  GEMV_END_QKV, qkv_reference};
    struct product args = {
        .w = w, .x = x, .k = k, .scratch = scratch, .scratch_bytes = scratch_bytes};
    int64_t n;
    CUSHIM_TRY(check_heads(how.what, n_q_heads, n_kv_heads, head_dim, &args.m));
    cushim_gemv_split(&args.w, n_q_heads * head_dim, n_kv_heads * head_dim, n_kv_heads * head_dim);
    CUSHIM_TRY(check_sizes(how.what, &args));
    CUSHIM_TRY(cushim_check_size(how.what, "max_len", max_len));
    CUSHIM_TRY(cushim_check_size(how.what, "position_stride", position_stride));
    CUSHIM_TRY(cushim_check_size(how.what, "head_stride", head_stride));
    CUSHIM_TRY(cushim_check_count(how.what, "cos_table", (int64_t[]){max_len, head_dim / 2}, 2,
                                  sizeof(float), &n));
    if (args.m == 0)
        return CUSHIM_OK;
    args.end = (struct gemv_end_args){.norm = norm,
                                      .eps = eps,
                                      .half = (int32_t)(head_dim / 2),
                                      .y = q,
                                      .bias = bias,
                                      .cosines = cos_table,
                                      .sines = sin_table,
                                      .position = position,
                                      .keys = keys,
                                      .values = values,
                                      .n_q_heads = (int32_t)n_q_heads,
                                      .n_kv_heads = (int32_t)n_kv_heads,
                                      .position_stride = position_stride,
                                      .head_stride = head_stride,
                                      .max_len = max_len};
    CUSHIM_TRY(check_pointers(how.what, &args));
    if (max_len) {
        CUSHIM_TRY(cushim_check_pointer(how.what, "cos_table", cos_table, sizeof(float)));
        CUSHIM_TRY(cushim_check_pointer(how.what, "sin_table", sin_table, sizeof(float)));
    }
    if (bias)
        CUSHIM_TRY(cushim_check_pointer(how.what, "bias", bias, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(how.what, "position", position, sizeof(int32_t)));
    if (n_q_heads)
        CUSHIM_TRY(cushim_check_pointer(how.what, "q", q, sizeof(float)));
    CUSHIM_TRY(check_cache(how.what, &args.end));
    return run(&ending, &args, stream);
}

enum cushim_status cushim_gemv_qkv_q4k_f32(const void *w, const float *x, const float *norm,
                                           const float *cos_table, const float *sin_table,
                                           const int32_t *position, float *q, float *keys,
                                           float *values, float eps, int64_t n_q_heads,
                                           int64_t n_kv_heads, int64_t head_dim, int64_t k,
                                           int64_t max_len, int64_t position_stride,
                                           int64_t head_stride, void *scratch, size_t scratch_bytes,
                                           struct CUstream_st *stream) {
    return cushim_gemv_qkv((struct gemv_how){__func__, false}, cushim_gemv_rows_of_q4k(w), x, norm,
                           NULL, cos_table, sin_table, position, q, keys, values, eps, n_q_heads,
                           n_kv_heads, head_dim, k, max_len, position_stride, head_stride, scratch,
                           scratch_bytes, stream);
}
