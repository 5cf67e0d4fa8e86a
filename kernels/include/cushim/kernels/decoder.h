/*
 * The layers of a decoder, as in the Llama and Qwen2 models, for one token: products with weights
 * of any quantised format, and decode attention.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_DECODER_H
#define CUSHIM_KERNELS_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/* gemv.h and quant.h say what the blocks of a format are. */
enum cushim_format {
    CUSHIM_FORMAT_Q4_0,
    CUSHIM_FORMAT_Q8_0,
    CUSHIM_FORMAT_Q8F,
    CUSHIM_FORMAT_Q4K,
    CUSHIM_FORMAT_Q5_0,
    CUSHIM_FORMAT_Q5K,
    CUSHIM_FORMAT_Q6K
};

/* A matrix: blocks, row after row. */
struct cushim_weights {
    enum cushim_format format;
    const void *w;          /* of q4_0 the nibbles */
    const uint16_t *scales; /* of q4_0; not read for other formats */
};

/*
 * A layer, on the device.  The rows of qkv are queries, keys and values, as of _gemv_qkv, and those
 * of gate_up are the gate, then up, as of _gemv_swiglu.  They are one matrix, or one for each if
 * the second has an address.  One of q4k is fastest.  The rest are floats; the caches are written.
 */
struct cushim_decoder_layer {
    struct cushim_weights qkv[3];          /* [n_q_heads + 2 n_kv_heads][head_dim][hidden] */
    struct cushim_weights o;               /* [hidden][n_q_heads * head_dim] */
    struct cushim_weights gate_up[2];      /* [2 ff][hidden] */
    struct cushim_weights down;            /* [hidden][ff] */
    const float *qkv_bias;                 /* for each row of qkv, added before the rotation; NULL
                                              means none */
    const float *attention_norm, *ff_norm; /* [hidden] */
    float *keys, *values;                  /* position p of KV head h is head_dim floats at p *
                                              position_stride + h * head_stride */
};

/* What all layers share; strides in elements. */
struct cushim_decoder {
    int64_t n_layers;                          /* >= 0 */
    int64_t hidden, ff;                        /* >= 0, > 0 */
    int64_t n_q_heads, n_kv_heads;             /* > 0; the first is a multiple of the second */
    int64_t head_dim;                          /* > 0, even */
    int64_t max_len;                           /* > 0; positions of the caches and the tables */
    int64_t position_stride, head_stride;      /* >= 0 */
    const struct cushim_decoder_layer *layers; /* [n_layers], on the host */
    const float *cos_table, *sin_table;        /* [max_len][head_dim / 2] on the device */
    float eps;                                 /* of the norms */
};

/**
 * How many bytes of scratch cushim_decoder_f32() needs.
 * @param decoder  only its sizes are read; NULL gives 0
 * @return bytes; 0 if a size is out of range
 * Threads  any
 */
CUSHIM_API size_t cushim_decoder_f32_scratch(const struct cushim_decoder *decoder);

/**
 * Take one token through all layers.  In each, with x = h / rms(h) * norm: q, k, v = rotated(qkv
 * x + qkv_bias), and k and v go into the caches at *position; a = attention of q to the first
 * *length positions; h += o a; h += down (silu(gate x) * up x), with x of ff_norm.
 *
 * If a product has only q4k weights it is that of _gemv_qkv_q4k_f32, _gemv_add_q4k_f32 or
 * _gemv_swiglu_q4k_f32, but takes its weights before the kernel ahead has ended.  Others are a
 * norm, _gemm_FORMAT_f32 with one column for each matrix, and the end.  If there is no layer or
 * hidden is 0, nothing is done and the other pointers may be NULL.
 * @param decoder   on the host; not used after the call, nor are its layers
 * @param position  on the device, read there; a multiple of 4 bytes.  If it is not in [0, max_len),
 *                  h is undefined and the caches do not change
 * @param length    on the device, read there; a multiple of 4 bytes: usually *position + 1, and
 *                  clamped to 0 .. max_len
 * @param h         [hidden] on the device, in and out; a multiple of 4 bytes; faster if it and the
 *                  norms are multiples of 16
 * @param scratch   on the device, a multiple of 4 bytes; its contents are lost
 * @param scratch_bytes  at least cushim_decoder_f32_scratch(decoder)
 * @param stream    NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a size out of range or above 2^28, columns of a matrix that
 *         are no multiple of its blocks' values, no such format, more bytes than can be counted, a
 *         NULL or misaligned pointer, too little scratch): nothing was queued | a driver status: h
 *         and the caches may be half done
 * Accuracy  that of the function for each step
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_decoder_f32(const struct cushim_decoder *decoder,
                                                 const int32_t *position, const int32_t *length,
                                                 float *h, void *scratch, size_t scratch_bytes,
                                                 struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
