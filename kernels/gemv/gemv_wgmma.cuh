/*
 * Quantised weights times many columns by warpgroups (sm_90a alone).
 *
 * The integers of a block of 32 are exact in binary16.  The values of 32 columns in a block share a
 * power of two that brings the largest to [2^14, 2^15), and become two binary16 terms, the lower
 * one scaled by 2^11 and met by integers times 2^-11: 22 bits of each value.  The products of a
 * block are added up by themselves, since the units cut where they add, and join the sums in float
 * after their scales.  A column whose 32 values are not finite, very large or very small, or more
 * than 2^26 below the largest of the 32 columns, has terms of 0 and takes plain fp32 products.
 *
 * One warpgroup copies weights and columns and makes the terms, a chunk ahead of two warpgroups
 * that multiply.  The blocks of a cluster share k, and add up their tiles at the end, in order.
 */
#ifndef CUSHIM_KERNELS_GEMV_WGMMA_CUH
#define CUSHIM_KERNELS_GEMV_WGMMA_CUH

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/wgmma.cuh"
#include "kernels/gemv/gemv_fragments.cuh"
#include "kernels/gemv/gemv_staged.cuh"

#ifdef CUSHIM_HAS_WGMMA

/* What a launch says: c[m][n] = w[m][k] * b[k][n]. */
struct WgmmaShape {
    int64_t m, k, n;
    bool is_wide;   /* every row of the weights starts at a multiple of 16 bytes */
    bool is_wide_b; /* every row of b */
    bool is_wide_c; /* every row of c at a multiple of 8 */
};

/* Two warpgroups have a tile of 256 x N_COLS, each half of its rows. */
template <class Format, int N_COLS> struct Wgmma {
    enum { ROWS = GEMV_WGMMA_ROWS, COLS = N_COLS, CHUNK = GEMV_WGMMA_CHUNK, M_TILES = ROWS / 128 };
    enum { THREADS = GEMV_WGMMA_THREADS, MAKERS = 128 };
    /* A unit is 32 columns of a block; a warp's next one is STEP blocks on. */
    enum { GROUPS = COLS / 32, STEP = 4 / GROUPS, UNITS = GROUPS * CHUNK };
    static_assert(CHUNK % STEP == 0, "the four warps have as many units of a chunk");

    enum { SCALES_APART = Format::SCALE_BYTES == 0 };
    enum { N_SCALES = (ROWS * CHUNK + MAKERS - 1) / MAKERS };

    enum { UNIT_BYTES = 32 * BLOCK_VALUES * 4, TILE_BYTES = COLS * 32 };
    enum { TERM_BYTES = CHUNK * 4 * TILE_BYTES };
    typedef StagedRows<Format, WgmmaShape, ROWS, CHUNK, MAKERS, false> Rows;
    enum { WEIGHT_BYTES = Rows::STAGE_BYTES };
    enum { SCALES_BYTES = SCALES_APART * ROWS * CHUNK * 2, FACTOR_BYTES = UNITS * 8 };
    enum { STAGE_BYTES = WEIGHT_BYTES + TERM_BYTES + FACTOR_BYTES + SCALES_BYTES };
    enum { SHARED_BYTES = 2 * STAGE_BYTES + 4 * 2 * UNIT_BYTES };
    static_assert(SHARED_BYTES == GEMV_WGMMA_BYTES(Format::BYTES, !SCALES_APART, COLS), "launch");
    static_assert(ROWS * COLS * 4 <= SHARED_BYTES, "the sums of a tile fit");

    const WgmmaShape &shape;
    Rows rows;
    const float *b;
    uint8_t *shared;
    int64_t col0;

    /* ---- a stage: terms, weights, factors, scales ---- */

    /* Of a block: tiles of its halves, each of high terms and of low ones. */
    MEMBER uint8_t *terms(int stage, int block) const {
        return shared + stage * TERM_BYTES + block * 4 * TILE_BYTES;
    }
    /* A warp's two units under way: [value][column]. */
    MEMBER float *raw(int warp, int slot) const {
        return reinterpret_cast<float *>(shared + 2 * (TERM_BYTES + WEIGHT_BYTES) +
                                         (warp * 2 + slot) * UNIT_BYTES);
    }
    /* Of a unit: what its terms are to be multiplied with, and a bit each column without terms. */
    MEMBER uint2 *factor(int stage, int block, int group) const {
        return reinterpret_cast<uint2 *>(shared + 2 * (TERM_BYTES + WEIGHT_BYTES) +
                                         8 * UNIT_BYTES) +
               stage * UNITS + block * GROUPS + group;
    }
    MEMBER uint16_t *scales(int stage) const { /* [row][block] */
        return reinterpret_cast<uint16_t *>(factor(2, 0, 0)) + stage * (SCALES_BYTES / 2);
    }

    /*
     * The meeting once a chunk: a stage is made, the other one was used.  The makers meet each of
     * the two warpgroups that multiply, which need not meet each other.
     */
    enum { GROUP = 128, N_GROUPS = (THREADS - MAKERS) / GROUP };
    MEMBER void meet_users() const {
#ifdef CUSHIM_EMULATED
        __syncthreads();
#else
#pragma unroll
        for (int group = 0; group < N_GROUPS; group++)
            meet_some<MAKERS + GROUP>(1 + group);
#endif
    }
    MEMBER void meet_makers() const {
#ifdef CUSHIM_EMULATED
        __syncthreads();
#else
        meet_some<MAKERS + GROUP>(1 + (threadIdx.x - MAKERS) / GROUP);
#endif
    }
    /* All that multiply, once they have used the last chunk; the emulator wants the makers, too. */
    MEMBER void meet_at_the_end() const {
#ifdef CUSHIM_EMULATED
        __syncthreads();
#else
        if (threadIdx.x >= MAKERS)
            meet_some<THREADS - MAKERS>(1 + N_GROUPS);
#endif
    }

    /* ---- what the first warpgroup does ---- */

    MEMBER void copy_scales(int stage, int64_t block0) const {
        const uint16_t *from = reinterpret_cast<const uint16_t *>(rows.w.scales) + block0;
        int n = rows.blocks_from(block0);
#pragma unroll
        for (int i = 0; i < SCALES_APART * N_SCALES; i++) {
            int at = i * MAKERS + threadIdx.x, block = at % CHUNK;
            if (at < ROWS * CHUNK && block < n)
                scales(stage)[at] = __ldg(from + rows.row_of(at / CHUNK) * rows.n_blocks + block);
        }
    }

    /* A warp's unit, a column a lane; columns beyond the last are 0. */
    MEMBER void copy_unit_of_columns(int64_t block, int slot) const {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int64_t col = col0 + warp % GROUPS * 32;
        if (block >= rows.n_blocks)
            return;
        if (shape.is_wide_b) {
            int64_t at = col + lane % 8 * 4;
            bool has = at < shape.n;
            const float *from = b + (block * BLOCK_VALUES + lane / 8) * shape.n + (has ? at : 0);
            float *to = raw(warp, slot) + lane * 4;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                copy_async_16(to + i * 128, from, has ? 16 : 0);
                from += 4 * shape.n;
            }
        } else {
            bool has = col + lane < shape.n;
            const float *from = b + block * BLOCK_VALUES * shape.n + (has ? col + lane : 0);
            float *to = raw(warp, slot) + lane;
#pragma unroll 4
            for (int i = 0; i < BLOCK_VALUES; i++) {
                if (has)
                    copy_async_4(to + i * 32, from);
                else
                    to[i * 32] = 0;
                from += shape.n;
            }
        }
    }

    /* Eight slots of a column, of high terms; those of low ones are a tile further. */
    MEMBER uint4 *octet_of(int stage, int block, int octet, int col) const {
        return reinterpret_cast<uint4 *>(terms(stage, block) + octet / 2 * 2 * TILE_BYTES +
                                         octet % 2 * (TILE_BYTES / 2) + col * 16);
    }

    /* Of the largest of a column; a scale times a power of two of these is a normal float. */
    enum { LEAST_EXPONENT = 127 - 70, MOST_EXPONENT = 127 + 90 };

    /*
     * A lane's column as terms, in the order of a product: slots 0 .. 7 of a half of the block are
     * its even values, slots 8 .. 15 the odd ones.
     */
    MEMBER void split_unit(int stage, int block, int slot) const {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int col = warp % GROUPS * 32 + lane;
        const float *from = raw(warp, slot) + lane;
        uint32_t most = 0, least = 0xFFFFFFFF; /* least: bits * 2 - 1, so that 0 is beyond all */
#pragma unroll
        for (int i = 0; i < BLOCK_VALUES; i++) {
            uint32_t bits = __float_as_uint(from[i * 32]);
            most = max(most, bits & 0x7FFFFFFF);
            least = min(least, bits * 2 - 1);
        }
        __syncwarp(); /* read the values again, there are no registers for them */
        int exponent = most >> 23;
        bool is_odd = most && (exponent < LEAST_EXPONENT || exponent > MOST_EXPONENT);
        int top = (int)__reduce_max_sync(0xFFFFFFFF, is_odd ? 0u : (unsigned)exponent);
        top = top ? top : 127;
        is_odd |= most && (int)((least + 1) >> 24) < top - 26;
        uint32_t odd = __ballot_sync(0xFFFFFFFF, is_odd);
        if (lane == 0)
            *factor(stage, block, warp % GROUPS) = make_uint2((uint32_t)(top - 14) << 23, odd);
        float scale = __uint_as_float((uint32_t)(127 + 141 - top) << 23), scale_low = scale * 2048;
#pragma unroll
        for (int octet = 0; octet < 4; octet++) {
            uint32_t high[4], low[4];
#pragma unroll
            for (int t = 0; t < 4; t++) {
                int at = octet / 2 * 16 + 4 * t + octet % 2;
                float x0 = from[at * 32], x1 = from[(at + 2) * 32];
                high[t] = f16x2_of_f32x2(x0 * scale, x1 * scale);
                float2 rest = f32x2_of_f16x2(high[t]);
                low[t] = f16x2_of_f32x2(fmaf(rest.x, -2048, x0 * scale_low),
                                        fmaf(rest.y, -2048, x1 * scale_low));
            }
            uint4 *to = octet_of(stage, block, octet, col);
            to[0] = make_uint4(high[0], high[1], high[2], high[3]);
            to[TILE_BYTES / 16] = make_uint4(low[0], low[1], low[2], low[3]);
        }
        if (!is_odd)
            return;
        for (int octet = 0; octet < 4; octet++) {
            uint4 *to = octet_of(stage, block, octet, col);
            to[0] = to[TILE_BYTES / 16] = make_uint4(0, 0, 0, 0);
        }
    }

    MEMBER void make(int64_t first, int64_t end) const {
        int64_t block = first * CHUNK + threadIdx.x / 32 / GROUPS, end_block = end * CHUNK;
        int slot = 0;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (block + i * STEP < end_block)
                copy_unit_of_columns(block + i * STEP, i);
            commit_copies();
        }
        for (int64_t chunk = first; chunk < end; chunk++) {
            int stage = (int)((chunk - first) % 2);
            rows.copy(stage, chunk * CHUNK);
            commit_copies();
            copy_scales(stage, chunk * CHUNK);
#pragma unroll
            for (int i = 0; i < CHUNK / STEP; i++) {
                if (i < 2)
                    wait_copies<2>(); /* all but the unit after this one, and the weights */
                else
                    wait_copies<1>();
                __syncwarp();
                if (block < rows.n_blocks)
                    split_unit(stage, (int)(block - chunk * CHUNK), slot);
                __syncwarp();
                if (block + 2 * STEP < end_block)
                    copy_unit_of_columns(block + 2 * STEP, slot);
                commit_copies();
                block += STEP;
                slot ^= 1;
            }
            wait_copies<1>(); /* the weights */
            fence_tiles();
            meet_users();
        }
    }

    /* ---- what the others do ---- */

    MEMBER float scale_in(int stage, int skew, int row, int block) const {
        return Staged<Format>::scale(rows.row_in(stage, skew, row, block),
                                     scales(stage) + row * CHUNK + block);
    }

    /* The first of 16 rows that a warp has of a tile. */
    MEMBER static int first_row(int tile) {
        int warp = threadIdx.x / 32 - MAKERS / 32;
        return (warp / 4 * M_TILES + tile) * 64 + warp % 4 * 16;
    }

    MEMBER void multiply_tile_of(float (&sums)[COLS / 2], int tile, int stage, int skew,
                                 int block) const {
        int lane = threadIdx.x % 32, row = first_row(tile) + lane / 4;
        uint32_t a[2][4], a_low[2][4];
#pragma unroll
        for (int below = 0; below < 2; below++) {
            Fragment part = Staged<Format>::fragment(
                rows.row_in(stage, skew, row + 8 * below, block), lane % 4);
            a[0][below] = part.of[0][0];
            a[0][below + 2] = part.of[0][1];
            a[1][below] = part.of[1][0];
            a[1][below + 2] = part.of[1][1];
        }
        const uint16_t to_low = 0x1000; /* 2^-11 */
#pragma unroll
        for (int i = 0; i < 8; i++)
            a_low[i / 4][i % 4] = fma_f16x2(a[i / 4][i % 4], to_low, 0);
        const uint8_t *of_block = terms(stage, block);
        float part[COLS / 2];
        begin_products();
        multiply_tile<false>(part, a_low[0], tile_descriptor<COLS>(of_block + TILE_BYTES));
        multiply_tile<true>(part, a_low[1], tile_descriptor<COLS>(of_block + 3 * TILE_BYTES));
        multiply_tile<true>(part, a[0], tile_descriptor<COLS>(of_block));
        multiply_tile<true>(part, a[1], tile_descriptor<COLS>(of_block + 2 * TILE_BYTES));
        end_products();
        float upper = scale_in(stage, skew, row, block),
              lower = scale_in(stage, skew, row + 8, block);
        wait_products(part);
        bool is_far = Format::SCALE_BYTES == 4 &&
                      __any_sync(0xFFFFFFFF, is_far_scale(upper) || is_far_scale(lower));
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            float by = __uint_as_float(factor(stage, block, group)->x);
            if (is_far) {
#pragma unroll
                for (int i = 16 * group; i < 16 * group + 16; i++)
                    sums[i] = fmaf(i / 2 % 2 ? lower : upper, part[i] * by, sums[i]);
                continue;
            }
            float both[2] = {upper * by, lower * by};
#pragma unroll
            for (int i = 16 * group; i < 16 * group + 16; i++)
                sums[i] = fmaf(both[i / 2 % 2], part[i], sums[i]);
        }
    }

    /* Whether a product with a factor may be no normal float. */
    MEMBER static bool is_far_scale(float scale) {
        int exponent = __float_as_uint(scale) >> 23 & 255;
        return scale != 0 && (exponent < 127 - 40 || exponent > 127 + 40);
    }

    /* Plain products of one column with the warp's rows, a lane a row. */
    MEMBER void add_plain(float (&sums)[M_TILES][COLS / 2], int col, int stage, int skew, int block,
                          int64_t at) const {
        int lane = threadIdx.x % 32, row = first_row(lane / 16 % M_TILES) + lane % 16;
        const float *x = b + at * shape.n + (col0 + col < shape.n ? col0 + col : shape.n - 1);
        float scale = scale_in(stage, skew, row, block), part = 0;
#pragma unroll 4
        for (int i = 0; i < BLOCK_VALUES; i++)
            part =
                fmaf(scale * (float)Staged<Format>::value(rows.row_in(stage, skew, row, block), i),
                     __ldg(x + i * shape.n), part);
#pragma unroll
        for (int tile = 0; tile < M_TILES; tile++) {
#pragma unroll
            for (int below = 0; below < 2; below++) {
                float value = __shfl_sync(0xFFFFFFFF, part, tile * 16 + below * 8 + lane / 4);
#pragma unroll
                for (int i = 0; i < COLS / 4; i++) {
                    if (8 * (i / 2) + lane % 4 * 2 + i % 2 == col)
                        sums[tile][i / 2 * 4 + below * 2 + i % 2] += value;
                }
            }
        }
    }

    MEMBER void multiply(float (&sums)[M_TILES][COLS / 2], int64_t first, int64_t end) const {
        for (int64_t chunk = first; chunk < end; chunk++) {
            int stage = (int)((chunk - first) % 2);
            int64_t block0 = chunk * CHUNK;
            int skew = rows.skew_of(block0), n = rows.blocks_from(block0);
            meet_makers();
#pragma unroll 1
            for (int block = 0; block < n; block++) {
#pragma unroll
                for (int tile = 0; tile < M_TILES; tile++)
                    multiply_tile_of(sums[tile], tile, stage, skew, block);
                uint32_t any = 0;
#pragma unroll
                for (int group = 0; group < GROUPS; group++)
                    any |= factor(stage, block, group)->y;
                if (any == 0)
                    continue;
#pragma unroll 1
                for (int col = 0; col < COLS; col++)
                    if (factor(stage, block, col / 32)->y >> col % 32 & 1)
                        add_plain(sums, col, stage, skew, block, (block0 + block) * BLOCK_VALUES);
            }
        }
    }

    /* ---- results ---- */

    MEMBER void store_pair(float *c, int64_t row, int64_t col, float left, float right) const {
        float *to = c + row * shape.n + col;
        if (shape.is_wide_c && col < shape.n) {
            *reinterpret_cast<float2 *>(to) = make_float2(left, right);
        } else {
            if (col < shape.n)
                to[0] = left;
            if (col + 1 < shape.n)
                to[1] = right;
        }
    }

    MEMBER void store(const float (&sums)[M_TILES][COLS / 2], float *c) const {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int tile = 0; tile < M_TILES; tile++) {
#pragma unroll
            for (int below = 0; below < 2; below++) {
                int64_t row = rows.row0 + first_row(tile) + 8 * below + lane / 4;
                if (row >= shape.m)
                    continue;
#pragma unroll
                for (int j = 0; j < COLS / 8; j++) {
                    const float *pair = sums[tile] + 4 * j + 2 * below;
                    store_pair(c, row, col0 + 8 * j + lane % 4 * 2, pair[0], pair[1]);
                }
            }
        }
    }

    MEMBER void stage_sums(const float (&sums)[M_TILES][COLS / 2]) const {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int tile = 0; tile < M_TILES; tile++) {
            float *to = reinterpret_cast<float *>(shared) + (first_row(tile) + lane / 4) * COLS +
                        lane % 4 * 2;
#pragma unroll
            for (int i = 0; i < COLS / 2; i++)
                to[i / 2 % 2 * 8 * COLS + i / 4 * 8 + i % 2] = sums[tile][i];
        }
    }

    /* Each block of the cluster adds up some rows of the tile. */
    MEMBER void add_staged(float *c, unsigned rank, unsigned n_ranks) const {
        float *tile = reinterpret_cast<float *>(shared);
        int n = ROWS * COLS / (int)n_ranks, first = (int)rank * n;
#pragma unroll 2
        for (int i = first + threadIdx.x; i < first + n; i += THREADS) {
            float total = *cluster_shared(tile + i, 0);
            for (unsigned other = 1; other < n_ranks; other++)
                total += *cluster_shared(tile + i, other);
            int64_t row = rows.row0 + i / COLS, col = col0 + i % COLS;
            if (row < shape.m && col < shape.n)
                c[row * shape.n + col] = total;
        }
    }
};

/* A cluster a tile; tiles side by side first, so that their weights are read from memory once. */
template <class Work>
DEVICE void run_wgmma(const WgmmaShape &shape, const Weights &w, const float *b, float *c,
                      uint8_t *shared) {
    unsigned n_ranks = cluster_size(), rank = cluster_rank();
    int64_t tile = blockIdx.x / n_ranks, tiles_n = (shape.n - 1) / Work::COLS + 1;
    int64_t n_blocks = shape.k / BLOCK_VALUES;
    int64_t n_chunks = (n_blocks + Work::CHUNK - 1) / Work::CHUNK;
    int64_t first = n_chunks * rank / n_ranks, end = n_chunks * (rank + 1) / n_ranks;
    int64_t row0 = tile / tiles_n * Work::ROWS, col0 = tile % tiles_n * Work::COLS;
    typename Work::Rows rows = {shape, w, shared + 2 * Work::TERM_BYTES, row0, n_blocks};
    Work work = {shape, rows, b, shared, col0};
    if (threadIdx.x < Work::MAKERS) {
        work.make(first, end);
        if (n_ranks > 1)
            work.meet_at_the_end();
    } else {
        float sums[Work::M_TILES][Work::COLS / 2] = {};
        work.multiply(sums, first, end);
        if (n_ranks == 1) {
            work.store(sums, c);
        } else {
            work.meet_at_the_end();
            work.stage_sums(sums);
        }
    }
    if (n_ranks == 1)
        return;
    cluster_sync();
    work.add_staged(c, rank, n_ranks);
    cluster_sync(); /* nobody ends before it was read */
}

#endif
#endif
