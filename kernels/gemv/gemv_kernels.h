/*
 * What the launchers of gemv and its device code agree on: the kernels' numbers, and how much
 * shared memory each is launched with.
 */
#ifndef CUSHIM_KERNELS_GEMV_KERNELS_H
#define CUSHIM_KERNELS_GEMV_KERNELS_H

#include <stdint.h>

#include "kernels/shared/quant_parts.h"

/* ---- shared memory, in bytes ---- */

/*
 * Rows times columns: a slice of 8192 values of the columns in blocks of 36 floats, and for blocks
 * of bytes 32 of them for each of two rows of eight warps.
 */
#define GEMV_COLUMN_VALUES         8192
#define GEMV_COLUMN_BYTES          (GEMV_COLUMN_VALUES / 32 * 36 * 4)
#define GEMV_STAGED_BYTES(n_bytes) (GEMV_COLUMN_BYTES + 8 * 2 * 32 * (n_bytes))
#define GEMV_Q4K_BYTES             (GEMV_COLUMN_VALUES / 64 * 68 * 4)

/* Bytes of a block of a super-block in a stage, with its part of what four of them share. */
#define GEMV_Q4K_STAGED        20
#define GEMV_Q5K_STAGED        28
#define GEMV_Q6K_STAGED        40
#define GEMV_HAS_MINIMA(bytes) ((bytes) == GEMV_Q4K_STAGED || (bytes) == GEMV_Q5K_STAGED)
#define GEMV_IS_SUPER(bytes)   (GEMV_HAS_MINIMA(bytes) || (bytes) == GEMV_Q6K_STAGED)

/*
 * On the matrix units, for `chunk` blocks of n_bytes in each row: the pitch of rows, the place of
 * one, the bytes of a stage, and the total.  Blocks of bytes hold their scales, those of nibbles do
 * not.  Eight rows side by side lie in different banks, because the pitch is an odd multiple of 16,
 * or an odd one of 32 with 16 bytes before every fourth row.
 */
#define GEMV_CHUNK_OF_8                 8 /* blocks, for tiles of 8 columns */
#define GEMV_CHUNK_OF_MORE              4
#define GEMV_MMA_ROWS                   128
#define GEMV_MMA_ROWS_OF_8(has_scales)  ((has_scales) ? 128 : 256) /* for tiles of 8 columns */
#define GEMV_MMA_PIECES(n_bytes, chunk) (((chunk) * (n_bytes) + 15) / 16)
#define GEMV_MMA_PITCH(n_bytes, chunk)                                                             \
    (16 * (GEMV_MMA_PIECES(n_bytes, chunk) | (GEMV_MMA_PIECES(n_bytes, chunk) % 4 != 2)))
#define GEMV_MMA_PLACE(row, pitch)           ((row) * (pitch) + ((pitch) % 32 ? 0 : (row) / 4 * 16))
#define GEMV_MMA_STAGE(rows, n_bytes, chunk) GEMV_MMA_PLACE(rows, GEMV_MMA_PITCH(n_bytes, chunk))
#define GEMV_MMA_BYTES(rows, n_bytes, has_scales, chunk, cols)                                     \
    (2 * GEMV_MMA_STAGE(rows, n_bytes, chunk) + (chunk) * (cols) * (32 * 4 + 4) +                  \
     (GEMV_HAS_MINIMA(n_bytes) ? (chunk) * (cols)*8 : 0) +                                         \
     ((has_scales) ? 0 : (rows) * (chunk)*2))

/*
 * On the matrix units, blocks that stay: up to 16 warps, with zeros and digits of all steps of 256
 * values of n_cols columns, factors, the warps' sums of all its tiles, and stages of 16 rows.  A
 * block of 9.0 has 227 KiB; on a device with less the launch has less, or there is none.  If blocks
 * of a cluster share k, each has the steps from its first one on, whose weights begin at a multiple
 * of 16 bytes.
 */
#define GEMV_DIRECT_WARPS           16
#define GEMV_DIRECT_ROWS            16
#define GEMV_DIRECT_STEP            256
#define GEMV_DIRECT_DIGITS          1536
#define GEMV_DIRECT_DIGITS_OF_SUPER 1792
#define GEMV_DIRECT_MOST_BYTES      (227 * 1024)
#define GEMV_DIRECT_FIRST_STEP(n_steps, rank, n_ranks)                                             \
    (((n_steps) * (rank) / (n_ranks) + 4) / 8 * 8)
#define GEMV_DIRECT_BYTES(n_cols, column_bytes, n_steps, n_warps, n_tiles, bytes_of_warp)          \
    ((n_cols) * (((n_steps) + 1) * (column_bytes) + (n_steps)*64 + (n_tiles) * (n_warps)*64) +     \
     (n_warps) * (bytes_of_warp))

/*
 * Slices of k in the registers of up to 16 warps: stages of 16 rows of n_bytes per warp, a scratch,
 * and sums of some tiles, twice, of the block and of the warps, these n_sums times.
 */
#define GEMV_SLICE                      256
#define GEMV_SLICE_ROWS                 16
#define GEMV_SLICE_COLS                 8
#define GEMV_SLICE_WARPS                16
#define GEMV_SLICE_STAGES               2
#define GEMV_SLICE_SCRATCH              512
#define GEMV_SLICE_STAGE_BYTES(n_bytes) (GEMV_SLICE_ROWS * (((n_bytes) + 15) / 16 * 16 | 16))
#define GEMV_SLICE_BYTES(n_bytes, n_warps, n_slices, tiles_per_sum, n_sums)                        \
    ((n_warps) * (GEMV_SLICE_STAGES * GEMV_SLICE_STAGE_BYTES(n_bytes) + GEMV_SLICE_SCRATCH) +      \
     (tiles_per_sum) * (2 + (n_sums) * (n_slices)) * 512)

/* The stages of a warp of blocks that stay, for formats that have stages there. */
#define GEMV_DIRECT_STAGES 2
#define GEMV_DIRECT_STAGED(n_bytes)                                                                \
    ((unsigned)(GEMV_DIRECT_STAGES * GEMV_SLICE_STAGE_BYTES(n_bytes)))

/* How a product is cut into slices.  A block has slices, and groups of as many warps. */
struct gemv_slices {
    int64_t m, k, n;
    int64_t step; /* bytes of weights from a warp's tile to its next */
    uint32_t row_bytes;
    int32_t n_slices, n_groups;
    int32_t tile_step;     /* from a tile of a cluster to its next */
    int32_t tiles_per_sum; /* after which the block adds up */
};

/*
 * Weights that a block asks for while the kernel ahead still runs.  If they are few enough it asks
 * for all, and has half of a multiprocessor.  Otherwise it asks for less, so as not to delay the
 * first that it waits for; only for a vocabulary does it ask for as much.
 */
#define GEMV_DIRECT_EARLY_BYTES   (128 * 1024)
#define GEMV_DIRECT_EARLY_OF_Q4_0 (48 * 1024)
#define GEMV_DIRECT_EARLY_OF_MORE (64 * 1024)

/* If the column is normed: a sum of squares per warp. */
#define GEMV_DIRECT_NORM_BYTES 16

/*
 * By warpgroups, some that multiply and some that bring what they need, in tiles of 32 or 64
 * columns, by stages of chunks of blocks: weights, terms, factors and scales, and a gate.
 */
#define GEMV_WGMMA_ROWS  256
#define GEMV_WGMMA_CHUNK 4
#define GEMV_WGMMA_STAGES(n_bytes, cols, has_terms)                                                \
    (!(has_terms) ? 2 : (cols) > 32 || (n_bytes) == GEMV_Q6K_STAGED ? 3 : 4)
#define GEMV_WGMMA_THREADS(has_terms) ((has_terms) ? 640 : 512)
#define GEMV_WGMMA_BYTES(n_bytes, has_scales, cols, has_terms)                                     \
    (GEMV_WGMMA_STAGES(n_bytes, cols, has_terms) *                                                 \
     (GEMV_MMA_STAGE(GEMV_WGMMA_ROWS, n_bytes, GEMV_WGMMA_CHUNK) +                                 \
      GEMV_WGMMA_CHUNK *                                                                           \
          ((cols)*128 + (cols) / 32 * 8 + ((has_scales) ? 0 : GEMV_WGMMA_ROWS * 2)) +              \
      (GEMV_IS_SUPER(n_bytes) ? (cols)*32 : 0) + 8))

/* Terms of columns in scratch: 4 bytes per value, and factors for each 32 columns of a block. */
#define GEMV_TERMS_THREADS                128
#define GEMV_TERM_FACTORS(n_blocks, cols) (((n_blocks) * ((cols) / 32) + 1) / 2 * 2)

#define GEMV_SPLIT_BYTES 64 /* a sum per warp, and that of the block */

/* ---- many small products ---- */

#define GEMV_SMALL_MOST    64
#define GEMV_SMALL_FLOATS  (GEMV_SMALL_MOST * (2 * GEMV_SMALL_MOST + 4))
#define GEMV_LARGE_THREADS 128
#define GEMV_LARGE_ABOVE   32 /* rows, and columns, of an output */

/* ---- what a product with a column begins and ends with ---- */

/* If half is not 0 rows are in pairs: of head i, which has 2 half rows, j and j + half. */
struct gemv_end_args {
    const float *norm; /* weights of x, [k]; NULL takes x as it is */
    float eps;
    int32_t half;
    const float *residual;        /* for _add */
    float *y;                     /* the result; for _qkv the queries */
    const float *bias;            /* this and the rest are for _qkv; NULL adds none */
    const float *cosines, *sines; /* [max_len][half] */
    const int32_t *position;
    float *keys, *values;
    int32_t n_q_heads, n_kv_heads;
    int64_t position_stride, head_stride, max_len;
};

/* ---- numbers ---- */

/*
 * The kernels that a format may have, by columns, or columns of a tile; wide ones have 16-byte
 * accesses.
 */
enum gemv_path {
    GEMV_C1,
    GEMV_C1_WIDE,
    GEMV_C2_WIDE,
    GEMV_C8,
    GEMV_C8_WIDE,
    GEMV_MMA8,
    GEMV_MMA32,
    GEMV_MMA64,
    GEMV_WGMMA32,
    GEMV_WGMMA64,
    GEMV_WGMMA32_OF_TERMS,
    GEMV_WGMMA64_OF_TERMS,
    GEMV_DIRECT,
    GEMV_DIRECT2,
    GEMV_SLICES,
    GEMV_SLICES4,
    GEMV_ROW,
    GEMV_TILE,
    GEMV_N_PATHS
};

#define GEMV_OF(format, path) ((format)*GEMV_N_PATHS + (path))

enum gemv_kernel {
    GEMV_TERMS = GEMV_OF(QUANT_N_FORMATS, 0),
    GEMV_TERMS_OF_GROUPS,
    GEMV_Q4K_ADD,
    GEMV_Q4K_SWIGLU,
    GEMV_Q4K_QKV,
    GEMV_Q4K_ADD_EARLY,
    GEMV_Q4K_SWIGLU_EARLY,
    GEMV_Q4K_QKV_EARLY,
    GEMV_END_ADD,
    GEMV_END_SWIGLU,
    GEMV_END_QKV,
    GEMV_F32_R1,
    GEMV_F32_R1_WIDE,
    GEMV_F32_R4_WIDE,
    GEMV_F32_SPLIT_WIDE,
    GEMV_SMALL_F32,
    GEMV_LARGE_F32,
    GEMV_LARGE_F32_WIDE,
    GEMV_F16,
    GEMV_F16_WIDE
};

#endif
