/*
 * libkernels.so: a layer of an encoder, and its gradients, as calls of other kernels.
 *
 * The layer is x1 = x + (heads of softmax(q k^T / sqrt(head_dim)) v) o, y = x1 + gelu(norm(x1)
 * ffn1) ffn2 with q, k and v from norm(x); each product has a bias.  Matrices are [in, out].
 */
#include <math.h>

#include "companion/shared.h"
#include "cushim/kernels/broadcast.h"
#include "cushim/kernels/elementwise.h"
#include "cushim/kernels/encoder.h"
#include "cushim/kernels/layout.h"
#include "cushim/kernels/product.h"
#include "cushim/kernels/reduce.h"
#include "cushim/kernels/softmax.h"
#include "kernels/dropin/enter.h"

/* The order of the arrays of pointers. */
enum { QKV_W, O_W = 6, O_B, FFN1_W, FFN1_B, FFN2_W, FFN2_B, NORM1_W, NORM1_B, NORM2_W, NORM2_B };
enum { QKV_T, O_T = 3, FFN1_T, FFN2_T }; /* transposed weights */
enum kept {
    NORMED1,
    RSTD1,
    QKV,
    QKV_HEADS = 5,
    SCORES = 8,
    HEADS_OUT,
    ATTENDED,
    RESIDUAL,
    NORMED2,
    RSTD2,
    FFN1_PRE,
    FFN1_OUT
};
enum {
    D_FFN1_OUT,
    D_FFN1_PRE,
    D_NORMED2,
    D_RESIDUAL,
    D_ATTENDED,
    D_HEADS_OUT,
    D_QKV_HEADS,
    D_SCORES = 9,
    D_QKV,
    D_NORMED1 = 13,
    TEMP
};
enum { Q, K, V };

struct layer {
    int64_t rows, d, n_heads, head_dim, ffn, batch, seq;
    cudaStream_t stream;
};

/* c = alpha a b + beta c of contiguous matrices; one is turned if its transpose is in memory. */
struct turned {
    bool a, b;
};

static struct cushim_matrix_strides strides_of(int64_t rows, int64_t columns, bool is_turned) {
    return is_turned ? (struct cushim_matrix_strides){rows * columns, 1, rows}
                     : (struct cushim_matrix_strides){rows * columns, columns, 1};
}

static enum cushim_status multiply(const struct layer *l, struct turned turned, const float *a,
                                   const float *b, float *c, double alpha, float beta,
                                   int64_t batch, int64_t m, int64_t n, int64_t k) {
    struct cushim_matrix_strides of_a = strides_of(m, k, turned.a),
                                 of_b = strides_of(k, n, turned.b), of_c = strides_of(m, n, false);
    return cushim_gemm_strided_f32(a, b, c, (float)alpha, beta, batch, m, n, k, &of_a, &of_b, &of_c,
                                   l->stream);
}

/* c = x w + bias */
static enum cushim_status project(const struct layer *l, const float *x, const float *w,
                                  const float *bias, float *c, int64_t n, int64_t k) {
    CUSHIM_TRY(multiply(l, (struct turned){0}, x, w, c, 1, 0, 1, l->rows, n, k));
    return cushim_add_broadcast2d_f32(c, bias, c, n, 1, 0, 1, l->rows, n, l->stream);
}

/* [batch, seq, n_heads, head_dim] to [batch, n_heads, seq, head_dim], or back. */
static enum cushim_status split(const struct layer *l, const float *x, float *y, bool is_back) {
    int64_t shape[] = {l->batch, is_back ? l->n_heads : l->seq, is_back ? l->seq : l->n_heads,
                       l->head_dim};
    return cushim_transpose_nd_f32(x, y, shape, (int32_t[]){0, 2, 1, 3}, 4, l->stream);
}

static double scale_of(const struct layer *l) {
    return 1 / sqrt((double)l->head_dim);
}

static enum cushim_status forward(const struct layer *l, const float *const *w, float *const *kept,
                                  const float *x, float *y) {
    const float eps = 1e-5f;
    int64_t n = l->rows * l->d, of_batch = l->batch * l->n_heads;
    CUSHIM_TRY(cushim_layer_norm_f32(x, w[NORM1_W], w[NORM1_B], kept[NORMED1], kept[RSTD1], eps,
                                     l->rows, l->d, l->stream));
    for (int i = Q; i <= V; i++) {
        CUSHIM_TRY(project(l, kept[NORMED1], w[QKV_W + 2 * i], w[QKV_W + 2 * i + 1], kept[QKV + i],
                           l->d, l->d));
        CUSHIM_TRY(split(l, kept[QKV + i], kept[QKV_HEADS + i], false));
    }
    float *const *heads = kept + QKV_HEADS;
    CUSHIM_TRY(multiply(l, (struct turned){.b = true}, heads[Q], heads[K], kept[SCORES],
                        scale_of(l), 0, of_batch, l->seq, l->seq, l->head_dim));
    CUSHIM_TRY(
        cushim_softmax_f32(kept[SCORES], kept[SCORES], of_batch * l->seq, l->seq, 1, l->stream));
    CUSHIM_TRY(multiply(l, (struct turned){0}, kept[SCORES], heads[V], kept[HEADS_OUT], 1, 0,
                        of_batch, l->seq, l->head_dim, l->seq));
    CUSHIM_TRY(split(l, kept[HEADS_OUT], kept[ATTENDED], true));
    CUSHIM_TRY(project(l, kept[ATTENDED], w[O_W], w[O_B], kept[RESIDUAL], l->d, l->d));
    CUSHIM_TRY(cushim_add_f32(kept[RESIDUAL], x, kept[RESIDUAL], n, l->stream));
    CUSHIM_TRY(cushim_layer_norm_f32(kept[RESIDUAL], w[NORM2_W], w[NORM2_B], kept[NORMED2],
                                     kept[RSTD2], eps, l->rows, l->d, l->stream));
    CUSHIM_TRY(project(l, kept[NORMED2], w[FFN1_W], w[FFN1_B], kept[FFN1_PRE], l->ffn, l->d));
    CUSHIM_TRY(cushim_gelu_f32(kept[FFN1_PRE], kept[FFN1_OUT], l->rows * l->ffn, l->stream));
    CUSHIM_TRY(project(l, kept[FFN1_OUT], w[FFN2_W], w[FFN2_B], y, l->d, l->ffn));
    return cushim_add_f32(y, kept[RESIDUAL], y, n, l->stream);
}

/* to += the sum over rows; `sum` has room for it. */
static enum cushim_status add_sum(const struct layer *l, const float *x, float *sum, float *to,
                                  int64_t columns) {
    CUSHIM_TRY(cushim_sum_axis_f32(x, sum, 1, l->rows, columns, NULL, 0, l->stream));
    return cushim_add_f32(to, sum, to, columns, l->stream);
}

/* Of c = x w + bias: add to the gradients of w and bias, and find that of x from w's transpose. */
static enum cushim_status project_back(const struct layer *l, const float *x, const float *dc,
                                       const float *w_turned, float *temp, float *dw, float *db,
                                       float *dx, float beta, int64_t n, int64_t k) {
    CUSHIM_TRY(multiply(l, (struct turned){.a = true}, x, dc, dw, 1, 1, 1, k, n, l->rows));
    CUSHIM_TRY(add_sum(l, dc, temp, db, n));
    return multiply(l, (struct turned){0}, dc, w_turned, dx, 1, beta, 1, l->rows, k, n);
}

/* Of a norm; `sum` has room for a row, `terms` for all. */
static enum cushim_status norm_back(const struct layer *l, const float *dy, const float *x,
                                    const float *w, const float *rstd, float *dx, float *terms,
                                    float *sum, float *dw, float *db) {
    CUSHIM_TRY(cushim_layer_norm_backward_f32(dy, x, w, rstd, dx, terms, l->rows, l->d, l->stream));
    CUSHIM_TRY(add_sum(l, terms, sum, dw, l->d));
    return add_sum(l, dy, sum, db, l->d);
}

/* Of the heads; b[D_HEADS_OUT] is the gradient of what they give. */
static enum cushim_status attend_back(const struct layer *l, float *const *kept, float *const *b) {
    float *const *heads = kept + QKV_HEADS, *const *d = b + D_QKV_HEADS, *scores = b[D_SCORES];
    const struct turned a = {.a = true}, second = {.b = true}, none = {0};
    int64_t n = l->batch * l->n_heads, seq = l->seq, dim = l->head_dim;
    CUSHIM_TRY(multiply(l, a, kept[SCORES], b[D_HEADS_OUT], d[V], 1, 0, n, seq, dim, seq));
    CUSHIM_TRY(multiply(l, second, b[D_HEADS_OUT], heads[V], scores, 1, 0, n, seq, seq, dim));
    CUSHIM_TRY(cushim_softmax_backward_f32(kept[SCORES], scores, scores, n * seq, seq, l->stream));
    CUSHIM_TRY(multiply(l, none, scores, heads[K], d[Q], scale_of(l), 0, n, seq, dim, seq));
    return multiply(l, a, scores, heads[Q], d[K], scale_of(l), 0, n, seq, dim, seq);
}

static enum cushim_status backward(const struct layer *l, const float *const *w,
                                   const float *const *turned, float *const *kept, float *const *b,
                                   float *const *g, const float *dy, float *dx, const float *x) {
    int64_t n = l->rows * l->d;
    CUSHIM_TRY(project_back(l, kept[FFN1_OUT], dy, turned[FFN2_T], b[TEMP], g[FFN2_W], g[FFN2_B],
                            b[D_FFN1_OUT], 0, l->d, l->ffn));
    CUSHIM_TRY(cushim_gelu_backward_f32(kept[FFN1_PRE], b[D_FFN1_OUT], b[D_FFN1_PRE],
                                        l->rows * l->ffn, l->stream));
    CUSHIM_TRY(project_back(l, kept[NORMED2], b[D_FFN1_PRE], turned[FFN1_T], b[TEMP], g[FFN1_W],
                            g[FFN1_B], b[D_NORMED2], 0, l->ffn, l->d));
    CUSHIM_TRY(norm_back(l, b[D_NORMED2], kept[RESIDUAL], w[NORM2_W], kept[RSTD2], b[D_RESIDUAL],
                         b[TEMP], b[D_QKV], g[NORM2_W], g[NORM2_B]));
    CUSHIM_TRY(cushim_add_f32(b[D_RESIDUAL], dy, b[D_RESIDUAL], n, l->stream));
    CUSHIM_TRY(project_back(l, kept[ATTENDED], b[D_RESIDUAL], turned[O_T], b[TEMP], g[O_W], g[O_B],
                            b[D_ATTENDED], 0, l->d, l->d));
    CUSHIM_TRY(split(l, b[D_ATTENDED], b[D_HEADS_OUT], false));
    CUSHIM_TRY(attend_back(l, kept, b));
    for (int i = Q; i <= V; i++) {
        CUSHIM_TRY(split(l, b[D_QKV_HEADS + i], b[D_QKV + i], true));
        CUSHIM_TRY(project_back(l, kept[NORMED1], b[D_QKV + i], turned[QKV_T + i], b[TEMP],
                                g[QKV_W + 2 * i], g[QKV_W + 2 * i + 1], b[D_NORMED1], i > Q, l->d,
                                l->d));
    }
    CUSHIM_TRY(norm_back(l, b[D_NORMED1], x, w[NORM1_W], kept[RSTD1], b[TEMP], b[D_ATTENDED],
                         b[D_QKV], g[NORM1_W], g[NORM1_B]));
    return cushim_add_f32(b[TEMP], b[D_RESIDUAL], dx, n, l->stream);
}

/* ---- the interface ---- */

static bool are_sizes_wrong(const struct layer *l) {
    return l->batch < 0 || l->seq < 0 || l->n_heads < 0 || l->head_dim < 0 || l->ffn < 0 ||
           l->rows != l->batch * l->seq || l->d != l->n_heads * l->head_dim;
}

/* cuBLAS is not used. */
int fused_encoder_fwd_f32(void *cublas_handle, const void **weights, void **bufs,
                          const float *input, float *output, int totalRows, int dModel, int nHeads,
                          int headDim, int ffnDim, int bsC, int numPatches, cudaStream_t stream) {
    struct layer l = {totalRows, dModel, nHeads, headDim, ffnDim, bsC, numPatches, stream};
    (void)cublas_handle;
    if (!weights || !bufs || are_sizes_wrong(&l))
        return DROPIN_INVALID;
    FORWARD(stream,
            forward(&l, (const float *const *)weights, (float *const *)bufs, input, output));
}

long long fused_encoder_fwd_scratch_bytes(int totalRows, int dModel, int nHeads, int headDim,
                                          int ffnDim, int bsC, int numPatches) {
    long long rows = totalRows, of_heads = (long long)bsC * nHeads * numPatches;
    long long n = rows * (7LL * dModel + 2LL * ffnDim + 2);
    return 4 * (n + of_heads * (4LL * headDim + numPatches));
}

int fused_encoder_bwd_f32(void *cublas_handle, const void **weights, const void **weight_t,
                          const void **fwd_bufs, void **bwd_bufs, void **grads,
                          const float *dOutput, float *dInput, const float *input, int totalRows,
                          int dModel, int nHeads, int headDim, int ffnDim, int bsC, int numPatches,
                          cudaStream_t stream) {
    struct layer l = {totalRows, dModel, nHeads, headDim, ffnDim, bsC, numPatches, stream};
    (void)cublas_handle;
    if (!weights || !weight_t || !fwd_bufs || !bwd_bufs || !grads || are_sizes_wrong(&l))
        return DROPIN_INVALID;
    FORWARD(stream, backward(&l, (const float *const *)weights, (const float *const *)weight_t,
                             (float *const *)fwd_bufs, (float *const *)bwd_bufs,
                             (float *const *)grads, dOutput, dInput, input));
}
