/* libkernels.so: attention. */
#include "cushim/kernels/attention.h"
#include "kernels/dropin/enter.h"

int flash_attention_forward_f32(const float *Q, const float *K, const float *V, float *O, int batch,
                                int heads, int seq_len, int head_dim, int causal,
                                cudaStream_t stream) {
    FORWARD(stream,
            cushim_attention_f32(Q, K, V, O, batch, heads, seq_len, head_dim, causal != 0, stream));
}

/* K and V are [batch, max_kv_len, num_kv_heads * head_dim]. */
int flash_attention_decode_f32(const float *Q, const float *K, const float *V, float *O, int num_bh,
                               int max_kv_len, int head_dim, int kv_len, const int *kv_len_ptr,
                               int num_q_heads, int num_kv_heads, cudaStream_t stream) {
    if (num_q_heads < 1 || num_bh % num_q_heads)
        return DROPIN_INVALID;
    int64_t row = (int64_t)num_kv_heads * head_dim; /* of all heads at one position */
    struct cushim_kv_strides kv = {.head = head_dim, .position = row};
    if (__builtin_mul_overflow(row, (int64_t)max_kv_len, &kv.batch))
        return DROPIN_INVALID;
    FORWARD(stream, cushim_attention_decode_f32(
                        Q, K, V, kv_len_ptr, O, num_bh / num_q_heads, num_q_heads, num_kv_heads,
                        head_dim, kv_len < 0 ? 0 : kv_len, max_kv_len, &kv, NULL, 0, stream));
}
