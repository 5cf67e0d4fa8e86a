/*
 * Attention in fp32: softmax(q k^T / sqrt(head_dim)) v, for whole sequences and for one query per
 * head against a cache.
 *
 * No kernel stores scores: each goes through the keys once with a running maximum, sum and output.
 */
#include "kernels/attention/attention_tiled.cuh"
#include "kernels/attention/attention_split.cuh"
#include "kernels/attention/attention_wgmma.cuh"
#include "kernels/attention/attention_row.cuh"
#include "kernels/attention/attention_cached.cuh"
#include "kernels/attention/attention_wgmma_cached.cuh"
#include "kernels/attention/attention_decode.cuh"
#include "kernels/attention/attention_merge.cuh"
