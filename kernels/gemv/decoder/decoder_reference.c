#include <stdlib.h>

#include "cushim/kernels/attention.h"
#include "cushim/kernels_ref.h"
#include "kernels/gemv/decoder/decoder.h"

/* The host allocates the buffers between the steps; without memory for them nothing is done. */
void cushim_decoder_f32_ref(const struct cushim_decoder *decoder, const int32_t *position,
                            const int32_t *length, float *h) {
    const struct cushim_decoder *d = decoder;
    int64_t n_q = d->n_q_heads * d->head_dim;
    struct cushim_kv_strides strides = {0, d->head_stride, d->position_stride};
    float *q = calloc((size_t)(2 * n_q + d->ff) + 1, sizeof *q);
    if (!q || !d->hidden) {
        free(q);
        return;
    }
    float *attended = q + n_q, *ff = attended + n_q;
    for (int64_t i = 0; i < d->n_layers; i++) {
        const struct cushim_decoder_layer *of = &d->layers[i];
        cushim_gemv_qkv_ref(cushim_decoder_rows(of->qkv, 3), h, of->attention_norm, of->qkv_bias,
                            d->cos_table, d->sin_table, position, q, of->keys, of->values, d->eps,
                            d->n_q_heads, d->n_kv_heads, d->head_dim, d->hidden, d->max_len,
                            d->position_stride, d->head_stride);
        cushim_attention_decode_f32_ref(q, of->keys, of->values, length, attended, 1, d->n_q_heads,
                                        d->n_kv_heads, d->head_dim, 0, d->max_len, &strides);
        cushim_gemv_add_ref(cushim_decoder_rows(&of->o, 1), attended, h, h, d->hidden, n_q);
        cushim_gemv_swiglu_ref(cushim_decoder_rows(of->gate_up, 2), h, of->ff_norm, ff, d->eps,
                               d->ff, d->hidden);
        cushim_gemv_add_ref(cushim_decoder_rows(&of->down, 1), ff, h, h, d->hidden, d->ff);
    }
    free(q);
}
