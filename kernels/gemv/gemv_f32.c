/*
 * Products of floats, of a matrix with one column and of many small matrices: arguments, the
 * launch.
 */
#include "cushim/kernels/gemv.h"
#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/gemv/gemv_kernels.h"

enum { BLOCK_THREADS = 256, BLOCK_WARPS = 8, BLOCKS_PER_SM = 8 };

/* ---- one column ---- */

struct gemv {
    const float *a, *x;
    float *y;
    int64_t m, n;
};

/* One cluster per row, if even a block per row leaves most of the device idle. */
static enum cushim_status launch_split(const struct cushim_kernel_call *call, struct gemv *args,
                                       unsigned cluster) {
    struct cushim_kernel_shape shape = {.grid = {(unsigned)args->m * cluster},
                                        .block = {BLOCK_THREADS},
                                        .cluster = cluster,
                                        .shared_bytes = GEMV_SPLIT_BYTES,
                                        .is_dependent = true};
    void *params[] = {&args->a, &args->x, &args->y, &args->n};
    return cushim_kernel_call_launch(call, GEMV_F32_SPLIT_WIDE, &shape, params);
}

static enum cushim_status launch_gemv(const struct cushim_kernel_call *call, struct gemv *args) {
    enum { VALUES_OF_WARP = 256, VALUES_OF_BLOCK = 4096, LONG_ROW = 8192 };
    bool is_wide = cushim_is_aligned(16, args->a, args->x, NULL, NULL) && args->n % 4 == 0;
    unsigned cluster = 1;
    while (is_wide && call->has_clusters && cluster < CUSHIM_PORTABLE_CLUSTER &&
           args->m * cluster < call->n_sms && 2 * cluster * VALUES_OF_BLOCK <= args->n)
        cluster *= 2;
    if (cluster > 1)
        return launch_split(call, args, cluster);
    int64_t enough = 2 * BLOCK_WARPS * (int64_t)call->n_sms; /* warps */
    bool has_many = is_wide && args->m / 4 * BLOCK_WARPS >= enough;
    int64_t rows_of_warp = has_many ? 4 : 1;
    /* All warps of a block share long rows, and blocks are no larger than that, because they end
     * evenly; a few large ones leave multiprocessors idle at the end.  With very many rows that
     * are not so long, each warp has its own row. */
    bool ends_evenly =
        args->n < LONG_ROW && args->m / (4 * BLOCK_WARPS) >= 16 * (int64_t)call->n_sms;
    int warps = 1;
    while (!ends_evenly && warps < BLOCK_WARPS && 2 * warps * VALUES_OF_WARP <= args->n)
        warps *= 2;
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(args->m, BLOCK_WARPS / warps * rows_of_warp,
                                 warps == BLOCK_WARPS ? INT32_MAX
                                                      : (int64_t)call->n_sms * BLOCKS_PER_SM)},
        .block = {BLOCK_THREADS},
        .is_dependent = true};
    void *params[] = {&args->a, &args->x, &args->y, &args->m, &args->n, &warps};
    return cushim_kernel_call_launch(call,
                                     has_many  ? GEMV_F32_R4_WIDE
                                     : is_wide ? GEMV_F32_R1_WIDE
                                               : GEMV_F32_R1,
                                     &shape, params);
}

static void gemv_f32_reference(const void *args) {
    const struct gemv *gemv = args;
    cushim_gemv_f32_ref(gemv->a, gemv->x, gemv->y, gemv->m, gemv->n);
}

enum cushim_status cushim_gemv_f32(const float *a, const float *x, float *y, int64_t m, int64_t n,
                                   struct CUstream_st *stream) {
    const char *what = __func__;
    struct cushim_kernel_call call;
    int64_t n_of_a, n_of_x, n_of_y;
    CUSHIM_TRY(cushim_check_size(what, "m", m));
    CUSHIM_TRY(cushim_check_size(what, "n", n));
    CUSHIM_TRY(cushim_check_count(what, "a", (int64_t[]){m, n}, 2, sizeof(float), &n_of_a));
    CUSHIM_TRY(cushim_check_count(what, "x", &n, 1, sizeof(float), &n_of_x));
    CUSHIM_TRY(cushim_check_count(what, "y", &m, 1, sizeof(float), &n_of_y));
    if (m == 0)
        return CUSHIM_OK;
    if (n) {
        CUSHIM_TRY(cushim_check_pointer(what, "a", a, sizeof(float)));
        CUSHIM_TRY(cushim_check_pointer(what, "x", x, sizeof(float)));
    }
    CUSHIM_TRY(cushim_check_pointer(what, "y", y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_gemv, stream));
    struct gemv args = {a, x, y, m, n};
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, gemv_f32_reference, &args, sizeof args);
    return launch_gemv(&call, &args);
}

struct gemv_f16 {
    const uint16_t *a, *x;
    uint16_t *y;
    int64_t m, n;
};

static void gemv_f16_reference(const void *args) {
    const struct gemv_f16 *gemv = args;
    cushim_gemv_f16_ref(gemv->a, gemv->x, gemv->y, gemv->m, gemv->n);
}

enum cushim_status cushim_gemv_f16(const uint16_t *a, const uint16_t *x, uint16_t *y, int64_t m,
                                   int64_t n, struct CUstream_st *stream) {
    const char *what = __func__;
    struct cushim_kernel_call call;
    int64_t n_of_a, n_of_x, n_of_y;
    CUSHIM_TRY(cushim_check_size(what, "m", m));
    CUSHIM_TRY(cushim_check_size(what, "n", n));
    CUSHIM_TRY(cushim_check_count(what, "a", (int64_t[]){m, n}, 2, sizeof *a, &n_of_a));
    CUSHIM_TRY(cushim_check_count(what, "x", &n, 1, sizeof *x, &n_of_x));
    CUSHIM_TRY(cushim_check_count(what, "y", &m, 1, sizeof *y, &n_of_y));
    if (m == 0)
        return CUSHIM_OK;
    if (n) {
        CUSHIM_TRY(cushim_check_pointer(what, "a", a, sizeof *a));
        CUSHIM_TRY(cushim_check_pointer(what, "x", x, sizeof *x));
    }
    CUSHIM_TRY(cushim_check_pointer(what, "y", y, sizeof *y));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_gemv, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(
            &call, gemv_f16_reference, &(struct gemv_f16){a, x, y, m, n}, sizeof(struct gemv_f16));
    bool is_wide = cushim_is_aligned(16, a, x, NULL, NULL) && n % 8 == 0;
    struct cushim_kernel_shape shape = {.grid = {cushim_n_blocks(m, BLOCK_WARPS, INT32_MAX)},
                                        .block = {BLOCK_THREADS},
                                        .is_dependent = true};
    void *params[] = {&a, &x, &y, &m, &n};
    return cushim_kernel_call_launch(&call, is_wide ? GEMV_F16_WIDE : GEMV_F16, &shape, params);
}

/* ---- many small ones ---- */

struct batch {
    const float *a, *b;
    float *c;
    int64_t m, n, k, stride_a, stride_b, stride_c, batch;
};

static enum cushim_status check_small(const char *what, const char *name, int64_t value) {
    CUSHIM_TRY(cushim_check_size(what, name, value));
    if (value > GEMV_SMALL_MOST)
        return cushim_fail(what, CUSHIM_INVALID, "%s=%lld is above %d", name, (long long)value,
                           GEMV_SMALL_MOST);
    return CUSHIM_OK;
}

static enum cushim_status check_stride(const char *what, const char *name, int64_t stride,
                                       int64_t batch) {
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, name, stride));
    return cushim_check_count(what, name, (int64_t[]){batch > 1 ? batch - 1 : 0, stride}, 2,
                              sizeof(float), &n);
}

static enum cushim_status check_batch(const char *what, const struct batch *args) {
    CUSHIM_TRY(check_small(what, "m", args->m));
    CUSHIM_TRY(check_small(what, "n", args->n));
    CUSHIM_TRY(check_small(what, "k", args->k));
    CUSHIM_TRY(cushim_check_size(what, "batch", args->batch));
    CUSHIM_TRY(check_stride(what, "stride_a", args->stride_a, args->batch));
    CUSHIM_TRY(check_stride(what, "stride_b", args->stride_b, args->batch));
    CUSHIM_TRY(check_stride(what, "stride_c", args->stride_c, args->batch));
    if (args->batch > 1 && args->stride_c < args->m * args->n)
        return cushim_fail(what, CUSHIM_INVALID, "stride_c=%lld is below m*n=%lld",
                           (long long)args->stride_c, (long long)(args->m * args->n));
    if (args->m == 0 || args->n == 0 || args->batch == 0)
        return CUSHIM_OK;
    if (args->k) {
        CUSHIM_TRY(cushim_check_pointer(what, "a", args->a, sizeof(float)));
        CUSHIM_TRY(cushim_check_pointer(what, "b", args->b, sizeof(float)));
    }
    return cushim_check_pointer(what, "c", args->c, sizeof(float));
}

/* Whether each matrix of the batch starts at a multiple of 16, and has rows that do. */
static bool is_wide_matrix(const float *first, int64_t cols, int64_t stride, int64_t batch) {
    return cushim_is_aligned(16, first, NULL, NULL, NULL) && cols % 4 == 0 &&
           (stride % 4 == 0 || batch == 1);
}

enum { A_WIDE = 1, B_WIDE = 2, C_WIDE = 4, ALL_WIDE = A_WIDE | B_WIDE | C_WIDE };

/* Which operands are wide, one bit each. */
static int wide_of(const struct batch *args) {
    return (is_wide_matrix(args->a, args->k, args->stride_a, args->batch) ? A_WIDE : 0) |
           (is_wide_matrix(args->b, args->n, args->stride_b, args->batch) ? B_WIDE : 0) |
           (is_wide_matrix(args->c, args->n, args->stride_c, args->batch) ? C_WIDE : 0);
}

/*
 * One block each, and as many blocks as matrices, because a block that ends makes room for the next
 * one's reads.
 */
static enum cushim_status launch_large(const struct cushim_kernel_call *call, struct batch *args) {
    int m = (int)args->m, n = (int)args->n, k = (int)args->k, wide = wide_of(args);
    struct cushim_kernel_shape shape = {.grid = {cushim_n_blocks(args->batch, 1, INT32_MAX)},
                                        .block = {GEMV_LARGE_THREADS},
                                        .is_dependent = true};
    void *params[] = {&args->a,        &args->b,        &args->c,        &m,           &n,   &k,
                      &args->stride_a, &args->stride_b, &args->stride_c, &args->batch, &wide};
    return cushim_kernel_call_launch(call, wide == ALL_WIDE ? GEMV_LARGE_F32_WIDE : GEMV_LARGE_F32,
                                     &shape, params);
}

static enum cushim_status launch_batch(const struct cushim_kernel_call *call, struct batch *args) {
    enum { LEAST_THREADS = 4, MOST_PER_SM = 64 };
    int m = (int)args->m, n = (int)args->n, k = (int)args->k;
    int m4 = (m + 3) & ~3, n4 = (n + 3) & ~3, k4 = (k + 3) & ~3;
    int threads = LEAST_THREADS, n_floats = m4 * (k4 + 4) + k4 * n4;
    while (threads < m4 / 4 * (n4 / 4))
        threads *= 2;
    int per_block = BLOCK_THREADS / threads;
    if (per_block > GEMV_SMALL_FLOATS / n_floats)
        per_block = GEMV_SMALL_FLOATS / n_floats;
    int wide = wide_of(args);
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(args->batch, per_block, (int64_t)call->n_sms * MOST_PER_SM)},
        .block = {BLOCK_THREADS},
        .is_dependent = true};
    void *params[] = {
        &args->a,        &args->b,        &args->c,     &m,       &n,         &k,   &args->stride_a,
        &args->stride_b, &args->stride_c, &args->batch, &threads, &per_block, &wide};
    return cushim_kernel_call_launch(call, GEMV_SMALL_F32, &shape, params);
}

static void gemm_batched_small_reference(const void *args) {
    const struct batch *b = args;
    cushim_gemm_batched_small_f32_ref(b->a, b->b, b->c, b->m, b->n, b->k, b->stride_a, b->stride_b,
                                      b->stride_c, b->batch);
}

enum cushim_status cushim_gemm_batched_small_f32(const float *a, const float *b, float *c,
                                                 int64_t m, int64_t n, int64_t k, int64_t stride_a,
                                                 int64_t stride_b, int64_t stride_c, int64_t batch,
                                                 struct CUstream_st *stream) {
    struct batch args = {a, b, c, m, n, k, stride_a, stride_b, stride_c, batch};
    const char *what = __func__;
    struct cushim_kernel_call call;
    CUSHIM_TRY(check_batch(what, &args));
    if (m == 0 || n == 0 || batch == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_gemv, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, gemm_batched_small_reference, &args,
                                            sizeof args);
    return m > GEMV_LARGE_ABOVE && n > GEMV_LARGE_ABOVE ? launch_large(&call, &args)
                                                        : launch_batch(&call, &args);
}
