/* libkernels.so: attention. */
#include "cushim/kernels/attention.h"
#include "kernels/dropin/enter.h"

int flash_attention_forward_f32(const float *Q, const float *K, const float *V, float *O, int batch,
                                int heads, int seq_len, int head_dim, int causal,
                                cudaStream_t stream) {
    FORWARD(stream,
            cushim_attention_f32(Q, K, V, O, batch, heads, seq_len, head_dim, causal != 0, stream));
}

int flash_attention2_forward_f32(const float *Q, const float *K, const float *V, float *O,
                                 int batch, int heads, int seq_len, int head_dim, int causal,
                                 cudaStream_t stream) {
    return flash_attention_forward_f32(Q, K, V, O, batch, heads, seq_len, head_dim, causal, stream);
}

/*
 * K and V are [batch, max_kv_len, num_kv_heads * head_dim].  The scratch of an attention in parts
 * has head_dim floats for each begun chunk_size of kv_len positions of each query head; 0 is none.
 */
int flash_decode_splitkv_f32(const float *Q, const float *K, const float *V, float *O,
                             float *partial_O, float *partial_lse, int num_bh, int max_kv_len,
                             int head_dim, int kv_len, const int *kv_len_ptr, int num_q_heads,
                             int num_kv_heads, int chunk_size, cudaStream_t stream) {
    (void)partial_lse;
    if (num_q_heads < 1 || num_bh % num_q_heads || chunk_size < 0)
        return DROPIN_INVALID;
    kv_len = kv_len < 0 ? 0 : kv_len;
    int64_t row = (int64_t)num_kv_heads * head_dim; /* of all heads at one position */
    struct cushim_kv_strides kv = {.head = head_dim, .position = row};
    int64_t n_chunks = chunk_size ? ((int64_t)kv_len + chunk_size - 1) / chunk_size : 0, n_bytes;
    if (__builtin_mul_overflow(row, (int64_t)max_kv_len, &kv.batch) ||
        __builtin_mul_overflow((int64_t)num_bh * head_dim, 4 * n_chunks, &n_bytes))
        return DROPIN_INVALID;
    FORWARD(stream, cushim_attention_decode_f32(Q, K, V, kv_len_ptr, O, num_bh / num_q_heads,
                                                num_q_heads, num_kv_heads, head_dim, kv_len,
                                                max_kv_len, &kv, n_bytes > 0 ? partial_O : NULL,
                                                n_bytes > 0 ? (size_t)n_bytes : 0, stream));
}

int flash_attention_decode_f32(const float *Q, const float *K, const float *V, float *O, int num_bh,
                               int max_kv_len, int head_dim, int kv_len, const int *kv_len_ptr,
                               int num_q_heads, int num_kv_heads, cudaStream_t stream) {
    return flash_decode_splitkv_f32(Q, K, V, O, NULL, NULL, num_bh, max_kv_len, head_dim, kv_len,
                                    kv_len_ptr, num_q_heads, num_kv_heads, 0, stream);
}

int flash_attention2_decode_f32(const float *Q, const float *K, const float *V, float *O,
                                int num_bh, int max_kv_len, int head_dim, int kv_len,
                                const int *kv_len_ptr, int num_q_heads, int num_kv_heads,
                                cudaStream_t stream) {
    return flash_attention_decode_f32(Q, K, V, O, num_bh, max_kv_len, head_dim, kv_len, kv_len_ptr,
                                      num_q_heads, num_kv_heads, stream);
}

/*
 * K and V are arrays of the addresses of blocks of [block_size, num_kv_heads, head_dim].  A
 * sequence has as many places in block_indices as seq_len needs.
 */
int paged_attention_forward_f32(const float *Q, float *O, const float *const *block_ptrs_k,
                                const float *const *block_ptrs_v, const int *block_indices,
                                int seq_len, int block_size, int head_dim, int num_q_heads,
                                int num_kv_heads, int batch, cudaStream_t stream) {
    if (seq_len < 0 || block_size < 1 || (seq_len > 0 && !block_indices))
        return DROPIN_INVALID;
    struct cushim_kv_cache cache = {
        .k = block_ptrs_k,
        .v = block_ptrs_v,
        .strides = {.head = head_dim, .position = (int64_t)num_kv_heads * head_dim},
        .max_kv_len = seq_len,
        .blocks = block_indices,
        .blocks_per_sequence = ((int64_t)seq_len + block_size - 1) / block_size,
        .block_len = block_size,
        .is_of_pointers = block_indices != NULL};
    FORWARD(stream, cushim_attention_cached_f32(Q, &cache, NULL, NULL, O, batch, num_q_heads,
                                                num_kv_heads, head_dim, 1, false, NULL, 0, stream));
}

/* Without a mask within a sequence.  The lengths are read when the work runs. */
int ragged_attention_forward_f32(const float *Q, const float *K, const float *V, float *O,
                                 const int *seq_lens, const int *cum_seq_lens, int batch,
                                 int num_q_heads, int num_kv_heads, int head_dim,
                                 cudaStream_t stream) {
    if (batch > 0 && (!seq_lens || !cum_seq_lens))
        return DROPIN_INVALID;
    struct cushim_kv_cache cache = {
        .k = K,
        .v = V,
        .strides = {.head = head_dim, .position = (int64_t)num_kv_heads * head_dim},
        .kv_begin = cum_seq_lens,
        .kv_len = seq_lens,
        .max_kv_len = INT32_MAX};
    FORWARD(stream,
            cushim_attention_cached_f32(Q, &cache, cum_seq_lens, seq_lens, O, batch, num_q_heads,
                                        num_kv_heads, head_dim, INT32_MAX, false, NULL, 0, stream));
}
