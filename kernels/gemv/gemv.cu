/* Products of matrices with one or a few columns, and of quantised ones with any number. */
#include "kernels/device/product_tile.cuh"
#include "kernels/gemv/gemv_blocks.cuh"
#include "kernels/gemv/gemv_direct.cuh"
#include "kernels/gemv/gemv_f32.cuh"
#include "kernels/gemv/gemv_mma.cuh"
#include "kernels/gemv/gemv_parts.cuh"
#include "kernels/gemv/gemv_q4k.cuh"
#include "kernels/gemv/gemv_slices.cuh"
#include "kernels/gemv/gemv_small.cuh"
#include "kernels/gemv/wgmma/gemv_terms.cuh"
#include "kernels/gemv/wgmma/gemv_wgmma.cuh"

/* Blocks have 256 threads; one or two of them on a multiprocessor leave 255 or 128 registers. */

/* ---- quantised rows times one to eight columns ---- */

#define ROWS_OF_BLOCKS(name, BLOCKS, Format, ROWS, COLS, IS_WIDE)                                  \
    KERNEL_OF(256, BLOCKS, gemv_##name)                                                            \
    (const uint8_t *scales, const uint8_t *values, const float *b, float *c, int64_t m, int64_t k, \
     int64_t n, int warps_per_row) {                                                               \
        DYNAMIC_SHARED(float, shared);                                                             \
        RowsShape shape = {m, k, n, warps_per_row};                                                \
        Blocks<Format, ROWS, COLS, IS_WIDE> work(shape, {scales, values}, b, shared);              \
        run_rows(work, c, shape);                                                                  \
    }

#define ROWS_OF_FORMAT(name, Format, MOST_ROWS)                                                    \
    ROWS_OF_BLOCKS(name##_c1_wide, 2, Format, MOST_ROWS, 1, true)                                  \
    ROWS_OF_BLOCKS(name##_c2_wide, 2, Format, 2, 2, true)                                          \
    ROWS_OF_BLOCKS(name##_c8, 1, Format, 2, 8, false)                                              \
    ROWS_OF_BLOCKS(name##_c8_wide, 1, Format, 2, 8, true)

ROWS_OF_FORMAT(q4_0, Q4_0, 4)
ROWS_OF_FORMAT(q8_0, Q8_0, 2)
ROWS_OF_FORMAT(q8f, Q8f, 2)

#define ROWS_OF_Q4K(name, IS_WIDE)                                                                 \
    KERNEL_OF(256, 2, gemv_##name)                                                                 \
    (const uint8_t *, const uint8_t *values, const float *b, float *c, int64_t m, int64_t k,       \
     int64_t n, int warps_per_row) {                                                               \
        DYNAMIC_SHARED(float, shared);                                                             \
        RowsShape shape = {m, k, n, warps_per_row};                                                \
        Q4kRows<IS_WIDE> work(shape, values, b, shared);                                           \
        run_rows(work, c, shape);                                                                  \
    }

ROWS_OF_Q4K(q4k_c1, false)
ROWS_OF_Q4K(q4k_c1_wide, true)

/* ---- quantised matrices times any number of columns ---- */

#define MMA(name, BLOCKS, Format, M_TILES, N_TILES, WARPS_N, CHUNK)                                \
    KERNEL_OF(256, BLOCKS, gemv_##name)                                                            \
    (const uint8_t *scales, const uint8_t *values, const float *b, float *c, int64_t m, int64_t k, \
     int64_t n, int is_wide) {                                                                     \
        FROM_80(DYNAMIC_SHARED(uint8_t, shared); MmaShape shape = {m, k, n, is_wide != 0};         \
                run_mma<Mma<Format, M_TILES, N_TILES, WARPS_N, CHUNK>>(shape, {scales, values}, b, \
                                                                       c, shared, CHUNK));         \
    }

#define MMA_OF_FORMAT(name, Format, M_TILES_OF_8)                                                  \
    MMA(name##_mma8, 2, Format, M_TILES_OF_8, 1, 1, 8)                                             \
    MMA(name##_mma32, 2, Format, 1, 4, 1, 4)                                                       \
    MMA(name##_mma64, 1, Format, 2, 4, 2, 4)

MMA_OF_FORMAT(q4_0, Q4_0, 2)
MMA_OF_FORMAT(q8_0, Q8_0, 1)
MMA_OF_FORMAT(q8f, Q8f, 1)
MMA_OF_FORMAT(q4k, Q4kHalf, 1)
MMA_OF_FORMAT(q5_0, Q5_0Block, 1)
MMA_OF_FORMAT(q5k, Q5kHalf, 1)
MMA_OF_FORMAT(q6k, Q6kHalf, 1)

#ifdef CUSHIM_HAS_WGMMA
#define RUN_WGMMA(Format, COLS, HAS_TERMS)                                                         \
    DYNAMIC_SHARED(uint8_t, shared);                                                               \
    WgmmaShape shape = {m, k, n, (wide & 1) != 0, (wide & 2) != 0, (wide & 4) != 0};               \
    run_wgmma<Wgmma<Format, COLS, HAS_TERMS>>(shape, {scales, values}, b, c, scratch, shared)
#else
#define RUN_WGMMA(Format, COLS, HAS_TERMS) /* never launched */
#endif

#define WGMMA(name, Format, COLS, HAS_TERMS)                                                       \
    KERNEL_OF(GEMV_WGMMA_THREADS(HAS_TERMS), 1, gemv_##name)                                       \
    (const uint8_t *scales, const uint8_t *values, const float *b, float *c, int64_t m, int64_t k, \
     int64_t n, int wide, uint8_t *scratch) {                                                      \
        RUN_WGMMA(Format, COLS, HAS_TERMS);                                                        \
    }

#define WGMMA_OF_FORMAT(name, Format)                                                              \
    WGMMA(name##_wgmma32, Format, 32, false)                                                       \
    WGMMA(name##_wgmma64, Format, 64, false)                                                       \
    WGMMA(name##_wgmma32_of_terms, Format, 32, true)                                               \
    WGMMA(name##_wgmma64_of_terms, Format, 64, true)

WGMMA_OF_FORMAT(q4_0, Q4_0)
WGMMA_OF_FORMAT(q8_0, Q8_0)
WGMMA_OF_FORMAT(q8f, Q8f)
WGMMA_OF_FORMAT(q4k, Q4kHalf)
WGMMA_OF_FORMAT(q5_0, Q5_0Block)
WGMMA_OF_FORMAT(q5k, Q5kHalf)
WGMMA_OF_FORMAT(q6k, Q6kHalf)

#define TERMS(name, GROUP)                                                                         \
    KERNEL_OF(GEMV_TERMS_THREADS, 4, gemv_##name)                                                  \
    (const float *b, int64_t k, int64_t n, int cols, int is_wide, uint8_t *scratch) {              \
        run_terms<GROUP>(b, k, n, cols, is_wide != 0, scratch);                                    \
    }

TERMS(terms, 1)
TERMS(terms_of_groups, GROUP_BLOCKS)

/* ---- plain products; a format by blocks has whole ones, or nibbles, in parts.low ---- */

#define TILED(name, Format, place)                                                                 \
    KERNEL_OF(256, 2, gemv_##name##_tile)                                                          \
    (const struct quant_parts parts, const float *b, float *c, int64_t m, int64_t k, int64_t n) {  \
        run_tile<Format>(place, b, c, m, k, n);                                                    \
    }
#define TILED_BLOCKS(name, Format) TILED(name, Format, (Weights{parts.head, parts.low}))
#define TILED_PARTS(name, Format)  TILED(name, Dequantised<Format>, parts)

TILED_BLOCKS(q4_0, Q4_0)
TILED_BLOCKS(q8_0, Q8_0)
TILED_BLOCKS(q8f, Q8f)
TILED_PARTS(q4k, Q4K)
TILED_PARTS(q5_0, Q5_0)
TILED_PARTS(q5k, Q5K)
TILED_PARTS(q6k, Q6K)

#define ROW(name, Format)                                                                          \
    KERNEL(gemv_##name##_row)                                                                      \
    (const struct quant_parts parts, const float *x, float *y, int64_t m, int64_t k) {             \
        run_row<Format>(parts, x, y, m, k);                                                        \
    }

ROW(q5_0, Q5_0)
ROW(q5k, Q5K)
ROW(q6k, Q6K)

/* ---- a few columns by slices of k ---- */

#define SLICES_OF(name, Format, IS_PACKED)                                                         \
    KERNEL_OF(512, 1, gemv_##name)                                                                 \
    (const uint8_t *scales, const uint8_t *values, const float *b, float *c,                       \
     struct gemv_slices shape) {                                                                   \
        FROM_90(DYNAMIC_SHARED(uint8_t, shared);                                                   \
                run_slices<Format, IS_PACKED>(shape, {scales, values}, b, c, shared));             \
    }
#define SLICES(format, Format)                                                                     \
    SLICES_OF(format##_slices, Format, false)                                                      \
    SLICES_OF(format##_slices4, Format, true)

SLICES(q4_0, Q4_0)
SLICES(q8_0, Q8_0)
SLICES(q8f, Q8f)
SLICES(q4k, Q4kHalf)
SLICES(q5_0, Q5_0Block)
SLICES(q5k, Q5kHalf)
SLICES_OF(q6k_slices, Q6kHalf, false)

/* ---- one or two columns on the matrix units; two steps are in flight ---- */

/* Two blocks of half as many warps have registers too. */

#define DIRECT(name, Format, COLS)                                                                 \
    KERNEL_OF(512, 1, gemv_##name)                                                                 \
    (const uint8_t *scales, const uint8_t *values, const float *x, float *y, int64_t m, int64_t k, \
     int most_tiles, int early_bytes) {                                                            \
        FROM_90(DYNAMIC_SHARED(uint8_t, shared);                                                   \
                run_direct<Format, COLS, GEMV_DIRECT_STAGES, false>(                               \
                    {m, k, (int)(k / BLOCK_VALUES), most_tiles, early_bytes}, {scales, values}, x, \
                    PlainEnd{y}, shared));                                                         \
    }

DIRECT(q4_0_direct, Q4_0, 1)
DIRECT(q8_0_direct, Q8_0, 1)
DIRECT(q8f_direct, Q8f, 1)
DIRECT(q4k_direct, Q4kHalf, 1)
DIRECT(q5_0_direct, Q5_0Block, 1)
DIRECT(q5k_direct, Q5kHalf, 1)
DIRECT(q6k_direct, Q6kHalf, 1)

DIRECT(q8_0_direct2, BlockByBlock<Q8_0>, 2)
DIRECT(q4k_direct2, InStages<Q4kHalf>, 2)
DIRECT(q5_0_direct2, BlockByBlock<Q5_0Block>, 2)
DIRECT(q5k_direct2, InStages<Q5kHalf>, 2)
DIRECT(q6k_direct2, Q6kHalf, 2)

/* The same with more before and behind it, in one kernel and behind existing products. */

#define IN_ONE(name, End, IS_EARLY)                                                                \
    KERNEL_OF(512, 1, gemv_q4k_##name)                                                             \
    (const uint8_t *w, const float *x, int64_t m, int64_t k, int most_tiles, int early_bytes,      \
     const __grid_constant__ struct gemv_end_args args) {                                          \
        FROM_90(DYNAMIC_SHARED(uint8_t, shared);                                                   \
                run_direct<InStages<Q4kHalf, End::KEEPS_LINES>, 1, GEMV_DIRECT_STAGES, IS_EARLY>(  \
                    {m, k, (int)(k / BLOCK_VALUES), most_tiles, early_bytes}, {nullptr, w}, x,     \
                    End{args}, shared));                                                           \
    }

#define WITH_END(name, End)                                                                        \
    IN_ONE(name, End, false)                                                                       \
    IN_ONE(name##_early, End, true)                                                                \
    KERNEL_OF(256, 4, gemv_end_##name)                                                             \
    (const float *products, int64_t m, const __grid_constant__ struct gemv_end_args args) {        \
        wait_for_earlier();                                                                        \
        let_next_start();                                                                          \
        end_products(products, m, End{args});                                                      \
    }

WITH_END(add, AddEnd)
WITH_END(swiglu, SwiGluEnd)
WITH_END(qkv, QkvEnd)

/* ---- floats ---- */

#define ROWS_OF_F32(name, Access, ROWS, UNROLL)                                                    \
    KERNEL_OF(256, 2, gemv_##name)                                                                 \
    (const float *a, const float *x, float *y, int64_t m, int64_t n, int warps_per_row) {          \
        gemv_f32<Access, ROWS, UNROLL>(a, x, y, {m, n, 1, warps_per_row});                         \
    }

ROWS_OF_F32(f32_r1, OneFloat, 1, 8)
ROWS_OF_F32(f32_r1_wide, FourFloats, 1, 8)
ROWS_OF_F32(f32_r4_wide, FourFloats, 4, 2)

#define ROWS_OF_F16(name, N)                                                                       \
    KERNEL_OF(256, 4, gemv_##name)                                                                 \
    (const uint16_t *a, const uint16_t *x, uint16_t *y, int64_t m, int64_t n) {                    \
        gemv_f16<N>(a, x, y, m, n);                                                                \
    }

ROWS_OF_F16(f16, 1)
ROWS_OF_F16(f16_wide, 8)

#define SPLIT_F32(name, Access)                                                                    \
    KERNEL_OF(256, 1, gemv_##name)(const float *a, const float *x, float *y, int64_t n) {          \
        FROM_90(DYNAMIC_SHARED(float, shared); gemv_f32_split<Access, 8>(a, x, y, n, shared));     \
    }

SPLIT_F32(f32_split_wide, FourFloats)

KERNEL_OF(256, 4, gemv_small_f32)
(const float *a, const float *b, float *c, int m, int n, int k, int64_t stride_a, int64_t stride_b,
 int64_t stride_c, int64_t batch, int threads, int matrices_per_block, int wide) {
    SmallShape shape = {
        m, n, k, threads, matrices_per_block, (wide & 1) != 0, (wide & 2) != 0, (wide & 4) != 0};
    gemm_batched_small(a, b, c, shape, stride_a, stride_b, stride_c, batch);
}

KERNEL_OF(GEMV_LARGE_THREADS, 6, gemv_large_f32)
(const float *a, const float *b, float *c, int m, int n, int k, int64_t stride_a, int64_t stride_b,
 int64_t stride_c, int64_t batch, int wide) {
    SmallShape shape = {m, n, k, 0, 1, (wide & 1) != 0, (wide & 2) != 0, (wide & 4) != 0};
    gemm_batched_large<false>(a, b, c, shape, stride_a, stride_b, stride_c, batch);
}

KERNEL_OF(GEMV_LARGE_THREADS, 6, gemv_large_f32_wide)
(const float *a, const float *b, float *c, int m, int n, int k, int64_t stride_a, int64_t stride_b,
 int64_t stride_c, int64_t batch) {
    SmallShape shape = {m, n, k, 0, 1, true, true, true};
    gemm_batched_large<true>(a, b, c, shape, stride_a, stride_b, stride_c, batch);
}
