/*
 * Products with a column and what stands before and behind them, with weights of any format, as
 * other functions of the library call them: the public functions of q4k, with an argument that says
 * how.
 */
#ifndef CUSHIM_KERNELS_GEMV_ENDS_H
#define CUSHIM_KERNELS_GEMV_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "kernels/shared/quant_parts.h"

struct CUstream_st;

/*
 * is_early: the kernel ahead on the stream is the caller's own and writes nothing that the product
 * reads but x.  If that lets the next kernel start before it waits for those ahead of it, as the
 * merge of decode does, the one ahead of it is the caller's too.  The product reads before it
 * waits: its first weights, the norm, the residual, the position and the tables.
 */
struct gemv_how {
    const char *what; /* the public function */
    bool is_early;
};

/* A matrix in parts of rows, of which each has its format: one for all, or one for each output. */
struct gemv_rows {
    int n;
    struct {
        enum quant_format format;
        struct quant_parts w;
        int64_t m; /* cushim_gemv_split() */
    } of[3];
};

static inline struct gemv_rows cushim_gemv_rows_of_q4k(const void *w) {
    return (struct gemv_rows){1, {{QUANT_Q4K, cushim_quant_parts(QUANT_Q4K, w, w), 0}}};
}

/* Say how many rows the parts have. */
static inline void cushim_gemv_split(struct gemv_rows *w, int64_t first, int64_t second,
                                     int64_t third) {
    w->of[0].m = w->n == 1 ? first + second + third : first;
    w->of[1].m = second;
    w->of[2].m = third;
}

enum cushim_status cushim_gemv_add(struct gemv_how how, struct gemv_rows w, const float *x,
                                   const float *residual, float *y, int64_t m, int64_t k,
                                   void *scratch, size_t scratch_bytes, struct CUstream_st *stream);
void cushim_gemv_add_ref(struct gemv_rows w, const float *x, const float *residual, float *y,
                         int64_t m, int64_t k);

/* w: the gate, and up. */
enum cushim_status cushim_gemv_swiglu(struct gemv_how how, struct gemv_rows w, const float *x,
                                      const float *norm, float *y, float eps, int64_t m, int64_t k,
                                      void *scratch, size_t scratch_bytes,
                                      struct CUstream_st *stream);
void cushim_gemv_swiglu_ref(struct gemv_rows w, const float *x, const float *norm, float *y,
                            float eps, int64_t m, int64_t k);

/* w: queries, keys, values.  bias is added to the products; NULL means none. */
enum cushim_status cushim_gemv_qkv(struct gemv_how how, struct gemv_rows w, const float *x,
                                   const float *norm, const float *bias, const float *cos_table,
                                   const float *sin_table, const int32_t *position, float *q,
                                   float *keys, float *values, float eps, int64_t n_q_heads,
                                   int64_t n_kv_heads, int64_t head_dim, int64_t k, int64_t max_len,
                                   int64_t position_stride, int64_t head_stride, void *scratch,
                                   size_t scratch_bytes, struct CUstream_st *stream);
void cushim_gemv_qkv_ref(struct gemv_rows w, const float *x, const float *norm, const float *bias,
                         const float *cos_table, const float *sin_table, const int32_t *position,
                         float *q, float *keys, float *values, float eps, int64_t n_q_heads,
                         int64_t n_kv_heads, int64_t head_dim, int64_t k, int64_t max_len,
                         int64_t position_stride, int64_t head_stride);

#endif
