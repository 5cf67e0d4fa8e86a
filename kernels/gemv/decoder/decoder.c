/*
 * A decoder's layers for one token: five calls each.
 *
 * A product takes its first weights before it waits for the kernel ahead, which is one of these and
 * writes no weights.  The first product of all waits before it takes any, because the work ahead of
 * it may write some.
 */
#include "cushim/kernels/decoder.h"

#include "cushim/kernels/attention.h"
#include "cushim/kernels/gemv.h"
#include "companion/shared.h"
#include "kernels/gemv/decoder/decoder.h"
#include "kernels/launch/arguments.h"
#include "kernels/shared/attention_decode.h"

enum {
    MOST = 1 << 28, /* for a size */
    WIDE = 16       /* the bytes of which buffers in scratch are at multiples */
};

struct step {
    const struct cushim_decoder *decoder;
    const int32_t *position, *length;
    float *h, *q, *attended, *ff;
    void *scratch; /* the part of it for the calls */
    size_t scratch_bytes;
    struct CUstream_st *stream;
};

/* ---- scratch: what goes from step to step, then what the calls need ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static int64_t rows_of_qkv(const struct cushim_decoder *d) {
    return (d->n_q_heads + 2 * d->n_kv_heads) * d->head_dim;
}

static size_t lead_floats(const struct cushim_decoder *d) {
    return (size_t)(2 * d->n_q_heads * d->head_dim + d->ff);
}

static bool has_sizes(const struct cushim_decoder *d) {
    const int64_t sizes[] = {d->hidden,     d->ff,       d->n_q_heads,
                             d->n_kv_heads, d->head_dim, d->max_len};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 0 || sizes[i] > MOST)
            return false;
    }
    return d->n_q_heads + 2 * d->n_kv_heads <= MOST / (d->head_dim ? d->head_dim : 1);
}

size_t cushim_decoder_f32_scratch(const struct cushim_decoder *decoder) {
    const struct cushim_decoder *d = decoder;
    if (!d || !has_sizes(d))
        return 0;
    size_t n = larger(cushim_gemv_q4k_scratch(rows_of_qkv(d), d->hidden),
                      cushim_attention_decode_f32_scratch(1, d->n_q_heads, d->n_kv_heads,
                                                          d->head_dim, d->max_len));
    n = larger(n, cushim_gemv_q4k_scratch(d->hidden, d->n_q_heads * d->head_dim));
    n = larger(n, cushim_gemv_q4k_scratch(2 * d->ff, d->hidden));
    return WIDE + lead_floats(d) * sizeof(float) +
           larger(n, cushim_gemv_q4k_scratch(d->hidden, d->ff));
}

/* ---- checks: all of them, before anything is queued ---- */

static enum cushim_status check_sizes(const char *what, const struct cushim_decoder *d) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"ff", d->ff},
                 {"n_q_heads", d->n_q_heads},
                 {"n_kv_heads", d->n_kv_heads},
                 {"head_dim", d->head_dim},
                 {"max_len", d->max_len}};
    CUSHIM_TRY(cushim_check_size(what, "n_layers", d->n_layers));
    CUSHIM_TRY(cushim_check_size(what, "hidden", d->hidden));
    CUSHIM_TRY(cushim_check_size(what, "position_stride", d->position_stride));
    CUSHIM_TRY(cushim_check_size(what, "head_stride", d->head_stride));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1)
            return cushim_fail(what, CUSHIM_INVALID, "%s=%lld is below 1", sizes[i].name,
                               (long long)sizes[i].value);
    }
    if (!has_sizes(d))
        return cushim_fail(what, CUSHIM_INVALID, "a size, or the rows of qkv, is above 2^28");
    CUSHIM_TRY(cushim_check_multiple(what, "head_dim", d->head_dim, 2));
    return cushim_check_multiple(what, "n_q_heads", d->n_q_heads, d->n_kv_heads);
}

static enum cushim_status check_weights(const char *what, const char *name,
                                        const struct cushim_weights *w, int most,
                                        const char *k_name, int64_t k) {
    for (int i = 0; i < cushim_decoder_n_matrices(w, most); i++) {
        if ((unsigned)w[i].format >= QUANT_N_FORMATS)
            return cushim_fail(what, CUSHIM_INVALID, "%s has format=%d", name, (int)w[i].format);
        bool is_q4_0 = w[i].format == CUSHIM_FORMAT_Q4_0;
        const struct quant_layout layout = cushim_quant_layout((enum quant_format)w[i].format);
        CUSHIM_TRY(cushim_check_multiple(what, k_name, k, layout.values));
        CUSHIM_TRY(
            cushim_check_pointer(what, name, w[i].w, is_q4_0 ? 1 : (size_t)layout.alignment));
        if (is_q4_0)
            CUSHIM_TRY(cushim_check_pointer(what, "scales", w[i].scales, sizeof(uint16_t)));
    }
    return CUSHIM_OK;
}

static enum cushim_status check_layer(const char *what, const struct cushim_decoder *d,
                                      const struct cushim_decoder_layer *of) {
    CUSHIM_TRY(check_weights(what, "qkv", of->qkv, 3, "hidden", d->hidden));
    CUSHIM_TRY(
        check_weights(what, "o", &of->o, 1, "n_q_heads * head_dim", d->n_q_heads * d->head_dim));
    CUSHIM_TRY(check_weights(what, "gate_up", of->gate_up, 2, "hidden", d->hidden));
    CUSHIM_TRY(check_weights(what, "down", &of->down, 1, "ff", d->ff));
    if (of->qkv_bias)
        CUSHIM_TRY(cushim_check_pointer(what, "qkv_bias", of->qkv_bias, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "attention_norm", of->attention_norm, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "ff_norm", of->ff_norm, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "keys", of->keys, sizeof(float)));
    return cushim_check_pointer(what, "values", of->values, sizeof(float));
}

static enum cushim_status check_pointers(const char *what, const struct step *step) {
    const struct cushim_decoder *d = step->decoder;
    size_t n = cushim_decoder_f32_scratch(d);
    for (int64_t i = 0; i < d->n_layers; i++)
        CUSHIM_TRY(check_layer(what, d, &d->layers[i]));
    CUSHIM_TRY(cushim_check_pointer(what, "cos_table", d->cos_table, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "sin_table", d->sin_table, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "position", step->position, sizeof(int32_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "length", step->length, sizeof(int32_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "h", step->h, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "scratch", step->scratch, sizeof(float)));
    return step->scratch_bytes >= n
               ? CUSHIM_OK
               : cushim_fail(what, CUSHIM_INVALID, "scratch_bytes=%zu is less than %zu",
                             step->scratch_bytes, n);
}

/* ---- the call ---- */

static enum cushim_status run_layer(const char *what, const struct step *s, int64_t layer) {
    const struct cushim_decoder *d = s->decoder;
    const struct cushim_decoder_layer *of = &d->layers[layer];
    const struct gemv_how early = {what, true}, first = {what, layer > 0};
    struct cushim_kv_strides strides = {0, d->head_stride, d->position_stride};
    CUSHIM_TRY(cushim_gemv_qkv(first, cushim_decoder_rows(of->qkv, 3), s->h, of->attention_norm,
                               of->qkv_bias, d->cos_table, d->sin_table, s->position, s->q,
                               of->keys, of->values, d->eps, d->n_q_heads, d->n_kv_heads,
                               d->head_dim, d->hidden, d->max_len, d->position_stride,
                               d->head_stride, s->scratch, s->scratch_bytes, s->stream));
    CUSHIM_TRY(cushim_attention_decode((struct attention_how){what, true}, s->q, of->keys,
                                       of->values, s->length, s->attended, 1, d->n_q_heads,
                                       d->n_kv_heads, d->head_dim, 0, d->max_len, &strides,
                                       s->scratch, s->scratch_bytes, s->stream));
    CUSHIM_TRY(cushim_gemv_add(early, cushim_decoder_rows(&of->o, 1), s->attended, s->h, s->h,
                               d->hidden, d->n_q_heads * d->head_dim, s->scratch, s->scratch_bytes,
                               s->stream));
    CUSHIM_TRY(cushim_gemv_swiglu(early, cushim_decoder_rows(of->gate_up, 2), s->h, of->ff_norm,
                                  s->ff, d->eps, d->ff, d->hidden, s->scratch, s->scratch_bytes,
                                  s->stream));
    return cushim_gemv_add(early, cushim_decoder_rows(&of->down, 1), s->ff, s->h, s->h, d->hidden,
                           d->ff, s->scratch, s->scratch_bytes, s->stream);
}

enum cushim_status cushim_decoder_f32(const struct cushim_decoder *decoder, const int32_t *position,
                                      const int32_t *length, float *h, void *scratch,
                                      size_t scratch_bytes, struct CUstream_st *stream) {
    CUSHIM_TRY(cushim_check_host(__func__, "decoder", decoder));
    CUSHIM_TRY(check_sizes(__func__, decoder));
    if (decoder->n_layers == 0 || decoder->hidden == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_host(__func__, "decoder->layers", decoder->layers));
    struct step step = {.decoder = decoder,
                        .position = position,
                        .length = length,
                        .h = h,
                        .scratch = scratch,
                        .scratch_bytes = scratch_bytes,
                        .stream = stream};
    CUSHIM_TRY(check_pointers(__func__, &step));
    size_t lead_bytes = -(uintptr_t)scratch % WIDE;
    step.q = (float *)((char *)scratch + lead_bytes);
    step.attended = step.q + decoder->n_q_heads * decoder->head_dim;
    step.ff = step.attended + decoder->n_q_heads * decoder->head_dim;
    step.scratch = step.q + lead_floats(decoder);
    step.scratch_bytes -= lead_bytes + lead_floats(decoder) * sizeof(float);
    for (int64_t i = 0; i < decoder->n_layers; i++)
        CUSHIM_TRY(run_layer(__func__, &step, i));
    return CUSHIM_OK;
}
