/*
 * Attention in fp32: for whole sequences, for one query per head against a cache of keys and
 * values, and for queries of many sequences against caches of their own lengths.
 *
 * What holds for every function is at the top of cushim/kernels.h.  A row's weights are exp(score -
 * largest score); a row whose scores are all -infinity (or that has no keys) is 0, and one with a
 * score of +infinity or NaN is NaN.  Keys that a row does not see do not affect it, whatever they
 * hold.
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

/*
 * Strides of K and V in a cache, in elements; the same for both.  [batch][max_kv_len][n_kv_heads]
 * [head_dim] is {max_kv_len * n_kv_heads * head_dim, head_dim, n_kv_heads * head_dim}.
 */
struct cushim_kv_strides {
    int64_t batch, head, position;
};

/**
 * Attend: o = softmax(q k^T / sqrt(head_dim)) v, for each head of each batch.
 * @param q, k, v   [batch][heads][seq][head_dim] on the device; multiples of 4 bytes
 * @param o         the same, out; must not overlap an input
 * @param batch, heads, seq  >= 0
 * @param head_dim  >= 0; up to 256 in tiles of 32, 64, 96, 128 or 256 columns; above 256 a slow
 *                  path takes it
 * @param causal    if set, a query sees only the keys up to its own position
 * @param stream    NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more bytes than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  NMSE <= 1e-11; no element has more than twice the error of plain fp32.  Scores and sums
 *           of weighted values have the range of float.  An infinity in v gives NaN or the infinity
 *           if its weight is below that range
 * Speed     from 8.0 on the matrix units compute it: each float is two halves, scaled per tile.
 *           Tiles with infinities, NaN or very uneven magnitudes take fp32 units
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_attention_f32(const float *q, const float *k, const float *v,
                                                   float *o, int64_t batch, int64_t heads,
                                                   int64_t seq, int64_t head_dim, bool causal,
                                                   struct CUstream_st *stream);

/**
 * Attend with one query per head to the first positions of a cache; query head i uses KV head i /
 * (n_q_heads / n_kv_heads).
 * @param q           [batch][n_q_heads][head_dim] on the device; multiples of 4 bytes
 * @param k, v        max_kv_len positions per head, with the strides `kv`; fast if addresses and
 *                    strides are multiples of 16 bytes.  May be NULL if max_kv_len is 0
 * @param kv_len_ptr  one length on the device, read when the work runs; NULL means kv_len
 * @param o           as q, out; must not overlap an input
 * @param batch, head_dim  >= 0; if one is 0 or n_q_heads is, nothing is done and the pointers to
 *                         the device may be NULL.  A slow path takes head_dim above 256
 * @param n_q_heads, n_kv_heads  >= 0; the first is a multiple of the second
 * @param kv_len      >= 0; unused if kv_len_ptr is given
 * @param max_kv_len  >= 0; a length is clamped to 0 .. max_kv_len.  The cache beyond the length may
 *                    be prefetched, but is not read.  If the length is 0, the output is 0
 * @param kv          on the host, no stride negative; copied before the call returns
 * @param scratch     on the device, a multiple of 4 bytes; if NULL, one cluster does a row, or one
 *                    block before 9.0
 * @param scratch_bytes  what cushim_attention_decode_f32_scratch returns; if less, it is used as
 *                       far as it goes
 * @param stream      NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (kv is NULL, a negative size or stride, more bytes than can be
 *         counted, n_q_heads, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued but work on scratch
 * Accuracy  NMSE <= 1e-12; per element |error| <= 2^-21 (1 + s) times the weighted mean of |v|; s
 *           is the largest sum of |q k| / sqrt(head_dim) of any position
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status
cushim_attention_decode_f32(const float *q, const float *k, const float *v,
                            const int32_t *kv_len_ptr, float *o, int64_t batch, int64_t n_q_heads,
                            int64_t n_kv_heads, int64_t head_dim, int64_t kv_len,
                            int64_t max_kv_len, const struct cushim_kv_strides *kv, void *scratch,
                            size_t scratch_bytes, struct CUstream_st *stream);

/**
 * How much scratch helps cushim_attention_decode_f32 with the same sizes.
 * @return bytes; 0 if none helps or it refuses the sizes
 * Threads  any
 */
CUSHIM_API size_t cushim_attention_decode_f32_scratch(int64_t batch, int64_t n_q_heads,
                                                      int64_t n_kv_heads, int64_t head_dim,
                                                      int64_t max_kv_len);

/* How a cache stores an element. */
enum cushim_kv_type { CUSHIM_KV_F32, CUSHIM_KV_F16, CUSHIM_KV_BF16 };

/*
 * The caches of a batch of sequences.  Without blocks position p of sequence b is at b *
 * strides.batch + (kv_begin[b] + p) * strides.position.  With blocks it is the position p %
 * block_len of block number blocks[b * blocks_per_sequence + p / block_len], and strides.batch is
 * from one block to the next.  Arrays are on the device, and read when the work runs.
 */
struct cushim_kv_cache {
    const void *k, *v;                /* multiples of an element; with is_of_pointers, arrays of the
                                         addresses of blocks */
    struct cushim_kv_strides strides; /* in elements */
    const int32_t *kv_begin;          /* [batch]; NULL means 0 */
    const int32_t *kv_len;            /* [batch]; NULL means max_kv_len */
    int64_t max_kv_len;               /* a length is clamped to 0 .. max_kv_len */
    const int32_t *blocks;            /* [batch][blocks_per_sequence]; NULL means no blocks */
    int64_t blocks_per_sequence, block_len;
    enum cushim_kv_type type;
    bool is_of_pointers;
};

/**
 * Attend with queries of many sequences, each to its own cache: o = softmax(q k^T / sqrt(head_dim))
 * v.  Sequence b has the queries q_begin[b] .. q_begin[b] + q_len[b] - 1; query head i uses KV head
 * i / (n_q_heads / n_kv_heads).
 * @param q          [queries][n_q_heads][head_dim] on the device; a multiple of 4 bytes
 * @param cache      on the host; copied before the call returns
 * @param q_begin    [batch] on the device; NULL means b * max_q_len
 * @param q_len      [batch] on the device; NULL means max_q_len
 * @param o          as q, out; must not overlap an input.  Queries of no sequence stay as they are
 * @param batch, head_dim  >= 0; if one is 0 or n_q_heads or max_q_len is, nothing is done and the
 *                         pointers to the device may be NULL
 * @param n_q_heads, n_kv_heads  >= 0; the first is a multiple of the second
 * @param max_q_len  >= 0; a length is clamped to 0 .. max_q_len.  INT32_MAX if it is not known
 * @param causal     if set, the queries of a sequence are its last positions: query i of n sees the
 *                   first kv_len - n + i + 1 positions.  Otherwise it sees kv_len
 * @param scratch, scratch_bytes  as for cushim_attention_decode_f32
 * @param stream     NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (cache is NULL, a negative size or stride, more bytes than can
 *         be counted, n_q_heads, an unknown type, blocks of no position, a NULL or misaligned
 *         pointer) | a driver status; unless CUSHIM_OK, nothing was queued but work on scratch
 * Accuracy  NMSE <= 1e-11; elements of the cache are widened exactly
 * Speed     with one query of each sequence, or a few whose heads that share a KV head are at most
 *           32 rows, or 128 if all of them are at most 16 for each multiprocessor, as
 *           cushim_attention_decode_f32; from 8.0 on matrix units multiply caches of 16 bits, which
 *           are fast if addresses and strides are multiples of 16 bytes.  More queries are tiles;
 *           on 9.0, with head_dim up to 128, matrix units compute these, as they do
 *           cushim_attention_f32, and fp32 units otherwise
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status
cushim_attention_cached_f32(const float *q, const struct cushim_kv_cache *cache,
                            const int32_t *q_begin, const int32_t *q_len, float *o, int64_t batch,
                            int64_t n_q_heads, int64_t n_kv_heads, int64_t head_dim,
                            int64_t max_q_len, bool causal, void *scratch, size_t scratch_bytes,
                            struct CUstream_st *stream);

/**
 * How much scratch helps cushim_attention_cached_f32 with the same sizes.
 * @return bytes; 0 if none helps or it refuses the sizes
 * Threads  any
 */
CUSHIM_API size_t cushim_attention_cached_f32_scratch(int64_t batch, int64_t n_q_heads,
                                                      int64_t n_kv_heads, int64_t head_dim,
                                                      int64_t max_q_len, int64_t max_kv_len);

#ifdef __cplusplus
}
#endif

#endif
