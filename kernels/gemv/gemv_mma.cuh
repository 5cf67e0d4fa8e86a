/*
 * Quantised weights times columns on the matrix units (sm_80 and later).
 *
 * The integers of a group, a block of 32 or four of a super-block, are exact in binary16.  A
 * column's values of the group are scaled by a power of two so that the largest is in [2^14, 2^15),
 * and become two binary16 terms, the lower one scaled by 2^11: 22 bits of each value.  The products
 * of a group are summed separately, because the units truncate their sums, and join the sums in
 * float after their scales.  If a column's values of a group are not finite or more than 2^26
 * apart, plain fp32 products take them, with the columns of its tile.
 *
 * Eight warps have a tile of the output.  Chunks of the weights come by asynchronous copies, values
 * of the columns through registers, both a chunk ahead.  The blocks of a cluster share k, and add
 * up their tiles at the end, in order.
 */
#ifndef CUSHIM_KERNELS_GEMV_MMA_CUH
#define CUSHIM_KERNELS_GEMV_MMA_CUH

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/arch/mma.cuh"
#include "kernels/gemv/gemv_groups.cuh"

enum { MMA_THREADS = 256 };

/* The parameters of a launch: c[m][n] = w[m][k] * b[k][n]. */
struct MmaShape {
    int64_t m, k, n;
    bool is_wide; /* rows of the weights are copied by 16 bytes */
};

/* A warp has M_TILES x N_TILES tiles of 16 x 8, and WARPS_N warps lie side by side. */
template <class Format, int M_TILES, int N_TILES, int WARPS_N, int CHUNK> struct Mma {
    enum { ROWS = 16 * M_TILES * (MMA_THREADS / 32 / WARPS_N), COLS = 8 * N_TILES * WARPS_N };
    /* Threads that share a column's block of 32 values: each has a quarter, a half or all. */
    enum { SHARE = MMA_THREADS / (COLS * CHUNK), LANES = 4 / SHARE, VALUES = BLOCK_VALUES / SHARE };
    static_assert(COLS * CHUNK * SHARE == MMA_THREADS && SHARE * LANES == 4, "all threads");

    /* Separate scales, per thread. */
    enum { SCALES_APART = Format::SCALE_BYTES == 0, N_SCALES = ROWS * CHUNK / MMA_THREADS };

    /* The weights have two stages, what goes through registers has one. */
    typedef StagedRows<Format, MmaShape, ROWS, CHUNK, MMA_THREADS, COLS != 8> Rows;
    enum { STAGE_BYTES = Rows::STAGE_BYTES, TERM_BYTES = CHUNK * COLS * BLOCK_VALUES * 2 };
    enum { GROUP = Format::GROUP, FACTOR_BYTES = CHUNK * COLS * 4 };
    enum { SCALES_BYTES = SCALES_APART ? ROWS * CHUNK * 2 : 0 };
    enum { SUMS_BYTES = Format::HAS_MINIMA ? CHUNK * COLS * 8 : 0 };
    enum {
        SHARED_BYTES = 2 * STAGE_BYTES + 2 * TERM_BYTES + FACTOR_BYTES + SCALES_BYTES + SUMS_BYTES
    };
    static_assert(SHARED_BYTES <=
                      GEMV_MMA_BYTES(ROWS, Rows::Layout::BLOCK_BYTES, !SCALES_APART, CHUNK, COLS),
                  "launch");
    static_assert(ROWS * COLS * 4 <= SHARED_BYTES, "the sums of a tile fit");

    /* groups whose products are in progress */
    enum { UNROLL = COLS > 8 || GROUP > 1 ? 1 : 4 / M_TILES };

    const MmaShape &shape;
    Rows rows;
    const float *b;
    uint8_t *shared;
    uint4 *high, *low; /* terms: [block][column][4], a lane's 16 bytes at t ^ (column / 2 % 4) */
    float *factors;    /* [group][column]; negative if terms cannot represent it */
    uint16_t *scales;  /* [row][block] */
    uint8_t *totals;   /* [group][column], slots of the column's sums */
    int64_t col0;
    float sums[M_TILES][N_TILES][4] = {};

    MEMBER Mma(const MmaShape &shape, const Weights &w, const float *b, uint8_t *shared,
               int64_t row0, int64_t col0)
        : shape(shape), rows{shape, w, shared, row0, shape.k / BLOCK_VALUES}, b(b), shared(shared),
          high(reinterpret_cast<uint4 *>(shared + 2 * STAGE_BYTES)), low(high + TERM_BYTES / 16),
          factors(reinterpret_cast<float *>(shared + 2 * STAGE_BYTES + 2 * TERM_BYTES)),
          scales(reinterpret_cast<uint16_t *>(factors + CHUNK * COLS)),
          totals(reinterpret_cast<uint8_t *>(scales) + SCALES_BYTES), col0(col0) {
    }

    /* The part of a chunk that goes through registers: of a column's block, and scales. */
    struct Fetched {
        float x[VALUES]; /* [lane of a product][half of the block][4] */
        uint16_t scales[N_SCALES];
    };

    MEMBER void fetch(Fetched &fetched, int64_t block0) const {
        fetch_column(fetched.x, block0);
        if (SCALES_APART) {
            int64_t block = block0 + threadIdx.x % CHUNK;
            const uint16_t *from = reinterpret_cast<const uint16_t *>(rows.w.scales) +
                                   rows.row0 * rows.n_blocks + block;
            int last = rows.last_row();
#pragma unroll
            for (int i = 0; i < N_SCALES; i++) {
                int row = (i * MMA_THREADS + threadIdx.x) / CHUNK;
                if (block < rows.n_blocks)
                    fetched.scales[i] =
                        __ldg(from + (unsigned)(row < last ? row : last) * rows.n_blocks);
            }
        }
    }

    /* Store them; whether terms cannot represent a block. */
    MEMBER bool store_fetched(const Fetched &fetched) const {
        bool is_plain = store_terms(fetched.x);
        if (SCALES_APART) {
#pragma unroll
            for (int i = 0; i < N_SCALES; i++)
                scales[i * MMA_THREADS + threadIdx.x] = fetched.scales[i];
        }
        return is_plain;
    }

    /* The thread's part of a chunk: of a block of a column the values of some lanes of a
     * product. */
    struct Part {
        int lane, col, block;
    };
    MEMBER static Part part() {
        int of_block = threadIdx.x / SHARE;
        return {(int)threadIdx.x % SHARE * LANES, of_block / GROUP % COLS,
                of_block / GROUP / COLS * GROUP + of_block % GROUP};
    }

    /* Its values, or zeros. */
    MEMBER void fetch_column(float (&x)[VALUES], int64_t block0) const {
        Part own = part();
        bool has_one = block0 + own.block < rows.n_blocks && col0 + own.col < shape.n;
        const float *from =
            b + ((block0 + own.block) * BLOCK_VALUES + 4 * own.lane) * shape.n + col0 + own.col;
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < 4 * LANES; i++) {
                x[i / 4 * 8 + half * 4 + i % 4] = has_one ? __ldg(from) : 0;
                from += shape.n; /* a product for each of them is twice the instructions */
            }
            from += (BLOCK_VALUES / 2 - 4 * LANES) * shape.n;
        }
    }

    /* The power of two by which the values of a group are multiplied; 0 if terms cannot represent
     * them. */
    MEMBER static float scale_of(const float (&x)[VALUES]) {
        uint32_t most = 0, least = 0x7FFFFFFF; /* magnitudes, of those that are not 0 */
#pragma unroll
        for (int i = 0; i < VALUES; i++) {
            uint32_t bits = __float_as_uint(x[i]) & 0x7FFFFFFF;
            most = max(most, bits);
            least = min(least, bits ? bits : least);
        }
#pragma unroll
        for (int flips = 1; flips < SHARE * GROUP; flips *= 2) {
            most = max(most, __shfl_xor_sync(0xFFFFFFFF, most, flips));
            least = min(least, __shfl_xor_sync(0xFFFFFFFF, least, flips));
        }
        int exponent = most >> 23, least_exponent = least >> 23;
        if (exponent == 255)
            return 0;
        if (exponent <= 15)
            return 0x1p126f; /* subnormal values are exact then too */
        if (most && (exponent - least_exponent > 26 || least_exponent == 0))
            return 0;
        return __uint_as_float((uint32_t)(127 + 141 - exponent) << 23);
    }

    /* The slots of a lane t in the order of a product: two halves of the block, two words each. */
    MEMBER bool store_terms(const float (&x)[VALUES]) const {
        Part own = part();
        float scale = scale_of(x);
        /* 1 / scale, because the exponents of the two add up to 254. */
        factors[own.block / GROUP * COLS + own.col] =
            scale == 0 ? -1 : __uint_as_float(0x7F000000 - __float_as_uint(scale));
        if constexpr (Format::HAS_MINIMA)
            store_total(x, own, scale);
#pragma unroll
        for (int i = 0; i < LANES; i++) {
            int t = own.lane + i;
            uint32_t of_high[4], of_low[4];
#pragma unroll
            for (int word = 0; word < 4; word++) {
                int at = 8 * i + 4 * (word / 2) + word % 2;
                float x0 = x[at] * scale, x1 = x[at + 2] * scale;
                of_high[word] = f16x2_of_f32x2(x0, x1);
                float2 rest = f32x2_of_f16x2(of_high[word]);
                of_low[word] = f16x2_of_f32x2((x0 - rest.x) * 2048, (x1 - rest.y) * 2048);
            }
            int place = (own.block * COLS + own.col) * 4 + (t ^ (own.col / 2 % 4));
            high[place] = make_uint4(of_high[0], of_high[1], of_high[2], of_high[3]);
            low[place] = make_uint4(of_low[0], of_low[1], of_low[2], of_low[3]);
        }
        return scale == 0;
    }

    /* The sum of the block of which threads side by side have these, scaled too. */
    MEMBER void store_total(const float (&x)[VALUES], const Part &own, float scale) const {
        float total = 0;
#pragma unroll
        for (int i = 0; i < VALUES; i++)
            total = fmaf(x[i], scale, total);
#pragma unroll
        for (int flips = 1; flips < SHARE; flips *= 2)
            total += __shfl_xor_sync(0xFFFFFFFF, total, flips);
        if (own.lane == 0)
            reinterpret_cast<uint2 *>(
                totals)[(own.block / GROUP * COLS + own.col) * GROUP + own.block % GROUP] =
                slots_of_sum(total);
    }

    /* Plain products of one block; the tile's columns come straight from b. */
    MEMBER void add_plain(float (&sum)[4], int row, int64_t col, int64_t block) const {
        int64_t last = shape.n - 1, left = col < last ? col : last,
                right = col + 1 < last ? col + 1 : last;
        float part[4] = {};
#pragma unroll 1
        for (int i = 0; i < BLOCK_VALUES; i++) {
            float w0 = Staged<Format>::weight(rows.w, rows.row_of(row) * rows.n_blocks + block, i);
            float w1 =
                Staged<Format>::weight(rows.w, rows.row_of(row + 8) * rows.n_blocks + block, i);
            float x0 = __ldg(b + (block * BLOCK_VALUES + i) * shape.n + left);
            float x1 = __ldg(b + (block * BLOCK_VALUES + i) * shape.n + right);
            part[0] = fmaf(w0, x0, part[0]);
            part[1] = fmaf(w0, x1, part[1]);
            part[2] = fmaf(w1, x0, part[2]);
            part[3] = fmaf(w1, x1, part[3]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] += part[i];
    }

    typedef typename Staged<Format>::Place Place;

    /* HAS_PLAIN: terms cannot represent some groups of the chunk. */
    template <bool HAS_PLAIN>
    MEMBER void multiply_group(int stage, int skew, int group, int64_t block0) {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        int first_row = warp / WARPS_N * (16 * M_TILES) + g;
        int first_col = warp % WARPS_N * (8 * N_TILES);
        Place places[M_TILES][2];
        float scale[M_TILES][2];
#pragma unroll
        for (int i = 0; i < M_TILES * 2; i++) {
            int row = first_row + 8 * i;
            places[i / 2][i % 2] = rows.place_in(stage, skew, row, group, block0);
            scale[i / 2][i % 2] =
                Staged<Format>::scale(places[i / 2][i % 2], scales + row * CHUNK + group);
        }
        float upper[M_TILES][N_TILES][4] = {}, lower[M_TILES][N_TILES][4] = {};
#pragma unroll
        for (int of_group = 0; of_group < GROUP; of_group++) {
            uint32_t a[M_TILES][2][4], rest[M_TILES][2][4];
#pragma unroll
            for (int i = 0; i < M_TILES * 2; i++) {
                Fragment part = Staged<Format>::fragment(places[i / 2][i % 2], of_group, t);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    a[i / 2][half][i % 2] = part.of[half][0];
                    a[i / 2][half][i % 2 + 2] = part.of[half][1];
                    rest[i / 2][half][i % 2] = part.rest[half][0];
                    rest[i / 2][half][i % 2 + 2] = part.rest[half][1];
                }
            }
#pragma unroll
            for (int j = 0; j < N_TILES; j++) {
                int col = first_col + 8 * j + g;
                int place = ((group * GROUP + of_group) * COLS + col) * 4 + (t ^ (col / 2 % 4));
                uint4 of_high = high[place], of_low = low[place];
                const uint32_t highs[2][2] = {{of_high.x, of_high.y}, {of_high.z, of_high.w}};
                const uint32_t lows[2][2] = {{of_low.x, of_low.y}, {of_low.z, of_low.w}};
#pragma unroll
                for (int i = 0; i < M_TILES; i++) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        mma_f16(upper[i][j], a[i][half], highs[half]);
                        mma_f16(lower[i][j], a[i][half], lows[half]);
                        if (Format::HAS_REST)
                            mma_f16(upper[i][j], rest[i][half], highs[half]);
                    }
                }
            }
        }
#pragma unroll
        for (int j = 0; j < N_TILES; j++) {
            int col = first_col + 8 * j;
            float2 factor = *reinterpret_cast<const float2 *>(factors + group * COLS + col + 2 * t);
            if (HAS_PLAIN && __any_sync(0xFFFFFFFF, factor.x < 0 || factor.y < 0)) {
                for (int of_group = 0; of_group < GROUP; of_group++) {
#pragma unroll
                    for (int i = 0; i < M_TILES; i++)
                        add_plain(sums[i][j], first_row + 16 * i, col0 + col + 2 * t,
                                  block0 + group * GROUP + of_group);
                }
                continue;
            }
#pragma unroll
            for (int i = 0; i < M_TILES; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float product = fmaf(lower[i][j][e], 0x1p-11f, upper[i][j][e]);
                    product *= e % 2 ? factor.y : factor.x;
                    sums[i][j][e] = fmaf(scale[i][e / 2], product, sums[i][j][e]);
                }
                if constexpr (Format::HAS_MINIMA)
                    add_minima(sums[i][j], places[i], group * COLS + col + g, factor);
            }
        }
    }

    MEMBER void add_minima(float (&sum)[4], const Place (&places)[2], int at, float2 factor) const {
        int t = threadIdx.x % 4;
        const uint32_t *total = reinterpret_cast<const uint32_t *>(totals) + at * 8 + t;
        uint2 up = Staged<Format>::minima(places[0], t),
              down = Staged<Format>::minima(places[1], t);
        float part[4] = {};
        const uint32_t a[4] = {up.x, down.x, up.y, down.y}, of_total[2] = {total[0], total[4]};
        mma_bf16(part, a, of_total);
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e] = fmaf(-Staged<Format>::least(places[e / 2]),
                          part[e] * (e % 2 ? factor.y : factor.x), sum[e]);
    }

    /* Chunks [first, end) of k. */
    MEMBER void run(int64_t first, int64_t end) {
        Fetched fetched;
        if (first < end) {
            rows.copy(0, first * CHUNK);
            commit_copies();
            fetch(fetched, first * CHUNK);
        }
        for (int64_t chunk = first; chunk < end; chunk++) {
            int stage = (int)((chunk - first) % 2);
            int64_t block0 = chunk * CHUNK;
            __syncthreads(); /* the terms of the chunk before were used */
            bool is_plain = store_fetched(fetched);
            wait_copies<0>();
            bool has_plain = __syncthreads_or(is_plain);
            if (chunk + 1 < end) {
                rows.copy(stage ^ 1, block0 + CHUNK);
                commit_copies();
                fetch(fetched, block0 + CHUNK);
            }
            int skew = rows.skew_of(block0, threadIdx.x % 32 / 4);
            int n = rows.blocks_from(block0) / GROUP;
            if (has_plain) {
#pragma unroll 1
                for (int group = 0; group < n; group++)
                    multiply_group<true>(stage, skew, group, block0);
            } else {
#pragma unroll UNROLL
                for (int group = 0; group < n; group++)
                    multiply_group<false>(stage, skew, group, block0);
            }
        }
    }

    MEMBER void store(float *c) const {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int64_t row = rows.row0 + warp / WARPS_N * (16 * M_TILES) + lane / 4;
        int64_t col = col0 + warp % WARPS_N * (8 * N_TILES) + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < M_TILES; i++) {
#pragma unroll
            for (int j = 0; j < N_TILES; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int64_t at_row = row + 16 * i + e / 2 * 8, at_col = col + 8 * j + e % 2;
                    if (at_row < shape.m && at_col < shape.n)
                        c[at_row * shape.n + at_col] = sums[i][j][e];
                }
            }
        }
    }

    /* Each block of the cluster adds up some rows of the tile. */
    MEMBER void store_shared(float *c, unsigned rank, unsigned n_ranks) const {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int row = warp / WARPS_N * (16 * M_TILES) + lane / 4;
        int col = warp % WARPS_N * (8 * N_TILES) + lane % 4 * 2;
        float *tile = reinterpret_cast<float *>(shared);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < M_TILES; i++) {
#pragma unroll
            for (int j = 0; j < N_TILES; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    tile[(row + 16 * i + e / 2 * 8) * COLS + col + 8 * j + e % 2] = sums[i][j][e];
            }
        }
        cluster_sync();
        enum { MOST = ROWS * COLS / 2 / MMA_THREADS }; /* per thread; two blocks or more */
        int n = ROWS * COLS / (int)n_ranks, first = (int)rank * n;
        float totals[MOST] = {};
        for (unsigned other = 0; other < n_ranks; other++) {
            const float *from = cluster_shared(tile + first, other);
#pragma unroll
            for (int j = 0; j < MOST; j++) {
                int i = j * MMA_THREADS + threadIdx.x;
                if (i < n)
                    totals[j] = other ? totals[j] + from[i] : from[i];
            }
        }
        cluster_arrive(); /* no block ends before it was read, but none need wait for the stores */
#pragma unroll
        for (int j = 0; j < MOST; j++) {
            int i = j * MMA_THREADS + threadIdx.x;
            int64_t at_row = rows.row0 + (first + i) / COLS, at_col = col0 + (first + i) % COLS;
            if (i < n && at_row < shape.m && at_col < shape.n)
                c[at_row * shape.n + at_col] = totals[j];
        }
        cluster_wait();
    }
};

/*
 * One cluster per tile; tiles side by side come first, so that their weights are read from memory
 * once.
 */
template <class Work>
DEVICE void run_mma(const MmaShape &shape, const Weights &w, const float *b, float *c,
                    uint8_t *shared, int64_t chunk) {
    wait_for_earlier();
    let_next_start();
    unsigned n_ranks = cluster_size(), rank = cluster_rank();
    int64_t tile = blockIdx.x / n_ranks, tiles_n = (shape.n - 1) / Work::COLS + 1;
    int64_t n_chunks = (shape.k / BLOCK_VALUES + chunk - 1) / chunk;
    Work work(shape, w, b, shared, tile / tiles_n * Work::ROWS, tile % tiles_n * Work::COLS);
    work.run(n_chunks * rank / n_ranks, n_chunks * (rank + 1) / n_ranks);
    if (n_ranks == 1)
        work.store(c);
    else
        work.store_shared(c, rank, n_ranks);
}

#endif
