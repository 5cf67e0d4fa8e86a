/*
 * Attention in fp32: for whole sequences, and for one query a head against a cache of keys and
 * values.
 *
 * What holds for every function is at the top of cushim/kernels.h.  A row's weights are
 * exp(score - largest score); a row whose scores are all -infinity (or that has no keys) is 0, and
 * one with a score of +infinity or NaN is NaN.  Keys that a row does not see count for nothing,
 * whatever they hold.
 */
#ifndef CUSHIM_KERNELS_PUBLIC_ATTENTION_H
#define CUSHIM_KERNELS_PUBLIC_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/* Where K and V of a cache lie, in elements; the same for both.  [batch][max_kv_len][n_kv_heads]
 * [head_dim] is {max_kv_len * n_kv_heads * head_dim, head_dim, n_kv_heads * head_dim}. */
struct cushim_kv_strides {
    int64_t batch, head, position;
};

/**
 * Attend: o = softmax(q k^T / sqrt(head_dim)) v, for each head of each batch.
 * @param q, k, v   [batch][heads][seq][head_dim] on the device; multiples of 4 bytes
 * @param o         the same, out; may not overlap an input
 * @param batch, heads, seq  >= 0
 * @param head_dim  >= 0; up to 256 in tiles of 32, 64, 96, 128 or 256 columns, above by a slow path
 * @param causal    a query sees the keys up to its own position
 * @param stream    NULL: the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more bytes than can be counted, a NULL or
 *         misaligned pointer) | a status of the driver; nothing was queued then
 * Accuracy  NMSE <= 1e-11; no element has more than twice the error of plain fp32.  Scores and sums
 *           of weighted values are formed in the range of float.  An infinity in v whose weight is
 *           below that range gives NaN or the infinity
 * Speed     from 8.0 on, on matrix units: each float as two halves, scaled a tile.  Tiles with
 *           infinities, NaN or very uneven magnitudes take fp32 units
 * Threads   any
 * Stream    queued on `stream`; the buffers live until that work ends
 */
CUSHIM_API enum cushim_status cushim_attention_f32(const float *q, const float *k, const float *v,
                                                   float *o, int64_t batch, int64_t heads,
                                                   int64_t seq, int64_t head_dim, bool causal,
                                                   struct CUstream_st *stream);

/**
 * Attend with one query a head to the first positions of a cache; query head i uses KV head
 * i / (n_q_heads / n_kv_heads).
 * @param q           [batch][n_q_heads][head_dim] on the device; multiples of 4 bytes
 * @param k, v        where `kv` says, max_kv_len positions a head; fast where addresses and strides
 *                    are multiples of 16 bytes.  NULL is right where max_kv_len is 0
 * @param kv_len_ptr  one length on the device, read when the work runs; NULL: kv_len
 * @param o           as q, out; may not overlap an input
 * @param n_q_heads   >= 0, a multiple of n_kv_heads
 * @param head_dim    >= 0; above 256 by a slow path
 * @param kv_len      >= 0; not used where kv_len_ptr is given
 * @param max_kv_len  >= 0; a length is clamped to 0 .. max_kv_len, and nothing beyond it is read,
 *                    though the cache may be prefetched.  With length 0 the output is 0
 * @param kv          on the host, none of it negative; copied before the call returns
 * @param scratch     on the device, a multiple of 4 bytes; NULL: a row is done by one cluster, or
 *                    by one block before 9.0
 * @param scratch_bytes  what cushim_attention_decode_f32_scratch says, or less: then it is used as
 *                    far as it goes
 * @param stream      NULL: the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (kv is NULL, a negative size or stride, more bytes than can be
 *         counted, n_q_heads, a NULL or misaligned pointer) | a status of the driver; nothing was
 *         queued then
 * Accuracy  NMSE <= 1e-12; of each element |error| <= 2^-21 (1 + s) times the mean of |v| by
 *           weights, where s is the largest sum of |q k| / sqrt(head_dim) of any position
 * Threads   any
 * Stream    queued on `stream`; the buffers live until that work ends
 */
CUSHIM_API enum cushim_status
cushim_attention_decode_f32(const float *q, const float *k, const float *v,
                            const int32_t *kv_len_ptr, float *o, int64_t batch, int64_t n_q_heads,
                            int64_t n_kv_heads, int64_t head_dim, int64_t kv_len,
                            int64_t max_kv_len, const struct cushim_kv_strides *kv, void *scratch,
                            size_t scratch_bytes, struct CUstream_st *stream);

/**
 * How much scratch helps cushim_attention_decode_f32.
 * @return bytes; 0 where none helps, and for sizes that it refuses
 * Threads  any
 */
CUSHIM_API size_t cushim_attention_decode_f32_scratch(int64_t batch, int64_t n_q_heads,
                                                      int64_t n_kv_heads, int64_t head_dim,
                                                      int64_t max_kv_len);

#ifdef __cplusplus
}
#endif

#endif
