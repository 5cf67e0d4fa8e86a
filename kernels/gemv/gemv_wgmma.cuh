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
 * Two warpgroups copy weights, read columns and make the terms, a chunk ahead of two warpgroups
 * that multiply, each with two tiles: the products of one are under way while those of the other
 * join the sums, and the next weights become integers.  The blocks of a cluster share k, and add up
 * their tiles at the end, in order.
 */
#ifndef CUSHIM_KERNELS_GEMV_WGMMA_CUH
#define CUSHIM_KERNELS_GEMV_WGMMA_CUH

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/wgmma.cuh"
#include "kernels/gemv/gemv_staged.cuh"

#ifdef CUSHIM_HAS_WGMMA

/* What a launch says: c[m][n] = w[m][k] * b[k][n]. */
struct WgmmaShape {
    int64_t m, k, n;
    bool is_wide;   /* every row of the weights starts at a multiple of 16 bytes */
    bool is_wide_b; /* every row of b */
    bool is_wide_c; /* every row of c */
};

/* All products under way but the newest groups of them are over, so that d may be read. */
template <int NEWEST, int N> DEVICE void wait_products_before(float (&d)[N]) {
    (void)d;
    CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
#pragma unroll
    for (int i = 0; i < N; i++)
        CUSHIM_WGMMA_ASM("" : "+f"(d[i])::"memory");
}

/* The larger one of a magnitude and that of a value, or NaN. */
DEVICE float max_magnitude(float most, float value) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(value)));
    return most;
#else
    return fabsf(value) <= most ? most : fabsf(value);
#endif
}

/* Two warpgroups have a tile of 256 x N_COLS, each half of its rows. */
template <class Format, int N_COLS> struct Wgmma {
    enum { ROWS = GEMV_WGMMA_ROWS, COLS = N_COLS, CHUNK = GEMV_WGMMA_CHUNK, M_TILES = ROWS / 128 };
    enum { THREADS = GEMV_WGMMA_THREADS, MAKERS = 256 };
    static_assert(M_TILES == 2, "one of two tiles is under way while the other is used");
    /* A unit is 32 columns of a block. */
    enum { GROUPS = COLS / 32, UNITS = GROUPS * CHUNK };
    static_assert(UNITS <= MAKERS / 32, "a warp has one of a chunk, or none");

    /* Of 65536, which all are launched with alike; the tiles of products fill those that multiply.
     */
    enum { REGISTERS_OF_MAKERS = 72, REGISTERS = 184 };

    enum { SCALES_APART = Format::SCALE_BYTES == 0 };

    enum { TILE_BYTES = COLS * 32, TERM_BYTES = CHUNK * 4 * TILE_BYTES };
    typedef StagedRows<Format, WgmmaShape, ROWS, CHUNK, MAKERS, true> Rows;
    enum { WEIGHT_BYTES = Rows::STAGE_BYTES };
    enum { SCALES_BYTES = SCALES_APART * ROWS * CHUNK * 2, FACTOR_BYTES = UNITS * 8 };
    enum { STAGE_BYTES = WEIGHT_BYTES + TERM_BYTES + FACTOR_BYTES + SCALES_BYTES };
    enum { SHARED_BYTES = 2 * STAGE_BYTES };
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
    /* Of a unit: what its terms are to be multiplied with, and a bit each column without terms. */
    MEMBER uint2 *factor(int stage, int block, int group) const {
        return reinterpret_cast<uint2 *>(shared + 2 * (TERM_BYTES + WEIGHT_BYTES)) + stage * UNITS +
               block * GROUPS + group;
    }
    MEMBER uint16_t *scales(int stage) const { /* [row][block] */
        return reinterpret_cast<uint16_t *>(factor(2, 0, 0)) + stage * (SCALES_BYTES / 2);
    }

    /* Of each 32 columns of a tile, place 8 i + j has column 4 j + i: a lane of those that make has
     * four neighbours, and one of those that multiply eight. */
    MEMBER static int column_at(int place) {
        return place / 32 * 32 + place % 8 * 4 + place / 8 % 4;
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

    /* ---- what the makers do ---- */

    /* Of each row N pieces of 16 bytes, from the first one on. */
    template <int N> MEMBER void copy_pieces(int stage, int64_t block0, int first) const {
        enum { ROWS_AT_ONCE = MAKERS / N };
        int skew = rows.skew_of(block0), n_bytes = rows.blocks_from(block0) * Format::BYTES;
        int row = threadIdx.x / N, byte = (first + threadIdx.x % N) * 16;
        uint8_t *to = rows.stage_at(stage) + row * Rows::PITCH + byte;
        if (byte < skew + n_bytes)
            copy_rows<ROWS_AT_ONCE>(row, rows.n_blocks * Format::BYTES,
                                    rows.w.values + block0 * Format::BYTES - skew + byte,
                                    [&](int i, const uint8_t *from) {
                                        copy_async_16(to + i * ROWS_AT_ONCE * Rows::PITCH, from);
                                    });
    }

    template <bool IS_WIDE> MEMBER void copy_weights(int stage, int64_t block0) const {
        enum { PIECES = Rows::PIECES, MOST = PIECES < 8 ? 4 : 8 }; /* 4 or 9 */
        static_assert(PIECES - MOST <= 1, "one more");
        if constexpr (IS_WIDE) {
            copy_pieces<MOST>(stage, block0, 0);
            if constexpr (PIECES > MOST)
                copy_pieces<1>(stage, block0, MOST);
        } else {
            rows.copy(stage, block0);
        }
    }

    /* work(i, its address) for a thread's rows, of which `row` is the first; `from` is row 0. */
    template <int ROWS_AT_ONCE, class Work>
    MEMBER void copy_rows(int row, int64_t row_bytes, const uint8_t *from, Work work) const {
        from += rows.row_of(row) * row_bytes;
        int n_more = rows.last_row() - row;
        int64_t step = ROWS_AT_ONCE * row_bytes;
#pragma unroll
        for (int i = 0; i < ROWS / ROWS_AT_ONCE; i++) {
            work(i, from);
            if ((i + 1) * ROWS_AT_ONCE <= n_more)
                from += step;
        }
    }

    MEMBER void copy_scales(int stage, int64_t block0) const {
        const uint8_t *from = reinterpret_cast<const uint8_t *>(
            reinterpret_cast<const uint16_t *>(rows.w.scales) + block0);
        int64_t row_bytes = 2 * rows.n_blocks;
        int n = rows.blocks_from(block0);
        if (rows.n_blocks % 2 == 0 && reinterpret_cast<uintptr_t>(from) % 4 == 0) {
            enum { PAIRS = CHUNK / 2, ROWS_AT_ONCE = MAKERS / PAIRS };
            int block = threadIdx.x % PAIRS * 2, row = threadIdx.x / PAIRS;
            uint16_t *to = scales(stage) + row * CHUNK + block;
            if (block < n)
                copy_rows<ROWS_AT_ONCE>(row, row_bytes, from + 2 * block,
                                        [&](int i, const uint8_t *pair) {
                                            copy_async_4(to + i * ROWS_AT_ONCE * CHUNK, pair);
                                        });
        } else {
            int block = threadIdx.x % CHUNK;
#pragma unroll 1
            for (int row = threadIdx.x / CHUNK; row < ROWS; row += MAKERS / CHUNK)
                if (block < n)
                    scales(stage)[row * CHUNK + block] = __ldg(reinterpret_cast<const uint16_t *>(
                        from + rows.row_of(row) * row_bytes + 2 * block));
        }
    }

    /*
     * Of a unit a lane's values: of four columns those of an octet, which are eight slots of a
     * product.  Octets 0 and 1 are the even values of the first half of the block and the odd ones,
     * 2 and 3 those of the second.
     */
    struct Unit {
        float of[8][4];
    };

    /* Columns beyond the last are 0. */
    template <bool IS_WIDE> MEMBER void fetch(Unit &unit, int64_t block) const {
        int lane = threadIdx.x % 32, octet = lane / 8;
        int64_t col = col0 + threadIdx.x / 32 % GROUPS * 32 + lane % 8 * 4;
        int n = (int)(shape.n - col < 4 ? shape.n - col : 4);
        if (block >= rows.n_blocks)
            return;
        const float *from =
            b + (block * BLOCK_VALUES + octet / 2 * 16 + octet % 2) * shape.n + (n > 0 ? col : 0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 four = {};
            if (IS_WIDE) {
                if (n > 0)
                    four = __ldg(reinterpret_cast<const float4 *>(from));
            } else {
                four.x = n > 0 ? __ldg(from) : 0;
                four.y = n > 1 ? __ldg(from + 1) : 0;
                four.z = n > 2 ? __ldg(from + 2) : 0;
                four.w = n > 3 ? __ldg(from + 3) : 0;
            }
            unit.of[i][0] = four.x;
            unit.of[i][1] = four.y;
            unit.of[i][2] = four.z;
            unit.of[i][3] = four.w;
            from += 2 * shape.n;
        }
    }

    /* Of the largest of a column; a scale times a power of two of these is a normal float. */
    enum { LEAST_EXPONENT = 127 - 70, MOST_EXPONENT = 127 + 90, APART = 26 };

    /* Columns that are to have no terms become 0: a bit each, and the exponent of the others. */
    MEMBER uint32_t take_odd(Unit &unit, int &top) const {
        uint32_t most[4] = {}, least[4], odd = 0;
        bool is_odd[4];
        unsigned of_others = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            least[j] = 0xFFFFFFFF; /* of bits - 1, so that 0 is beyond all */
#pragma unroll
            for (int i = 0; i < 8; i++) {
                uint32_t bits = __float_as_uint(unit.of[i][j]) & 0x7FFFFFFF;
                most[j] = max(most[j], bits);
                least[j] = min(least[j], bits - 1);
            }
#pragma unroll
            for (int flips = 8; flips < 32; flips *= 2) { /* the column's octets */
                most[j] = max(most[j], __shfl_xor_sync(0xFFFFFFFF, most[j], flips));
                least[j] = min(least[j], __shfl_xor_sync(0xFFFFFFFF, least[j], flips));
            }
            unsigned exponent = most[j] >> 23;
            is_odd[j] = most[j] && (exponent < LEAST_EXPONENT || exponent > MOST_EXPONENT);
            of_others = max(of_others, is_odd[j] ? 0u : exponent);
        }
        top = (int)__reduce_max_sync(0xFFFFFFFF, of_others);
        top = top ? top : 127;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            is_odd[j] |= most[j] && (int)((least[j] + 1) >> 23) < top - APART;
            odd |= (__ballot_sync(0xFFFFFFFF, is_odd[j]) & 0xFF) << 8 * j;
#pragma unroll
            for (int i = 0; i < 8; i++)
                unit.of[i][j] = is_odd[j] ? 0 : unit.of[i][j];
        }
        return odd;
    }

    /* A unit as terms. */
    MEMBER void split(int stage, int block, Unit &unit) const {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, octet = lane / 8;
        float largest[4] = {};
        uint32_t of_least[4]; /* bits * 2 - 1, so that 0 is beyond all */
#pragma unroll
        for (int j = 0; j < 4; j++) {
            of_least[j] = 0xFFFFFFFF;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                largest[j] = max_magnitude(largest[j], unit.of[i][j]);
                of_least[j] = min(of_least[j], __float_as_uint(unit.of[i][j]) * 2 - 1);
            }
        }
        float most = max_magnitude(max_magnitude(largest[0], largest[1]),
                                   max_magnitude(largest[2], largest[3]));
        uint32_t bits = __reduce_max_sync(0xFFFFFFFF, __float_as_uint(most));
        uint32_t least = __reduce_min_sync(
            0xFFFFFFFF, min(min(of_least[0], of_least[1]), min(of_least[2], of_least[3])));
        int top = bits ? (int)(bits >> 23) : 127;
        uint32_t odd = 0;
        if (bits &&
            (top < LEAST_EXPONENT || top > MOST_EXPONENT || (int)((least + 1) >> 24) < top - APART))
            odd = take_odd(unit, top);
        if (lane == 0)
            *factor(stage, block, warp % GROUPS) = make_uint2((uint32_t)(top - 14) << 23, odd);
        float scale = __uint_as_float((uint32_t)(127 + 141 - top) << 23), scale_low = scale * 2048;
        uint4 *to = reinterpret_cast<uint4 *>(terms(stage, block) + octet / 2 * 2 * TILE_BYTES +
                                              octet % 2 * (TILE_BYTES / 2)) +
                    warp % GROUPS * 32 + lane % 8;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t high[4], low[4];
#pragma unroll
            for (int t = 0; t < 4; t++) {
                float x0 = unit.of[2 * t][j], x1 = unit.of[2 * t + 1][j];
                high[t] = f16x2_of_f32x2(x0 * scale, x1 * scale);
                float2 rest = f32x2_of_f16x2(high[t]);
                low[t] = f16x2_of_f32x2(fmaf(rest.x, -2048, x0 * scale_low),
                                        fmaf(rest.y, -2048, x1 * scale_low));
            }
            to[8 * j] = make_uint4(high[0], high[1], high[2], high[3]);
            to[8 * j + TILE_BYTES / 16] = make_uint4(low[0], low[1], low[2], low[3]);
        }
    }

    /* IS_WIDE: weights and columns by 16 bytes. */
    template <bool IS_WIDE> MEMBER void make(int64_t first, int64_t end) const {
        int own = threadIdx.x / 32 / GROUPS, stage = 0;
        int64_t block0 = first * CHUNK;
        Unit unit;
        if (own < CHUNK)
            fetch<IS_WIDE>(unit, block0 + own);
#pragma unroll 1
        for (int n = (int)(end - first); n > 0; n--) {
            copy_weights<IS_WIDE>(stage, block0);
            if constexpr (SCALES_APART)
                copy_scales(stage, block0);
            commit_copies();
            if (own < CHUNK && block0 + own < rows.n_blocks)
                split(stage, own, unit);
            block0 += CHUNK;
            wait_copies<0>();
            fence_tiles();
            if (own < CHUNK && n > 1)
                fetch<IS_WIDE>(unit, block0 + own);
            meet_users();
            stage ^= 1;
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

    /* Where a block is, and the factors of its columns. */
    struct Place {
        int stage, skew, block;
        float by[GROUPS];
        uint32_t odd;
    };

    MEMBER void read_factors(Place &place) const {
        place.odd = 0;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            uint2 of_group = *factor(place.stage, place.block, group);
            place.by[group] = __uint_as_float(of_group.x);
            place.odd |= of_group.y;
        }
    }

    /* Products under way: their sums, and what these are to be multiplied with. */
    struct Products {
        float part[COLS / 2];
        float upper, lower;
    };

    /* Those of a block with the warpgroup's rows of a tile. */
    MEMBER void begin(Products &products, int tile, const Place &place, uint64_t tiles) const {
        int lane = threadIdx.x % 32, row = first_row(tile) + lane / 4;
        uint32_t a[2][4], a_low[2][4];
        const uint8_t *of_row = rows.row_in(place.stage, place.skew, row, place.block);
#pragma unroll
        for (int below = 0; below < 2; below++) {
            Fragment part = Staged<Format>::fragment(of_row + below * 8 * Rows::PITCH, lane % 4);
            a[0][below] = part.of[0][0];
            a[0][below + 2] = part.of[0][1];
            a[1][below] = part.of[1][0];
            a[1][below + 2] = part.of[1][1];
        }
        const uint16_t to_low = 0x1000; /* 2^-11 */
#pragma unroll
        for (int i = 0; i < 8; i++)
            a_low[i / 4][i % 4] = fma_f16x2(a[i / 4][i % 4], to_low, 0);
        products.upper = scale_in(place.stage, place.skew, row, place.block);
        products.lower = scale_in(place.stage, place.skew, row + 8, place.block);
        uint64_t at = tile_behind(tiles, place.stage * TERM_BYTES + place.block * (4 * TILE_BYTES));
        begin_products();
        multiply_tile<false>(products.part, a_low[0], tile_behind(at, TILE_BYTES));
        multiply_tile<true>(products.part, a_low[1], tile_behind(at, 3 * TILE_BYTES));
        multiply_tile<true>(products.part, a[0], at);
        multiply_tile<true>(products.part, a[1], tile_behind(at, 2 * TILE_BYTES));
        end_products();
    }

    /* Whether a product with a factor may be no normal float. */
    MEMBER static bool is_far_scale(float scale) {
        int exponent = __float_as_uint(scale) >> 23 & 255;
        return scale != 0 && (exponent < 127 - 40 || exponent > 127 + 40);
    }

    MEMBER void add(float (&sums)[COLS / 2], const Products &products, const Place &place) const {
        float upper = products.upper, lower = products.lower;
        bool is_far = Format::SCALE_BYTES == 4 &&
                      __any_sync(0xFFFFFFFF, is_far_scale(upper) || is_far_scale(lower));
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            float by = place.by[group];
            if (is_far) {
#pragma unroll
                for (int i = 16 * group; i < 16 * group + 16; i++)
                    sums[i] = fmaf(i / 2 % 2 ? lower : upper, products.part[i] * by, sums[i]);
                continue;
            }
            float both[2] = {upper * by, lower * by};
#pragma unroll
            for (int i = 16 * group; i < 16 * group + 16; i++)
                sums[i] = fmaf(both[i / 2 % 2], products.part[i], sums[i]);
        }
    }

    /* Plain products of the column at a place of the tile with the warp's rows, a lane a row. */
    MEMBER void add_plain(float (&sums)[M_TILES][COLS / 2], int at_col, const Place &place,
                          int64_t at) const {
        int lane = threadIdx.x % 32, row = first_row(lane / 16 % M_TILES) + lane % 16;
        int64_t col = col0 + column_at(at_col);
        const float *x = b + at * shape.n + (col < shape.n ? col : shape.n - 1);
        const uint8_t *of_row = rows.row_in(place.stage, place.skew, row, place.block);
        float scale = scale_in(place.stage, place.skew, row, place.block), part = 0;
#pragma unroll 4
        for (int i = 0; i < BLOCK_VALUES; i++)
            part =
                fmaf(scale * (float)Staged<Format>::value(of_row, i), __ldg(x + i * shape.n), part);
#pragma unroll
        for (int tile = 0; tile < M_TILES; tile++) {
#pragma unroll
            for (int below = 0; below < 2; below++) {
                float value = __shfl_sync(0xFFFFFFFF, part, tile * 16 + below * 8 + lane / 4);
#pragma unroll
                for (int i = 0; i < COLS / 4; i++) {
                    if (8 * (i / 2) + lane % 4 * 2 + i % 2 == at_col)
                        sums[tile][i / 2 * 4 + below * 2 + i % 2] += value;
                }
            }
        }
    }

    MEMBER void add_odd(float (&sums)[M_TILES][COLS / 2], const Place &place, int64_t block) const {
#pragma unroll 1
        for (int col = 0; col < COLS; col++)
            if (factor(place.stage, place.block, col / 32)->y >> col % 32 & 1)
                add_plain(sums, col, place, block * BLOCK_VALUES);
    }

    /* Blocks of a chunk; one tile's products are under way while the other's join the sums. */
    template <int N>
    MEMBER void multiply_blocks(float (&sums)[M_TILES][COLS / 2], int stage, int skew, int block,
                                int64_t block0, uint64_t tiles) const {
        Products of[2];
        Place places[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            places[i] = {stage, skew, block + i, {}, 0};
        read_factors(places[0]);
        begin(of[0], 0, places[0], tiles);
        uint32_t odd = 0;
#pragma unroll
        for (int i = 0; i < N; i++) {
            begin(of[1], 1, places[i], tiles);
            wait_products_before<1>(of[0].part);
            add(sums[0], of[0], places[i]);
            if (i + 1 < N) {
                read_factors(places[i + 1]);
                begin(of[0], 0, places[i + 1], tiles);
                wait_products_before<1>(of[1].part);
            } else {
                wait_products_before<0>(of[1].part);
            }
            add(sums[1], of[1], places[i]);
            odd |= places[i].odd;
        }
        if (odd == 0)
            return;
#pragma unroll 1
        for (int i = 0; i < N; i++)
            add_odd(sums, {stage, skew, block + i, {}, 0}, block0 + block + i);
    }

    MEMBER void multiply(float (&sums)[M_TILES][COLS / 2], int64_t first, int64_t end) const {
        uint64_t tiles = tile_descriptor<COLS>(terms(0, 0));
        int stage = 0;
#pragma unroll 1
        for (int64_t chunk = first; chunk < end; chunk++) {
            int64_t block0 = chunk * CHUNK;
            int skew = rows.skew_of(block0), n = rows.blocks_from(block0);
            meet_makers();
            if (n == CHUNK) {
                multiply_blocks<CHUNK>(sums, stage, skew, 0, block0, tiles);
            } else {
#pragma unroll 1
                for (int block = 0; block < n; block++)
                    multiply_blocks<1>(sums, stage, skew, block, block0, tiles);
            }
            stage ^= 1;
        }
    }

    /* ---- results ---- */

    MEMBER void store_four(float *c, int64_t row, int64_t col, float4 four) const {
        float *to = c + row * shape.n + col;
        const float values[4] = {four.x, four.y, four.z, four.w};
        if (shape.is_wide_c && col < shape.n) {
            *reinterpret_cast<float4 *>(to) = four;
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (col + i < shape.n)
                to[i] = values[i];
    }

    /* work(row, column, four of a row) for all of a lane's sums. */
    template <class Work>
    MEMBER static void each_four(const float (&sums)[M_TILES][COLS / 2], Work work) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < M_TILES * 4 * GROUPS; i++) {
            int tile = i / (4 * GROUPS), below = i / (2 * GROUPS) % 2, group = i / 2 % GROUPS;
            const float *of = sums[tile] + 16 * group + 2 * below + i % 2;
            work(first_row(tile) + 8 * below + lane / 4, 32 * group + lane % 4 * 8 + i % 2 * 4,
                 make_float4(of[0], of[4], of[8], of[12]));
        }
    }

    MEMBER void store(const float (&sums)[M_TILES][COLS / 2], float *c) const {
        each_four(sums, [&](int row, int col, float4 four) {
            if (rows.row0 + row < shape.m)
                store_four(c, rows.row0 + row, col0 + col, four);
        });
    }

    MEMBER void stage_sums(const float (&sums)[M_TILES][COLS / 2]) const {
        each_four(sums, [&](int row, int col, float4 four) {
            *reinterpret_cast<float4 *>(shared + (row * COLS + col) * 4) = four;
        });
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
    if (__shfl_sync(0xFFFFFFFF, threadIdx.x / Work::MAKERS, 0) == 0) {
        keep_registers<Work::REGISTERS_OF_MAKERS>();
        if (shape.is_wide && shape.is_wide_b)
            work.template make<true>(first, end);
        else
            work.template make<false>(first, end);
        if (n_ranks > 1)
            work.meet_at_the_end();
    } else {
        take_registers<Work::REGISTERS>();
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
