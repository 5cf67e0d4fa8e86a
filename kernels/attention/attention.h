/*
 * What the launchers of attention and its device code agree on: the variants, their tiles, their
 * shared memory, and what a launch passes by value.
 *
 * A variant is named by the head_dim that its tiles hold; a smaller one is padded with zeros.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_H
#define CUSHIM_KERNELS_ATTENTION_H

#include <stdint.h>

#include "kernels/shared/divider.h"

/*
 * Forward on fp32 units: (dim, query rows of a block, keys of a tile, threads that share a row).  A
 * block has 64 KiB of shared memory on the oldest device.
 */
#define ATTENTION_TILED_VARIANTS(V) V(64, 64, 32, 8) V(128, 64, 32, 8) V(256, 32, 16, 16)

/* The same for sequences with caches and many query rows. */
#define ATTENTION_CACHED_VARIANTS(V) V(128, 64, 32, 8) V(256, 32, 16, 16)

/*
 * Forward on matrix units: (dim, warps, tiles of 16 query rows per warp, keys of a tile); the large
 * ones also say how many blocks a multiprocessor holds.  The small ones stay below the 99 KiB that
 * a block has on 8.6 and 8.9; the others need 9.0.
 */
#define ATTENTION_SPLIT_SMALL_VARIANTS(V)  V(64, 4, 1, 64) V(96, 4, 1, 32) V(128, 4, 1, 32)
#define ATTENTION_SPLIT_MEDIUM_VARIANTS(V) V(128, 8, 1, 64)
#define ATTENTION_SPLIT_LARGE_VARIANTS(V)                                                          \
    V(64, 4, 2, 64, 2) V(96, 8, 2, 32, 1) V(128, 8, 2, 32, 1) V(256, 8, 1, 16, 1)

/* Forward by warpgroups, only on 9.0: dim. */
#define ATTENTION_WGMMA_VARIANTS(V) V(64) V(128)

/* The same for caches and many query rows: (name, type, dim). */
#define ATTENTION_CACHED_WGMMA_VARIANTS(V)                                                         \
    V(f32, F32, 64)                                                                                \
    V(f32, F32, 128) V(f16, F16, 64) V(f16, F16, 128) V(bf16, BF16, 64) V(bf16, BF16, 128)

/*
 * The elements of a cache, in the order of enum cushim_kv_type.  EVEN is F32 with one query of each
 * sequence, no blocks, and all rows at multiples of 16 bytes.
 */
enum attention_type { ATTENTION_F32, ATTENTION_F16, ATTENTION_BF16, ATTENTION_EVEN };

/* Decode: (name, type, dim, query rows of a block, which share a KV head). */
#define ATTENTION_DECODE_EVENS(V, dim)                                                             \
    V(dim##_1, EVEN, dim, 1)                                                                       \
    V(dim##_2, EVEN, dim, 2) V(dim##_4, EVEN, dim, 4) V(dim##_8, EVEN, dim, 8)
#define ATTENTION_DECODE_DIM(V, name, type, dim)                                                   \
    V(name##_##dim##_4, type, dim, 4) V(name##_##dim##_8, type, dim, 8)
#define ATTENTION_DECODE_TYPE(V, name, type)                                                       \
    ATTENTION_DECODE_DIM(V, name, type, 64)                                                        \
    ATTENTION_DECODE_DIM(V, name, type, 128) ATTENTION_DECODE_DIM(V, name, type, 256)
#define ATTENTION_DECODE_VARIANTS(V)                                                               \
    ATTENTION_DECODE_EVENS(V, 32)                                                                  \
    ATTENTION_DECODE_EVENS(V, 64)                                                                  \
    ATTENTION_DECODE_EVENS(V, 128)                                                                 \
    ATTENTION_DECODE_EVENS(V, 256)                                                                 \
    ATTENTION_DECODE_TYPE(V, f32, F32)                                                             \
    ATTENTION_DECODE_TYPE(V, f16, F16)                                                             \
    ATTENTION_DECODE_TYPE(V, bf16, BF16)

enum {
    ATTENTION_MOST_DIM = 256, /* above: the row kernels */
    ATTENTION_ROW_THREADS = 128,
    ATTENTION_WGMMA_THREADS = 512,
    ATTENTION_WGMMA_ROWS = 64, /* query rows of each of two warpgroups; two more make halves */
    ATTENTION_WGMMA_KEYS = 128,
    ATTENTION_WGMMA_MOST_SEQ = 1 << 30,
    ATTENTION_MERGE_THREADS = 256,
    ATTENTION_MERGE_COLUMNS = 128, /* of a block */
    ATTENTION_MOST_CHUNKS = 256,   /* parts of one row of decode */
    ATTENTION_MOST_CLUSTER = 16,   /* of them in a cluster */
    ATTENTION_LEAST_TURN = 32,     /* of ATTENTION_DECODE_TURN */
    ATTENTION_DECODE_GROUP = 8,    /* the most rows of a block */
    /* of several queries and their heads, before tiles take them: always, and at most */
    ATTENTION_DECODE_ROWS = 32,
    ATTENTION_DECODE_MOST_ROWS = 128,
    ATTENTION_DECODE_SPAN = 128,     /* positions that a warp adds up before it adds to its total */
    ATTENTION_DECODE_UNIT_KEYS = 16, /* of a step on matrix units */
    ATTENTION_DECODE_UNIT_BYTES = 114 * 1024 /* the most of such a block: half of the shared memory
                                                of a multiprocessor of 9.0 */
};

/*
 * Rows of shared memory lie 4 floats from a multiple of 32, so that no two of 8 rows share a bank.
 */
#define ATTENTION_TILED_BYTES(dim, rows, keys)                                                     \
    (4 * (((rows) + (keys)) * ((dim) + 4) + (keys) * ((rows) + 4)))
/*
 * K and V as they come; Q, K and V as two halves each; a scale per row; two words per warp, 16 per
 * block.
 */
#define ATTENTION_SPLIT_BYTES(dim, warps, row_tiles, keys)                                         \
    (4 * ((dim) * (16 * (row_tiles) * (warps) + 4 * (keys)) + 16 * (row_tiles) * (warps) +         \
          2 * (warps) + 16))
/*
 * Halves of two row tiles, of keys and of values; a raw octet of rows per warp and its delivery;
 * the About of each octet, gates, and a count per warp.
 */
#define ATTENTION_WGMMA_BYTES(dim)                                                                 \
    (4 * (dim) * (2 * ATTENTION_WGMMA_ROWS + 2 * ATTENTION_WGMMA_KEYS + 64) +                      \
     2 * ATTENTION_WGMMA_ROWS + 4 * ATTENTION_WGMMA_KEYS + 64 + 32 + 32)
/* For a type of caches: terms of 16 bits of a query or weight, and of a key or value; places of
 * tiles of keys or values; threads. */
#define ATTENTION_WGMMA_TERMS(type)          ((type) == ATTENTION_BF16 ? 3 : 2)
#define ATTENTION_WGMMA_KEY_TERMS(type)      ((type) == ATTENTION_F32 ? 2 : 1)
#define ATTENTION_WGMMA_PLACES(type)         ((type) == ATTENTION_F32 ? 2 : 4)
#define ATTENTION_CACHED_WGMMA_THREADS(type) ((type) == ATTENTION_F32 ? 512 : 384)
/* Terms of two row tiles, and of the places; the About of each octet; gates; two words per warp
 * with rows. */
#define ATTENTION_CACHED_WGMMA_BYTES(type, dim)                                                    \
    (2 * (dim) *                                                                                   \
         (2 * ATTENTION_WGMMA_TERMS(type) * ATTENTION_WGMMA_ROWS +                                 \
          ATTENTION_WGMMA_PLACES(type) * ATTENTION_WGMMA_KEY_TERMS(type) * ATTENTION_WGMMA_KEYS) + \
     2 * ATTENTION_WGMMA_ROWS + ATTENTION_WGMMA_PLACES(type) * (ATTENTION_WGMMA_KEYS + 16) + 64)
#define ATTENTION_IS_OF_16(type) ((type) == ATTENTION_F16 || (type) == ATTENTION_BF16)
/* Warps of a block, which on matrix units have up to 64 KiB of keys and values. */
#define ATTENTION_DECODE_WARPS(type, dim) (ATTENTION_IS_OF_16(type) && (dim) > 128 ? 4 : 8)
/*
 * What a warp has in shared memory: its outputs or, before them, the keys and values of a step on
 * matrix units.
 */
#define ATTENTION_DECODE_WARP_BYTES(dim, group, on_units)                                          \
    ((on_units) ? 2 * ATTENTION_DECODE_UNIT_KEYS * 2 * (dim) : 4 * (group) * (dim))
/* Weights of a step and row; on matrix units no two of 8 rows share a bank. */
#define ATTENTION_DECODE_WEIGHTS(type, dim)                                                        \
    (ATTENTION_IS_OF_16(type) ? ATTENTION_DECODE_UNIT_KEYS + 4                                     \
                              : 4 * ((dim) < 128 ? 128 / (dim) : 1))
/* Positions that the warps of a block take at a time; fewer are not worth a block. */
#define ATTENTION_DECODE_TURN(type, dim)                                                           \
    (ATTENTION_DECODE_WARPS(type, dim) * (ATTENTION_IS_OF_16(type)                                 \
                                              ? ATTENTION_DECODE_UNIT_KEYS                         \
                                              : ATTENTION_DECODE_WEIGHTS(type, dim)))
/*
 * Per warp the above, and a maximum, a sum and the weights of a step per head; what a cluster
 * gives: an output per column, a maximum and a sum per block and head; for matrix units eight
 * columns of queries.
 */
#define ATTENTION_DECODE_BYTES(type, dim, group, on_units)                                         \
    (ATTENTION_DECODE_WARPS(type, dim) *                                                           \
         (ATTENTION_DECODE_WARP_BYTES(dim, group, on_units) +                                      \
          4 * (group) * (2 + ATTENTION_DECODE_WEIGHTS(type, dim))) +                               \
     4 * (group) * ((dim) + 2 * ATTENTION_MOST_CLUSTER) + ((on_units) ? 32 * (dim) : 0))
/* Rows of K, and of V, that a lane has in flight on fp32 units. */
#define ATTENTION_DECODE_ROUNDS(type) (ATTENTION_IS_OF_16(type) ? 8 : 4)
/* Floats of a chunk's output in scratch: a multiple of 16 bytes. */
#define ATTENTION_PART_COLUMNS(dim) (((dim) + 3) / 4 * 4)
/*
 * Blocks of a multiprocessor, which together have enough of K and V in flight.  On matrix units a
 * second block of 128 columns would leave each thread too few registers, which cost 7 % (H200).
 */
#define ATTENTION_DECODE_SLOTS(type, dim) ((dim) <= (ATTENTION_IS_OF_16(type) ? 64 : 128) ? 2 : 1)

struct attention_args {
    const float *q, *k, *v; /* [n_heads][seq][head_dim] */
    float *o;
    int64_t n_heads; /* of all batches */
    int64_t seq, head_dim;
    float scale; /* attention_scale() */
    int is_causal;
    int is_wide; /* addresses and head_dim are multiples of 4 floats */
    /* only for warpgroups: */
    int is_in_pairs; /* a block has row tiles from both ends */
    int n_clusters;  /* of a head */
    struct cushim_divider of_heads;
};

/* Of sequences with caches, for all kernels. */
struct attention_cached_args {
    const float *q;
    const int32_t *q_begin, *q_len; /* or NULL */
    float *o;
    const void *k, *v;
    const int32_t *kv_begin, *kv_len, *blocks; /* or NULL */
    int64_t batch_stride, head_stride, position_stride;
    int64_t batch, n_kv_heads, group, head_dim, max_q_len, max_kv_len;
    int64_t blocks_per_sequence;
    struct cushim_divider of_block; /* its length */
    int type;                       /* enum attention_type, without EVEN */
    int is_one_len;                 /* kv_len has one number for all sequences */
    int is_of_pointers;
    float scale;
    int is_causal;
    int is_wide; /* as above, of q and o */
    /* only for decode: */
    int is_early;     /* the length may be read before the wait */
    int is_clustered; /* the chunks of a row are one cluster */
    int n_chunks;
    int64_t n_slices; /* of the rows of a KV head */
    struct cushim_divider of_slice, of_head;
    /* of chunks, in scratch at multiples of 16 bytes, or NULL, of max_q_len queries of each
     * sequence: [rows][n_chunks][PART_COLUMNS] of the output; [rows][n_chunks][2], maximum and
     * sum */
    float *parts, *stats;
};

#endif
