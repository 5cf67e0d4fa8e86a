/*
 * Products of q4k with what stands before and behind them, as other functions of the library call
 * them: the public functions, with an argument that says how.
 */
#ifndef CUSHIM_KERNELS_GEMV_ENDS_H
#define CUSHIM_KERNELS_GEMV_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

/*
 * is_early: the kernel ahead on the stream is the caller's own and writes none of w.  If that lets
 * the next kernel start before it waits for those ahead of it, as the merge of decode does, the one
 * ahead of it is the caller's too.  The product takes its first weights before it waits.
 */
struct gemv_how {
    const char *what; /* the public function */
    bool is_early;
};

enum cushim_status cushim_gemv_add_q4k(struct gemv_how how, const void *w, const float *x,
                                       const float *residual, float *y, int64_t m, int64_t k,
                                       void *scratch, size_t scratch_bytes,
                                       struct CUstream_st *stream);

enum cushim_status cushim_gemv_swiglu_q4k(struct gemv_how how, const void *w, const float *x,
                                          const float *norm, float *y, float eps, int64_t m,
                                          int64_t k, void *scratch, size_t scratch_bytes,
                                          struct CUstream_st *stream);

enum cushim_status cushim_gemv_qkv_q4k(struct gemv_how how, const void *w, const float *x,
                                       const float *norm, const float *cos_table,
                                       const float *sin_table, const int32_t *position, float *q,
                                       float *keys, float *values, float eps, int64_t n_q_heads,
                                       int64_t n_kv_heads, int64_t head_dim, int64_t k,
                                       int64_t max_len, int64_t position_stride,
                                       int64_t head_stride, void *scratch, size_t scratch_bytes,
                                       struct CUstream_st *stream);

#endif
