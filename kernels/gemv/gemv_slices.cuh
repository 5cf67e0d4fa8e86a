/*
 * Quantised weights times a few columns on the matrix units, by blocks that stay (sm_90), each of
 * which has eight of the columns, or fewer.
 *
 * A warp has a slice of 256 of k, keeps its columns in registers, and goes through tiles of 16
 * rows.  The integers of a group are exact in binary16.  A column's 256 values are scaled by
 * a power of two so that the largest is in [2^14, 2^15), and become two binary16 terms, the lower
 * one scaled by 2^11: 22 bits of each value.  The products of a group are summed separately,
 * because the units truncate their sums, and join the sums in float after their scales.  Four
 * columns' values of a row of b have terms of 0 and take plain fp32 products if one of them is not
 * finite or more than 2^26 below its column's largest.
 *
 * A product of the units has eight columns.  If there are at most four (IS_PACKED), their lower
 * terms are the other four of the same product, so that there are half as many products, and the
 * two sums of a column are added at the end.
 *
 * Weights come by asynchronous copies into stages of the warp, which meets no other warp until some
 * tiles are done.  Then the block adds up what its warps have of these, in the order of their
 * slices, and the blocks of a cluster, which share k, add up what each of them has.
 */
#ifndef CUSHIM_KERNELS_GEMV_SLICES_CUH
#define CUSHIM_KERNELS_GEMV_SLICES_CUH

#include <float.h>

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/arch/mma.cuh"
#include "kernels/gemv/gemv_groups.cuh"

enum {
    SLICE_ROWS = GEMV_SLICE_ROWS,
    SLICE_BLOCKS = GEMV_SLICE / BLOCK_VALUES,
    SLICE_COLS = GEMV_SLICE_COLS,
    SLICE_OUTPUTS = SLICE_ROWS * SLICE_COLS
};

/* ---- a stage: the weights of a slice of 16 rows ---- */

/*
 * A row has PARTS times 128 bytes, whose pieces of 16 are copied by eight lanes, and TAIL pieces
 * more.  In the stage rows lie PITCH apart; the tail of nibbles are the row's scales, behind all
 * rows.
 */
template <class Format> struct SliceLayout;
template <> struct SliceLayout<Q4_0> {
    enum { PITCH = 128, PARTS = 1, TAIL = 1, TAIL_PITCH = 16, TAIL_AT = SLICE_ROWS * PITCH };
};
template <> struct SliceLayout<Q8_0> {
    enum { PITCH = 272, PARTS = 2, TAIL = 1, TAIL_PITCH = PITCH, TAIL_AT = 256 };
};
template <> struct SliceLayout<Q8f> {
    enum { PITCH = 304, PARTS = 2, TAIL = 2, TAIL_PITCH = PITCH, TAIL_AT = 256 };
};

template <> struct SliceLayout<Q4kHalf> {
    enum { PITCH = 144, PARTS = 1, TAIL = 1, TAIL_PITCH = PITCH, TAIL_AT = 128 };
};
template <> struct SliceLayout<Q5kHalf> {
    enum { PITCH = 176, PARTS = 1, TAIL = 3, TAIL_PITCH = PITCH, TAIL_AT = 128 };
};
template <> struct SliceLayout<Q5_0Block> : SliceLayout<Q5kHalf> {};
template <> struct SliceLayout<Q6kHalf> {
    enum { PITCH = 240, PARTS = 1, TAIL = 6, TAIL_PITCH = PITCH, TAIL_AT = 128 };
};

template <class Format> struct SliceStage {
    typedef SliceLayout<Format> Layout;
    enum { PITCH = Layout::PITCH, SCALES_APART = Format::SCALE_BYTES == 0 };
    enum { BYTES = SLICE_ROWS * (PITCH + SCALES_APART * 16) };

    /* Against bank conflicts piece p of row r of nibbles lies at p ^ (r % 8), and rows of bytes
     * lie an odd multiple of 16 apart. */
    DEVICE const uint8_t *block(const uint8_t *stage, int row, int i) {
        if (SCALES_APART)
            return stage + row * PITCH + (i ^ row % 8) * 16;
        return stage + row * PITCH + i * Format::BYTES;
    }
    DEVICE const uint16_t *scale(const uint8_t *stage, int row, int i) {
        return reinterpret_cast<const uint16_t *>(stage + Layout::TAIL_AT) + row * SLICE_BLOCKS + i;
    }

    /* Calls work(block, words of rows g and g + 8 as fragments, their scales), and for minima
     * work_minima(slots, factors) first.  skew: how far rows start behind 16. */
    template <class Work, class Minima>
    DEVICE void each(const uint8_t *stage, int skew, Work work, Minima work_minima) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        if constexpr (SCALES_APART) {
            int row = lane / 8 % 2 * 8 + lane % 8, second = lane / 16;
            uint4 up = *reinterpret_cast<const uint4 *>(scale(stage, g, 0));
            uint4 down = *reinterpret_cast<const uint4 *>(scale(stage, g + 8, 0));
            const uint32_t ups[4] = {up.x, up.y, up.z, up.w};
            const uint32_t downs[4] = {down.x, down.y, down.z, down.w};
#pragma unroll
            for (int pair = 0; pair < SLICE_BLOCKS / 2; pair++) {
                uint32_t words[4];
                load_matrix_x4(words, block(stage, row, 2 * pair + second));
                float2 of_up = f32x2_of_f16x2(ups[pair]), of_down = f32x2_of_f16x2(downs[pair]);
                work(2 * pair, fragment_of_nibbles(words[0]), fragment_of_nibbles(words[1]),
                     of_up.x, of_down.x);
                work(2 * pair + 1, fragment_of_nibbles(words[2]), fragment_of_nibbles(words[3]),
                     of_up.y, of_down.y);
            }
        } else if constexpr (Format::HAS_MINIMA) {
            typedef LaneBlocks<Format> Lane;
            Lane up(stage + g * PITCH), down(stage + (g + 8) * PITCH);
            work_minima(up.minima, down.minima, up.least, down.least);
#pragma unroll
            for (int part = 0; part < 2; part++) {
                typename Lane::Words of_up = up.words(part), of_down = down.words(part);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    work(part * 4 + i, up.fragment(of_up, i), down.fragment(of_down, i), up.d,
                         down.d);
            }
        } else if constexpr (Format::GROUP > 1) {
#pragma unroll
            for (int group = 0; group < SLICE_BLOCKS / Format::GROUP; group++) {
                typedef Staged<Format> Of;
                Parts up = Of::whole(stage + g * PITCH + skew, group);
                Parts down = Of::whole(stage + (g + 8) * PITCH + skew, group);
#pragma unroll
                for (int i = 0; i < Format::GROUP; i++) {
                    int block = i / 2 + i % 2 * 2; /* those that share words */
                    if (i % 2 == 0)
                        __syncwarp(); /* no registers are left for loads of later blocks */
                    work(group * Format::GROUP + block, Of::fragment(up, block, t),
                         Of::fragment(down, block, t), Of::scale(up, nullptr),
                         Of::scale(down, nullptr));
                }
            }
        } else {
#pragma unroll
            for (int i = 0; i < SLICE_BLOCKS; i++) {
                const uint8_t *up = block(stage, g, i), *down = block(stage, g + 8, i);
                work(i, fragment(up, i, t), fragment(down, i, t),
                     Staged<Format>::scale(up, nullptr), Staged<Format>::scale(down, nullptr));
            }
        }
    }

    /* Values of an even block of 34 bytes begin in the middle of a word. */
    DEVICE Fragment fragment(const uint8_t *block, int i, int t) {
        if (Format::BYTES != (int)Q8_0::BYTES)
            return Staged<Format>::fragment(block, 0, t);
        const uint32_t *from = reinterpret_cast<const uint32_t *>(block + i % 2 * 2) + t;
        if (i % 2)
            return fragment_of_bytes(from[0], from[4]);
        return fragment_of_bytes(__byte_perm(from[0], from[1], 0x5432),
                                 __byte_perm(from[4], from[5], 0x5432));
    }
};

/* What a lane copies of the warp's tiles, one after the other. */
template <class Format> struct SliceSource {
    typedef SliceLayout<Format> Layout;
    typedef SliceStage<Format> Stage;
    typedef ChunkLayout<Format, SLICE_BLOCKS> Chunk;
    const gemv_slices &shape;
    const uint8_t *body, *tail;

    /* From the slice at `at` of a row on. */
    MEMBER SliceSource(const gemv_slices &shape, const Weights &w, int64_t row, int64_t at)
        : shape(shape) {
        int lane = threadIdx.x % 32;
        int64_t block = at / BLOCK_VALUES, bytes = row * shape.row_bytes;
        body = w.values + bytes + Chunk::bytes_before(block);
        if (Stage::SCALES_APART)
            tail = w.scales + bytes / 8 + block * 2 + lane * (shape.row_bytes / 8);
        else
            tail = body + 128 * Layout::PARTS;
        body += lane / 8 * shape.row_bytes + lane % 8 * 16;
    }

    /* Rows beyond the last are not copied, and their results are not stored. */
    MEMBER void copy(uint8_t *stage, int n_rows) {
        int lane = threadIdx.x % 32, row = lane / 8, piece = lane % 8;
        uint8_t *even = stage + row * Layout::PITCH + piece * 16, *odd = even;
        if (Stage::SCALES_APART) {
            even = stage + row * Layout::PITCH + (piece ^ row) * 16;
            odd = stage + row * Layout::PITCH + (piece ^ row ^ 4) * 16;
        }
        const uint8_t *from = body;
#pragma unroll
        for (int i = 0; i < SLICE_ROWS / 4; i++, from += 4 * shape.row_bytes) {
            uint8_t *to = (i % 2 ? odd : even) + i * 4 * Layout::PITCH;
#pragma unroll
            for (int part = 0; part < Layout::PARTS; part++) {
                if (row + 4 * i < n_rows)
                    copy_async_16_of_kept_line(to + part * 128,
                                               start_of_copy<Chunk>(from) + part * 128);
            }
        }
#pragma unroll
        for (int i = lane; i < SLICE_ROWS * Layout::TAIL; i += 32) {
            row = i / Layout::TAIL, piece = i % Layout::TAIL;
            if (row < n_rows)
                copy_async_16_of_kept_line(
                    stage + Layout::TAIL_AT + row * Layout::TAIL_PITCH + piece * 16,
                    Stage::SCALES_APART
                        ? tail
                        : start_of_copy<Chunk>(tail + row * shape.row_bytes) + piece * 16);
        }
        body += shape.step;
        tail += Stage::SCALES_APART ? shape.step / 8 : shape.step;
    }
};

/* ---- a slice of the columns ---- */

/*
 * Terms of 16 values of all columns go through the warp's scratch, [high, low][value][column], even
 * values first, in the order of a product's slots; if IS_PACKED those of two times 16 values,
 * [value][high, low][column].
 */
template <bool HAS_TOTALS, bool IS_PACKED> struct SliceTerms {
    uint32_t high[SLICE_BLOCKS][4];                /* and low, if IS_PACKED */
    uint32_t low[IS_PACKED ? 1 : SLICE_BLOCKS][4]; /* otherwise */
    float factor[2];                               /* of the lane's two columns of a product */
    uint32_t totals[2][2];                         /* slots of the sums of blocks 2t and 2t + 1 */
    unsigned plain; /* a bit for each of the lane's fours that take plain products */

    enum { N_SIXTEENS = GEMV_SLICE / 16, N_FOURS = N_SIXTEENS / (1 + IS_PACKED) };
    typedef float Fours[N_FOURS][4];

    /* In four i a lane holds one value of a sixteen, for four columns from col_of(lane) on.
     * Sixteen values are neighbours, or fours of all LaneBlocks. */
    MEMBER static int value_of(int i, int lane) {
        int number = IS_PACKED ? lane % 8 * 2 + lane / 8 % 2 : lane / 2 % 8 * 2 + lane / 16;
        int sixteen = IS_PACKED ? 2 * i + lane / 16 : i;
        return HAS_TOTALS ? number / 4 * 64 + number % 4 + sixteen % 2 * 32 + sixteen / 2 * 4
                          : sixteen * 16 + number;
    }
    MEMBER static int col_of(int lane) {
        return IS_PACKED ? 0 : lane % 2 * 4;
    }

    /* b is the slice's first row; columns beyond the last are 0. */
    MEMBER static void load(Fours &x, const float *b, int64_t n, int n_cols) {
        int lane = threadIdx.x % 32, col = col_of(lane);
        const float *from = b + value_of(0, lane) * n + col;
        if (n_cols == SLICE_COLS && n % 4 == 0 && reinterpret_cast<uintptr_t>(b) % 16 == 0) {
#pragma unroll
            for (int i = 0; i < N_FOURS; i++) {
                float4 four = __ldg(reinterpret_cast<const float4 *>(from + value_of(i, 0) * n));
                x[i][0] = four.x, x[i][1] = four.y, x[i][2] = four.z, x[i][3] = four.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < N_FOURS; i++) {
#pragma unroll
                for (int c = 0; c < 4; c++)
                    x[i][c] = col + c < n_cols ? __ldg(from + value_of(i, 0) * n + c) : 0;
            }
        }
    }

    /* The most between the exponents of the largest value and the smallest; all below 2^-100 are
     * exact. */
    enum { SPREAD = 26 };
    MEMBER static uint32_t least_of(int exponent) { /* as bits without a sign, times 2 */
        return exponent <= SPREAD ? 0 : (uint32_t)(exponent - SPREAD) << 24;
    }

    /* Of a column's 256 values; most: bits without a sign, times 2. */
    MEMBER static int largest_exponent(uint32_t most) {
#pragma unroll
        for (int flips = IS_PACKED ? 1 : 2; flips < 32; flips *= 2)
            most = max(most, __shfl_xor_sync(0xFFFFFFFF, most, flips));
        return (int)(most >> 24);
    }

    MEMBER void form(Fours &x, uint8_t *scratch) {
        int lane = threadIdx.x % 32, exponents[4];
        bool is_odd = false;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            uint32_t most = 0, least = 0xFFFFFFFF; /* of those that are not 0, less 1 */
#pragma unroll
            for (int i = 0; i < N_FOURS; i++) {
                uint32_t bits = __float_as_uint(x[i][c]) * 2;
                most = max(most, bits);
                least = min(least, bits - 1);
            }
            exponents[c] = largest_exponent(most);
            is_odd |= exponents[c] == 255 ||
                      (exponents[c] > SPREAD && least < least_of(exponents[c]) - 1);
        }
        plain = 0;
        if (__any_sync(0xFFFFFFFF, is_odd))
            take_odd(x, exponents);
        float scales[4], factors[4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            int exponent = 127 + 141 - (exponents[c] > SPREAD ? exponents[c] : (int)SPREAD);
            scales[c] = __uint_as_float((uint32_t)exponent << 23);
            /* 1 / scale, because the exponents of the two add up to 254. */
            factors[c] = __uint_as_float((uint32_t)(254 - exponent) << 23);
        }
        /* Lane t / 2 has columns 2t and 2t + 1, as its first two or its last.  If IS_PACKED, lane
         * 0 has those of all lanes. */
        int t = lane % 4;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float of_lane = __shfl_sync(0xFFFFFFFF, factors[c], IS_PACKED ? 0 : t / 2);
            if (c / 2 == t % 2)
                factor[c % 2] = IS_PACKED && t / 2 ? of_lane * 0x1p-11f : of_lane;
        }
        /* Matrices of 8 values: even ones and odd ones of the high terms, and of the low ones or
         * of the next sixteen. */
        uint8_t *row = scratch + lane * 16;
#pragma unroll
        for (int i = 0; i < N_FOURS; i++) {
            uint32_t of_high[2], of_low[2];
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                float x0 = x[i][2 * pair], x1 = x[i][2 * pair + 1];
                float scale0 = scales[2 * pair], scale1 = scales[2 * pair + 1];
                of_high[pair] = f16x2_of_f32x2(x0 * scale0, x1 * scale1);
                float2 rest = f32x2_of_f16x2(of_high[pair]);
                of_low[pair] = f16x2_of_f32x2(fmaf(rest.x, -2048, x0 * (scale0 * 2048)),
                                              fmaf(rest.y, -2048, x1 * (scale1 * 2048)));
            }
            if constexpr (IS_PACKED) {
                *reinterpret_cast<uint4 *>(row) =
                    make_uint4(of_high[0], of_high[1], of_low[0], of_low[1]);
                __syncwarp();
                load_matrix_x4_transposed(high[i], row);
            } else {
                uint2 *to = reinterpret_cast<uint2 *>(scratch) + lane;
                to[0] = make_uint2(of_high[0], of_high[1]);
                to[32] = make_uint2(of_low[0], of_low[1]);
                __syncwarp();
                uint32_t words[4];
                load_matrix_x4_transposed(words, row);
                int at = i % 2 * 2;
                high[i / 2][at] = words[0], high[i / 2][at + 1] = words[1];
                low[i / 2][at] = words[2], low[i / 2][at + 1] = words[3];
            }
            __syncwarp();
        }
        if constexpr (HAS_TOTALS)
            add_up(scratch);
    }

    /* The sums of blocks: row g has those of block g. */
    MEMBER void add_up(uint8_t *scratch) {
        float highs[4] = {}, lows[4] = {};
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < N_SIXTEENS; i++) {
            uint32_t one = lane / 4 == lane % 4 * 2 + i % 2 ? 0x3C003C00 : 0;
            const uint32_t ones[4] = {one, 0, one, 0};
            int at = i % 2 * 2;
            const uint32_t of_high[2] = {high[i / 2][at], high[i / 2][at + 1]};
            mma_f16(highs, ones, of_high);
            if constexpr (!IS_PACKED) {
                const uint32_t of_low[2] = {low[i / 2][at], low[i / 2][at + 1]};
                mma_f16(lows, ones, of_low);
            }
        }
        share_totals(highs, lows, scratch);
    }

    /* Lanes have the totals of two columns of block g, and need slots of those of column g.  If
     * IS_PACKED, columns from 4 on are lower terms, and have none. */
    MEMBER void share_totals(const float (&highs)[4], const float (&lows)[4], uint8_t *scratch) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        uint2 *to = reinterpret_cast<uint2 *>(scratch) + 2 * t * SLICE_BLOCKS + g;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float low = IS_PACKED ? __shfl_xor_sync(0xFFFFFFFF, highs[i], 2) : lows[i];
            bool is_column = !IS_PACKED || t < 2;
            to[i * SLICE_BLOCKS] = slots_of_sum(is_column ? fmaf(low, 0x1p-11f, highs[i]) : 0);
        }
        __syncwarp();
        uint4 own = reinterpret_cast<const uint4 *>(scratch)[lane];
        totals[0][0] = own.x, totals[0][1] = own.y;
        totals[1][0] = own.z, totals[1][1] = own.w;
    }

    /* Set fours that may have no terms to 0, and find the exponents of the others. */
    MEMBER void take_odd(Fours &x, int (&exponents)[4]) {
        enum : uint32_t { INFINITE = 0xFF000000 };
        uint32_t least[4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            uint32_t most = 0;
#pragma unroll
            for (int i = 0; i < N_FOURS; i++) {
                uint32_t bits = __float_as_uint(x[i][c]) * 2;
                most = max(most, bits < INFINITE ? bits : 0);
            }
            exponents[c] = largest_exponent(most);
            least[c] = least_of(exponents[c]);
        }
#pragma unroll
        for (int i = 0; i < N_FOURS; i++) {
            bool is_plain = false;
#pragma unroll
            for (int c = 0; c < 4; c++) {
                uint32_t bits = __float_as_uint(x[i][c]) * 2;
                is_plain |= bits >= INFINITE || (bits && bits < least[c]);
            }
            plain |= (unsigned)is_plain << i;
#pragma unroll
            for (int c = 0; c < 4; c++)
                x[i][c] = is_plain ? 0 : x[i][c];
        }
    }
};

/* ---- the rows ---- */

template <class Format, bool IS_PACKED> struct Slices {
    typedef SliceStage<Format> Stage;
    typedef SliceTerms<Format::HAS_MINIMA, IS_PACKED> Terms;
    typedef ChunkLayout<Format, SLICE_BLOCKS> Chunk;
    enum { STAGE_BYTES = Stage::BYTES, N_STAGES = GEMV_SLICE_STAGES };
    static_assert(STAGE_BYTES == GEMV_SLICE_STAGE_BYTES(Chunk::SLICE_BYTES), "launch");

    const gemv_slices &shape;
    const Weights &w;
    const float *b;
    float *c;
    unsigned rank, n_ranks;
    int n_cols; /* of the block */
    int slice, group;
    int tile0, n_tiles; /* of the cluster */
    int partial;        /* the tile that does not have all its rows, or -1 */
    int64_t at;         /* of k: the warp's slice */
    bool is_there;      /* otherwise it is beyond k, and the last slice is fetched in its place */

    uint8_t *stages, *scratch; /* in shared memory, the warp's */
    float *parts, *totals;     /* [buffer][tile][slice][row][column], [buffer][tile][row][column] */

    MEMBER Slices(const gemv_slices &shape, const Weights &w, const float *b, float *c,
                  uint8_t *shared)
        : shape(shape), w(w), b(b + blockIdx.y * SLICE_COLS), c(c + blockIdx.y * SLICE_COLS),
          rank(cluster_rank()), n_ranks(cluster_size()) {
        n_cols = (int)min((int64_t)SLICE_COLS, shape.n - (int64_t)blockIdx.y * SLICE_COLS);
        int warp = threadIdx.x / 32, n_warps = shape.n_slices * shape.n_groups;
        slice = warp % shape.n_slices;
        group = warp / shape.n_slices;
        tile0 = (int)(blockIdx.x / n_ranks);
        int all = (int)((shape.m + SLICE_ROWS - 1) / SLICE_ROWS);
        n_tiles = (all - tile0 + shape.tile_step - 1) / shape.tile_step;
        partial =
            shape.m % SLICE_ROWS && (all - 1 - tile0) % shape.tile_step == 0 ? n_tiles - 1 : -1;
        at = ((int64_t)rank * shape.n_slices + slice) * GEMV_SLICE;
        is_there = at < shape.k;
        at = is_there ? at : shape.k - GEMV_SLICE;
        stages = shared + warp * (N_STAGES * STAGE_BYTES);
        scratch = shared + n_warps * (N_STAGES * STAGE_BYTES) + warp * GEMV_SLICE_SCRATCH;
        totals = reinterpret_cast<float *>(shared +
                                           n_warps * (N_STAGES * STAGE_BYTES + GEMV_SLICE_SCRATCH));
        parts = totals + 2 * shape.tiles_per_sum * SLICE_OUTPUTS;
    }

    MEMBER int64_t row_of(int tile) const {
        return ((int64_t)tile0 + (int64_t)tile * shape.tile_step) * SLICE_ROWS;
    }

    MEMBER void fetch(SliceSource<Format> &source, uint8_t *stage, int tile) const {
        if (tile < n_tiles)
            source.copy(stage, tile == partial ? (int)(shape.m % SLICE_ROWS) : (int)SLICE_ROWS);
        commit_copies();
    }

    MEMBER void multiply(float (&sums)[4], const uint8_t *stage, const Terms &terms) const {
        /* of a group, each half of its blocks apart, because a sum waits for the one before it */
        enum { CHAINS = IS_PACKED && Format::GROUP > 1 ? 2 : 1 };
        float upper[CHAINS][4], lower[CHAINS][4];
        auto multiply_block = [&](int i, const Fragment &up, const Fragment &down, float scale_up,
                                  float scale_down) {
#pragma unroll
            for (int e = 0; e < 4 * CHAINS && i % Format::GROUP == 0; e++)
                upper[e / 4][e % 4] = lower[e / 4][e % 4] = 0;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint32_t a[4] = {up.of[half][0], down.of[half][0], up.of[half][1],
                                       down.of[half][1]};
                const uint32_t high[2] = {terms.high[i][2 * half], terms.high[i][2 * half + 1]};
                mma_f16(upper[half % CHAINS], a, high);
                if constexpr (!IS_PACKED) {
                    const uint32_t low[2] = {terms.low[i][2 * half], terms.low[i][2 * half + 1]};
                    mma_f16(lower[half % CHAINS], a, low);
                }
                if constexpr (Format::HAS_REST) {
                    const uint32_t rest[4] = {up.rest[half][0], down.rest[half][0],
                                              up.rest[half][1], down.rest[half][1]};
                    mma_f16(upper[half % CHAINS], rest, high);
                }
            }
#pragma unroll
            for (int e = 0; e < 4 && (i + 1) % Format::GROUP == 0; e++) {
                float sum = upper[0][e], low = lower[0][e];
                if constexpr (CHAINS > 1)
                    sum += upper[1][e], low += lower[1][e];
                sums[e] = fmaf(e < 2 ? scale_up : scale_down,
                               IS_PACKED ? sum : fmaf(low, 0x1p-11f, sum), sums[e]);
            }
        };
        auto multiply_minima = [&](const uint32_t(&up)[2], const uint32_t(&down)[2], float of_up,
                                   float of_down) {
            float part[4] = {};
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t a[4] = {up[i], down[i], up[i], down[i]};
                mma_bf16(part, a, terms.totals[i]);
            }
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[e] = fmaf(e < 2 ? -of_up : -of_down, part[e], sums[e]);
        };
        unsigned bytes = (unsigned)Chunk::bytes_before(at / BLOCK_VALUES);
        bytes += threadIdx.x % 32 / 4 * shape.row_bytes;
        int skew = Chunk::HAS_SKEW ? (int)(bytes % 16) : 0;
        Stage::each(stage, skew, multiply_block, multiply_minima);
    }

    /* Plain products for values without terms: a lane has a row and two columns, and takes one
     * lane's fours after the other's. */
    MEMBER void add_plain(float *part, int tile, unsigned plain) const {
        int64_t of_tile = row_of(tile) + threadIdx.x % SLICE_ROWS;
        int64_t block0 = (of_tile < shape.m ? of_tile : shape.m - 1) * (shape.k / BLOCK_VALUES) +
                         at / BLOCK_VALUES;
        int row = threadIdx.x % SLICE_ROWS, pair = threadIdx.x % 32 / SLICE_ROWS * 2;
#pragma unroll 1
        for (unsigned lanes = __ballot_sync(0xFFFFFFFF, plain != 0); lanes; lanes &= lanes - 1) {
            int from = __ffs((int)lanes) - 1, col = Terms::col_of(from) + pair;
            unsigned fours = __shfl_sync(0xFFFFFFFF, plain, from);
            float sums[2] = {};
#pragma unroll 1
            for (; fours; fours &= fours - 1) {
                int value = Terms::value_of(__ffs((int)fours) - 1, from);
                float weight =
                    Staged<Format>::weight(w, block0 + value / BLOCK_VALUES, value % BLOCK_VALUES);
                const float *x = b + (at + value) * shape.n + col;
#pragma unroll
                for (int c = 0; c < 2; c++)
                    sums[c] = col + c < n_cols ? fmaf(weight, __ldg(x + c), sums[c]) : 0;
            }
            part[row * SLICE_COLS + col] += sums[0];
            part[row * SLICE_COLS + col + 1] += sums[1];
        }
    }

    MEMBER void put_aside(float *part, const float (&sums)[4], const Terms &terms) const {
        int lane = threadIdx.x % 32;
        float *to = part + lane / 4 * SLICE_COLS + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                sum[c] = is_there ? sums[2 * i + c] * terms.factor[c] : 0;
                if (IS_PACKED) { /* of an infinite scale, lower terms may have the other sign */
                    float lower = __shfl_xor_sync(0xFFFFFFFF, sum[c], 2);
                    sum[c] += fabsf(sum[c]) <= FLT_MAX ? lower : 0;
                }
            }
            *reinterpret_cast<float2 *>(to + i * 8 * SLICE_COLS) = make_float2(sum[0], sum[1]);
        }
    }

    MEMBER void store(int tile, int i, float sum) const {
        int64_t row = row_of(tile) + i / SLICE_COLS;
        int col = i % SLICE_COLS;
        if (row < shape.m && col < n_cols)
            c[row * shape.n + col] = sum;
    }

    /* Add up tiles from `first` on, of which the block's warps have all of its k.  A warp that
     * later writes sums to the same buffer has met all warps that read these. */
    MEMBER void add_up(int first, int n, int buffer) const {
        int n_slices = shape.n_slices;
        const float *from = parts + buffer * (shape.tiles_per_sum * n_slices * SLICE_OUTPUTS);
        float *total = totals + buffer * (shape.tiles_per_sum * SLICE_OUTPUTS);
        __syncthreads();
        for (int i = threadIdx.x; i < n * SLICE_OUTPUTS; i += blockDim.x) {
            const float *own =
                from + i / SLICE_OUTPUTS * (n_slices * SLICE_OUTPUTS) + i % SLICE_OUTPUTS;
            float sum = 0;
#pragma unroll 4
            for (int s = 0; s < n_slices; s++)
                sum += own[s * SLICE_OUTPUTS];
            if (n_ranks == 1)
                store(first + i / SLICE_OUTPUTS, i % SLICE_OUTPUTS, sum);
            else
                total[i] = sum;
        }
        if (n_ranks == 1)
            return;
        cluster_sync();
        for (int i = (int)(rank * blockDim.x + threadIdx.x); i < n * SLICE_OUTPUTS;
             i += (int)(n_ranks * blockDim.x)) {
            float sum = 0;
            for (unsigned other = 0; other < n_ranks; other++)
                sum += *cluster_shared(total + i, other);
            store(first + i / SLICE_OUTPUTS, i % SLICE_OUTPUTS, sum);
        }
    }

    MEMBER void run() {
        Terms terms;
        uint8_t *stage = stages;
        int tile = group, buffer = 0;
        SliceSource<Format> source(shape, w, row_of(group), at);
        {
            typename Terms::Fours x;
            Terms::load(x, b + at * shape.n, shape.n, is_there ? n_cols : 0);
#pragma unroll
            for (int i = 0; i < N_STAGES; i++)
                fetch(source, stages + i * STAGE_BYTES, tile + i * shape.n_groups);
            terms.form(x, scratch);
        }
        for (int first = 0; first < n_tiles; first += shape.tiles_per_sum, buffer ^= 1) {
            int end = n_tiles - first < shape.tiles_per_sum ? n_tiles : first + shape.tiles_per_sum;
            float *part =
                parts + ((buffer * shape.tiles_per_sum + tile - first) * shape.n_slices + slice) *
                            SLICE_OUTPUTS;
            for (; tile < end; tile += shape.n_groups) {
                float sums[4] = {};
                wait_copies<N_STAGES - 1>();
                __syncwarp();
                multiply(sums, stage, terms);
                put_aside(part, sums, terms);
                __syncwarp();
                if (__any_sync(0xFFFFFFFF, terms.plain != 0)) {
                    add_plain(part, tile, terms.plain);
                    __syncwarp();
                }
                fetch(source, stage, tile + N_STAGES * shape.n_groups);
                static_assert(N_STAGES == 2, "by turns");
                stage = stage == stages ? stages + STAGE_BYTES : stages;
                part += shape.n_groups * shape.n_slices * SLICE_OUTPUTS;
            }
            add_up(first, end - first, buffer);
        }
        if (n_ranks > 1)
            cluster_sync(); /* no block ends before it was read */
    }
};

template <class Format, bool IS_PACKED>
DEVICE void run_slices(const gemv_slices &shape, const Weights &w, const float *b, float *c,
                       uint8_t *shared) {
    Slices<Format, IS_PACKED> work(shape, w, b, c, shared);
    wait_for_earlier();
    let_next_start();
    work.run();
}

#endif
