/* Attention of one query per head as other functions of the library call it. */
#ifndef CUSHIM_KERNELS_ATTENTION_DECODE_H
#define CUSHIM_KERNELS_ATTENTION_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/kernels/attention.h"

/*
 * is_early: the kernel ahead on the stream is the caller's own, waits for those ahead of it before
 * it lets the next one start, and does not write the length.  So the length is read before the
 * wait.
 */
struct attention_how {
    const char *what; /* the public function */
    bool is_early;
};

/* cushim_attention_decode_f32(), with an argument that says how. */
enum cushim_status cushim_attention_decode(struct attention_how how, const float *q, const float *k,
                                           const float *v, const int32_t *kv_len_ptr, float *o,
                                           int64_t batch, int64_t n_q_heads, int64_t n_kv_heads,
                                           int64_t head_dim, int64_t kv_len, int64_t max_kv_len,
                                           const struct cushim_kv_strides *kv, void *scratch,
                                           size_t scratch_bytes, struct CUstream_st *stream);

#endif
