/*
 * Quantised weights times many columns by warpgroups (only sm_90a).
 *
 * The integers of a group are exact in binary16, and columns are two binary16 terms; the
 * lower one is multiplied by integers times 2^-11 (gemv_terms.cuh).  The products of a group are
 * summed separately, because the units truncate their sums, and join the sums in float after their
 * scales.
 *
 * Some warps bring weights and terms into stages of shared memory, chunk by chunk.  A kernel ahead
 * put the terms into scratch, or these warps make them there themselves.  Warpgroups multiply, each
 * with its rows of the tile; while the products of one are in progress, those of others join their
 * sums.  The blocks of a cluster share k, and add up their tiles at the end, in order.
 */
#ifndef CUSHIM_KERNELS_GEMV_WGMMA_CUH
#define CUSHIM_KERNELS_GEMV_WGMMA_CUH

#include "kernels/device/arch/bulk_copy.cuh"
#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/wgmma.cuh"
#include "kernels/gemv/wgmma/gemv_terms.cuh"

#ifdef CUSHIM_HAS_WGMMA

/* The parameters of a launch: c[m][n] = w[m][k] * b[k][n]. */
struct WgmmaShape {
    int64_t m, k, n;
    bool is_wide;   /* rows of the weights are copied by 16 bytes */
    bool is_wide_b; /* every row of b starts at a multiple of 16 bytes */
    bool is_wide_c; /* every row of c */
};

template <class Format, int N_COLS, bool HAS_TERMS> struct Wgmma {
    enum { COLS = N_COLS, ROWS = GEMV_WGMMA_ROWS, CHUNK = GEMV_WGMMA_CHUNK };
    enum { THREADS = GEMV_WGMMA_THREADS(HAS_TERMS) };
    enum { BLOCK_BYTES = ChunkLayout<Format, CHUNK>::BLOCK_BYTES };
    enum { STAGES = GEMV_WGMMA_STAGES(BLOCK_BYTES, COLS, HAS_TERMS) };
    /* The warps that bring weights and terms come first. */
    enum { MAKERS = HAS_TERMS ? 128 : 256, USERS = THREADS - MAKERS, M_TILES = ROWS / (USERS / 2) };
    enum { GROUPS = COLS / 32 };

    /* Terms and factors are those of units. */
    enum { GROUP = Format::GROUP };
    typedef TermUnit<GROUP> Unit;
    enum { UNITS = COLS / Unit::COLS, HAS_TOTALS = GROUP > 1 }; /* units side by side */
    static_assert(GROUP == 1 || GROUP == (int)CHUNK, "a chunk has a tile of sums");

    /* Of 65536; all warps are launched with the same number. */
    enum { REGISTERS_OF_MAKERS = HAS_TERMS ? 40 : 96 };
    enum { AT_FIRST = 65536 / THREADS / 8 * 8 };
    enum { REGISTERS = (AT_FIRST * THREADS - REGISTERS_OF_MAKERS * MAKERS) / USERS / 8 * 8 };

    enum { SCALES_APART = Format::SCALE_BYTES == 0 };

    enum { TILE_BYTES = COLS * 32, TERM_BYTES = (CHUNK * 4 + HAS_TOTALS) * TILE_BYTES };
    typedef StagedRows<Format, WgmmaShape, ROWS, CHUNK, MAKERS, true> Rows;
    enum { WEIGHT_BYTES = Rows::STAGE_BYTES };
    enum { SCALES_BYTES = SCALES_APART * ROWS * CHUNK * 2, FACTOR_BYTES = CHUNK * GROUPS * 8 };
    enum { WEIGHTS_AT = STAGES * TERM_BYTES, FACTORS_AT = WEIGHTS_AT + STAGES * WEIGHT_BYTES };
    enum {
        SCALES_AT = FACTORS_AT + STAGES * FACTOR_BYTES,
        GATES_AT = SCALES_AT + STAGES * SCALES_BYTES
    };
    static_assert(GATES_AT + STAGES * 8 <=
                      GEMV_WGMMA_BYTES(BLOCK_BYTES, !SCALES_APART, COLS, HAS_TERMS),
                  "launch");
    static_assert(ROWS * COLS * 4 <= GATES_AT, "the sums of a tile fit");

    const WgmmaShape &shape;
    Rows rows;
    const float *b;
    float *c;
    uint8_t *scratch, *shared;
    unsigned rank, n_ranks;
    int64_t tile_n, n_tiles_n; /* of columns: which one, and of how many */
    int64_t col0;

    /* ---- a stage: terms, weights, factors, scales ---- */

    /* For a block: tiles of its halves, each of high terms and of low ones. */
    MEMBER uint8_t *terms(int stage, int block) const {
        return shared + stage * TERM_BYTES + block * 4 * TILE_BYTES;
    }
    /* For each unit from a block on: the factor for its terms, and a bit for each odd column. */
    MEMBER uint2 *factors(int stage, int block) const {
        return reinterpret_cast<uint2 *>(shared + FACTORS_AT + stage * FACTOR_BYTES) +
               block / GROUP * UNITS;
    }
    MEMBER uint16_t *scales(int stage) const { /* [row][block] */
        return reinterpret_cast<uint16_t *>(shared + SCALES_AT + stage * SCALES_BYTES);
    }
    /* ---- meetings ---- */

    /* If terms are ahead, a gate says that a stage is made: the copies of each maker are there,
     * what their warps stored, and all bytes of terms.  A barrier says that all have used it.
     * Otherwise there are two stages, and all warps meet once per chunk: one stage is made, and the
     * other was used. */
    enum { FIRST_BARRIER = 1 }; /* 0 is that of __syncthreads() */
    MEMBER Gate *made(int stage) const {
        return reinterpret_cast<Gate *>(shared + GATES_AT) + stage;
    }
    MEMBER void make_gates() const {
        for (int stage = 0; HAS_TERMS && stage < STAGES; stage++)
            make_gate(made(stage), MAKERS + MAKERS / 32 + 1);
    }
    MEMBER static unsigned used(int stage) {
        return FIRST_BARRIER + stage;
    }
    MEMBER void tell_made(int stage) const {
        if constexpr (HAS_TERMS) {
            arrive_behind_copies(made(stage));
            __syncwarp();
            if (threadIdx.x % 32 == 0)
                arrive_at_gate(made(stage), 0);
        } else {
            meet_some<THREADS>(FIRST_BARRIER);
        }
    }
    MEMBER void wait_until_made(int stage, unsigned round) const {
        if constexpr (HAS_TERMS)
            wait_for_gate(made(stage), round);
        else
            meet_some<THREADS>(FIRST_BARRIER);
    }

    /* A chunk: its stage, how often all stages were used before, and how many chunks come behind
     * it. */
    struct Turn {
        int stage;
        unsigned round;
        int n_more;
    };
    MEMBER Turn first_turn() const {
        return {0, 0, end_chunk() - first_chunk() - 1};
    }
    MEMBER static Turn behind(Turn turn) {
        bool is_last = turn.stage + 1 == STAGES;
        return {is_last ? 0 : turn.stage + 1, turn.round + is_last, turn.n_more - 1};
    }

    /* The chunks of a block: all, or its part of k. */
    MEMBER int64_t n_chunks_of_all() const {
        return (rows.n_blocks + CHUNK - 1) / CHUNK;
    }
    MEMBER int first_chunk() const {
        return (int)(n_chunks_of_all() * rank / n_ranks);
    }
    MEMBER int end_chunk() const {
        return (int)(n_chunks_of_all() * (rank + 1) / n_ranks);
    }
    MEMBER int n_blocks_before(int chunk) const {
        int64_t n = (int64_t)chunk * CHUNK;
        return (int)(n < rows.n_blocks ? n : rows.n_blocks);
    }

    /* The column at a place, within each 32 columns of a tile. */
    MEMBER static int column_at(int place) {
        return place / 32 * 32 + place % 8 * 4 + place / 8 % 4;
    }

    /* ---- what the makers do ---- */

    /* Copy N pieces of 16 bytes of each row, from the first one on. */
    template <int N> MEMBER void copy_pieces(int stage, int64_t block0, int first) const {
        enum { ROWS_AT_ONCE = MAKERS / N };
        typedef typename Rows::Layout Layout;
        int row = threadIdx.x / N, piece = first + threadIdx.x % N;
        int64_t row_bytes = Layout::bytes_before(rows.n_blocks);
        uint8_t *to = rows.stage_at(stage) + Rows::place_of(row) + 16 * piece;
        static_assert(ROWS_AT_ONCE % 8 == 0, "a thread's rows have one skew");
        if (Layout::has_piece(piece, rows.skew_of(block0, row), rows.blocks_from(block0)))
            copy_rows<ROWS_AT_ONCE>(row, row_bytes,
                                    start_of_copy<Layout>(rows.w.values +
                                                          rows.row_of(row) * row_bytes +
                                                          Layout::bytes_before(block0)) +
                                        Layout::source(block0, 16 * piece),
                                    [&](int i, const uint8_t *from) {
                                        copy_async_16(to + Rows::place_of(i * ROWS_AT_ONCE), from);
                                    });
    }

    template <bool IS_WIDE> MEMBER void copy_weights(int stage, int64_t block0) const {
        enum { PIECES = Rows::PIECES, MOST = PIECES < 8 ? 4 : 8, MORE = PIECES - MOST };
        static_assert(MORE <= 3, "two and one more");
        if constexpr (IS_WIDE) {
            copy_pieces<MOST>(stage, block0, 0);
            if constexpr (MORE >= 2)
                copy_pieces<2>(stage, block0, MOST);
            if constexpr (MORE % 2)
                copy_pieces<1>(stage, block0, PIECES - 1);
        } else {
            rows.copy(stage, block0);
        }
    }

    /* Calls work(i, its address) for a thread's rows, of which `row` is the first, at `from`. */
    template <int ROWS_AT_ONCE, class Work>
    MEMBER void copy_rows(int row, int64_t row_bytes, const uint8_t *from, Work work) const {
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
                copy_rows<ROWS_AT_ONCE>(row, row_bytes,
                                        from + rows.row_of(row) * row_bytes + 2 * block,
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

    /* One thread asks for a chunk's terms and factors. */
    MEMBER void copy_terms(int stage, int64_t block0) const {
        int n = rows.blocks_from(block0);
        unsigned n_bytes = (unsigned)term_bytes_of<GROUP>(n, COLS);
        unsigned n_of_factors = GEMV_TERM_FACTORS(n, COLS) * 8;
        arrive_at_gate(made(stage), n_bytes + n_of_factors);
        copy_bulk_for(terms(stage, 0),
                      terms_of_tile<GROUP>(scratch, tile_n, rows.n_blocks, COLS) +
                          term_bytes_of<GROUP>(block0, COLS),
                      n_bytes, made(stage));
        copy_bulk_for(factors(stage, 0), all_factors() + block0 / GROUP * UNITS, n_of_factors,
                      made(stage));
    }
    MEMBER const uint2 *all_factors() const {
        return factors_of_tile<GROUP>(scratch, tile_n, n_tiles_n, rows.n_blocks, COLS);
    }

    /* IS_WIDE: weights, and columns that become terms, come by 16 bytes. */
    template <bool IS_WIDE> MEMBER void make() const {
        int chunk = first_chunk();
        int own = threadIdx.x / 32 / UNITS * GROUP, at = threadIdx.x / 32 % UNITS;
        Unit unit;
        auto fetch = [&] {
            if (!HAS_TERMS && own < CHUNK && (int64_t)chunk * CHUNK + own < rows.n_blocks)
                unit.template fetch<IS_WIDE>(b, (int64_t)chunk * CHUNK + own,
                                             col0 + at * Unit::COLS, shape.n);
        };
        fetch();
#pragma unroll 1
        for (Turn turn = first_turn(); turn.n_more >= 0; turn = behind(turn)) {
            int64_t block0 = (int64_t)chunk * CHUNK;
            if (HAS_TERMS && turn.round > 0)
                meet_some<THREADS>(used(turn.stage));
            copy_weights<IS_WIDE>(turn.stage, block0);
            if constexpr (SCALES_APART)
                copy_scales(turn.stage, block0);
            commit_copies();
            if constexpr (HAS_TERMS) {
                if (threadIdx.x == 0) {
                    if (turn.round == 0 && turn.stage == 0)
                        wait_for_earlier(); /* the kernel ahead does not write weights */
                    copy_terms(turn.stage, block0);
                }
            } else {
                if (own < CHUNK && block0 + own < rows.n_blocks) {
                    uint2 factor = unit.split(terms(turn.stage, own), at, TILE_BYTES);
                    if (threadIdx.x % 32 == 0)
                        factors(turn.stage, own)[at] = factor;
                }
                wait_copies<0>();
                fence_tiles();
            }
            chunk++;
            if (!HAS_TERMS && turn.n_more > 0)
                fetch();
            tell_made(turn.stage);
        }
        wait_copies<0>(); /* before the threads end */
    }

    /* ---- what the others do ---- */

    /* The first of 16 rows that a warp has of a tile. */
    MEMBER static int first_row(int tile) {
        int warp = threadIdx.x / 32 - MAKERS / 32;
        return (warp / 4 * M_TILES + tile) * 64 + warp % 4 * 16;
    }

    /*
     * Halves of blocks whose products begin together, and the sets of them that a lane holds: while
     * the products of one are in progress, the next one becomes integers.  With 64 columns there
     * are no registers for a second set.
     */
    enum { AT_ONCE = 2, SETS = 2 * GROUP / AT_ONCE };
    enum { HAS_ROOM = COLS <= 32, BUFFERS = 1 + HAS_ROOM };

    /* A lane's integers of a set and a tile, and these times 2^-11. */
    struct Integers {
        uint32_t of[AT_ONCE][4], low[AT_ONCE][4], rest[AT_ONCE][4];
    };

    /* The number in its group of half i of a set.  Blocks that share words come together. */
    MEMBER static constexpr int half_of(int set, int i) {
        int number = set * AT_ONCE + i;
        if constexpr (GROUP > 1) {
            enum { STEP = Format::SHARES_WITH };
            return (number / 4 * (3 - STEP) + number % 2 * STEP) * 2 + number / 2 % 2;
        }
        return number;
    }

    /* The place of the integers of a chunk's first block and the first tile in shared memory, and
     * which half of a super-block it is. */
    struct Place {
        int weights, scales, half;
    };
    typedef typename Staged<Format>::Place RowPlace;
    MEMBER Place place_of(const Place &of_lane, int stage, int chunk) const {
        int skew = rows.skew_of((int64_t)chunk * CHUNK, threadIdx.x % 32 / 4);
        return {of_lane.weights + stage * WEIGHT_BYTES + skew,
                of_lane.scales + stage * SCALES_BYTES, chunk % 2};
    }

    /* The lane's row of a tile, or the one 8 below, from a group on. */
    MEMBER RowPlace row_place(const Place &place, int tile, int block, int below) const {
        return Staged<Format>::staged(shared + place.weights +
                                          Rows::place_of(tile * 64 + below * 8) +
                                          block * Rows::Layout::BLOCK_BYTES,
                                      place.half);
    }

    MEMBER static void read_weights(Integers &a, const RowPlace (&rows)[2], int set) {
        const uint16_t to_low = 0x1000; /* 2^-11 */
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int half = half_of(set, i);
#pragma unroll
            for (int below = 0; below < 2; below++) {
                Fragment part = Staged<Format>::fragment(rows[below], half / 2, threadIdx.x % 4);
                a.of[i][below] = part.of[half % 2][0];
                a.of[i][below + 2] = part.of[half % 2][1];
                a.rest[i][below] = part.rest[half % 2][0];
                a.rest[i][below + 2] = part.rest[half % 2][1];
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                a.low[i][j] = fma_f16x2(a.of[i][j], to_low, 0);
        }
    }

    /* Begin the products of a set with the terms of its group, in `tiles`. */
    template <bool HAS_SUM>
    MEMBER void begin(float (&part)[COLS / 2], const Integers &a, uint64_t tiles, int set) const {
        auto tile = [&](int i) { return tile_behind(tiles, half_of(set, i) * (2 * TILE_BYTES)); };
        begin_products();
        multiply_tile<HAS_SUM>(part, a.low[0], tile_behind(tile(0), TILE_BYTES));
#pragma unroll
        for (int i = 1; i < AT_ONCE; i++)
            multiply_tile<true>(part, a.low[i], tile_behind(tile(i), TILE_BYTES));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            multiply_tile<true>(part, a.of[i], tile(i));
#pragma unroll
        for (int i = 0; Format::HAS_REST && i < AT_ONCE; i++)
            multiply_tile<true>(part, a.rest[i], tile(i));
        end_products();
    }

    /* Begin the products of minima with the sums of the group. */
    MEMBER void begin_minima(float (&part)[COLS / 2], const RowPlace (&rows)[2],
                             uint64_t tile) const {
        int t = threadIdx.x % 4;
        uint2 upper = Staged<Format>::minima(rows[0], t),
              lower = Staged<Format>::minima(rows[1], t);
        const uint32_t a[4] = {upper.x, lower.x, upper.y, lower.y};
        begin_products();
        multiply_tile_bf16<false>(part, a, tile);
        end_products();
    }

    /* Whether a product with a factor may be subnormal or not finite. */
    MEMBER static bool is_far_scale(float scale) {
        int exponent = __float_as_uint(scale) >> 23 & 255;
        return scale != 0 && (exponent < 127 - 40 || exponent > 127 + 40);
    }

    /* by: the factor for each 32 columns. */
    MEMBER void add(float (&sums)[COLS / 2], const float (&part)[COLS / 2], float upper,
                    float lower, const float (&by)[GROUPS]) const {
        bool is_far = Format::SCALE_BYTES == 4 &&
                      __any_sync(0xFFFFFFFF, is_far_scale(upper) || is_far_scale(lower));
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (is_far) {
#pragma unroll
                for (int i = 16 * group; i < 16 * group + 16; i++)
                    sums[i] = fmaf(i / 2 % 2 ? lower : upper, part[i] * by[group], sums[i]);
                continue;
            }
            float both[2] = {upper * by[group], lower * by[group]};
#pragma unroll
            for (int i = 16 * group; i < 16 * group + 16; i++)
                sums[i] = fmaf(both[i / 2 % 2], part[i], sums[i]);
        }
    }

    MEMBER void add_minima(float (&sums)[COLS / 2], const float (&part)[COLS / 2],
                           const RowPlace (&rows)[2], const float (&by)[GROUPS]) const {
        add(sums, part, -Staged<Format>::least(rows[0]), -Staged<Format>::least(rows[1]), by);
    }

    /* A group of a stage, from a block on. */
    MEMBER void multiply_group(float (&sums)[M_TILES][COLS / 2], const Place &place, int stage,
                               int block, uint64_t tiles, uint32_t &odd) const {
        float parts[1 + HAS_ROOM][COLS / 2], by[GROUPS];
        float(&part)[COLS / 2] = parts[0], (&minima)[COLS / 2] = parts[HAS_ROOM];
        Integers a[BUFFERS];
        auto read_factors = [&] {
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                int unit = GROUP > 1 ? group * GROUP + threadIdx.x % GROUP : group;
                uint2 of_unit = factors(stage, block)[unit];
                by[group] = __uint_as_float(of_unit.x);
                odd |= of_unit.y;
            }
        };
        if constexpr (GROUP == 1)
            read_factors();
        uint64_t of_block = tile_behind(tiles, stage * TERM_BYTES + block * (4 * TILE_BYTES));
#pragma unroll
        for (int tile = 0; tile < M_TILES; tile++) {
            const RowPlace rows[2] = {row_place(place, tile, block, 0),
                                      row_place(place, tile, block, 1)};
            const uint16_t *of_scales = reinterpret_cast<const uint16_t *>(shared + place.scales) +
                                        tile * 64 * CHUNK + block;
            if constexpr (Format::HAS_MINIMA)
                begin_minima(minima, rows, tile_behind(of_block, GROUP * 4 * TILE_BYTES));
            read_weights(a[0], rows, 0);
            if constexpr (Format::HAS_MINIMA && !HAS_ROOM) {
                read_factors();
                wait_products(minima);
                add_minima(sums[tile], minima, rows, by);
            }
            begin<false>(part, a[0], of_block, 0);
#pragma unroll
            for (int set = 1; set < SETS; set++) {
                if (BUFFERS == 1)
                    wait_products(part);
                else if (set > 1)
                    wait_products_before();
                read_weights(a[set % BUFFERS], rows, set);
                begin<true>(part, a[set % BUFFERS], of_block, set);
            }
            float upper = Staged<Format>::scale(rows[0], of_scales),
                  lower = Staged<Format>::scale(rows[1], of_scales + 8 * CHUNK);
            if constexpr (GROUP > 1) /* not before, for want of registers */
                read_factors();
            wait_products(part);
            if constexpr (Format::HAS_MINIMA && HAS_ROOM) {
                wait_products(minima);
                add_minima(sums[tile], minima, rows, by);
            }
            add(sums[tile], part, upper, lower, by);
        }
    }

    /* All blocks of a tile. */
    MEMBER void multiply(float (&sums)[M_TILES][COLS / 2]) const {
        uint64_t tiles = tile_descriptor<COLS>(terms(0, 0));
        int row = first_row(0) + threadIdx.x % 32 / 4, first = first_chunk(), end = end_chunk();
        const Place of_lane = {anew(WEIGHTS_AT + Rows::place_of(row)),
                               anew(SCALES_AT + row * CHUNK * 2), 0};
        Turn turn = first_turn();
        uint32_t odd = 0;
#pragma unroll 1
        for (int chunk = first; chunk < end; chunk++) {
            Place place = place_of(of_lane, turn.stage, chunk);
            int n = rows.blocks_from((int64_t)chunk * CHUNK);
            wait_until_made(turn.stage, turn.round);
            if (n == CHUNK) {
#pragma unroll
                for (int block = 0; block < CHUNK; block += GROUP)
                    multiply_group(sums, place, turn.stage, block, tiles, odd);
            } else { /* the last one of all */
#pragma unroll 1
                for (int block = 0; block < n; block += GROUP)
                    multiply_group(sums, place, turn.stage, block, tiles, odd);
            }
            if constexpr (HAS_TERMS) {
                if (turn.n_more >= STAGES)
                    arrive_at_some<THREADS>(used(turn.stage));
            } else {
                if (is_odd(odd))
                    add_odd(sums, factors(turn.stage, 0), (int64_t)chunk * CHUNK, n);
                odd = 0;
            }
            turn = behind(turn);
        }
        if (HAS_TERMS && is_odd(odd))
            add_odd(sums, all_factors() + (int64_t)first * (CHUNK / GROUP) * UNITS,
                    (int64_t)first * CHUNK, n_blocks_before(end) - first * CHUNK);
    }

    /* ---- odd columns ---- */

    /* Whether any lane has one; lanes have different units of groups. */
    MEMBER static bool is_odd(uint32_t odd) {
        return GROUP > 1 ? __any_sync(0xFFFFFFFF, odd != 0) : odd != 0;
    }

    /* Plain products of the column at a place of the tile with the warp's rows; a lane has a row
     * of one tile or two. */
    MEMBER void add_plain(float (&sums)[M_TILES][COLS / 2], int at_col, int64_t block) const {
        enum { TILES_AT_ONCE = M_TILES < 2 ? 1 : 2 };
        static_assert(M_TILES <= 2, "a lane a row");
        int lane = threadIdx.x % 32, row = first_row(lane / 16 % TILES_AT_ONCE) + lane % 16;
        int64_t col = col0 + column_at(at_col), of_row = rows.row_of(row) * rows.n_blocks + block;
        const float *x = b + block * BLOCK_VALUES * shape.n + (col < shape.n ? col : shape.n - 1);
        float part = 0;
#pragma unroll 4
        for (int i = 0; i < BLOCK_VALUES; i++)
            part = fmaf(Staged<Format>::weight(rows.w, of_row, i), __ldg(x + i * shape.n), part);
#pragma unroll
        for (int from = 0; from < TILES_AT_ONCE * 16; from += 8) {
            float value = __shfl_sync(0xFFFFFFFF, part, from + lane / 4);
#pragma unroll
            for (int i = 0; i < COLS / 4; i++) {
                if (8 * (i / 2) + lane % 4 * 2 + i % 2 == at_col)
                    sums[from / 16][i / 2 * 4 + from / 8 % 2 * 2 + i % 2] += value;
            }
        }
    }

    /* For blocks from block0 on, whose factors these are. */
    MEMBER void add_odd(float (&sums)[M_TILES][COLS / 2], const uint2 *of, int64_t block0,
                        int n) const {
        int lane = threadIdx.x % 32;
        int n_units = n / GROUP * UNITS;
#pragma unroll 1
        for (int first = 0; first < n_units; first += 32) {
            uint32_t bits = first + lane < n_units ? of[first + lane].y : 0;
            uint32_t units = __ballot_sync(0xFFFFFFFF, bits != 0);
#pragma unroll 1
            for (; units; units &= units - 1) {
                int from = __ffs(units) - 1, at = first + from;
                int64_t block = block0 + at / UNITS * GROUP;
                uint32_t cols = __shfl_sync(0xFFFFFFFF, bits, from);
#pragma unroll 1
                for (; cols; cols &= cols - 1) {
                    int place = Unit::place_of_bit(at % UNITS, __ffs(cols) - 1);
#pragma unroll 1
                    for (int i = 0; i < GROUP; i++)
                        add_plain(sums, place, block + i);
                }
            }
        }
    }

    /* ---- results ---- */

    MEMBER void store_four(int64_t row, int64_t col, float4 four) const {
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

    /* Calls work(row, column, four of a row) for all of a lane's sums. */
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

    MEMBER void store(const float (&sums)[M_TILES][COLS / 2]) const {
        each_four(sums, [&](int row, int col, float4 four) {
            if (rows.row0 + row < shape.m)
                store_four(rows.row0 + row, col0 + col, four);
        });
    }

    MEMBER void stage_sums(const float (&sums)[M_TILES][COLS / 2]) const {
        each_four(sums, [&](int row, int col, float4 four) {
            *reinterpret_cast<float4 *>(shared + (row * COLS + col) * 4) = four;
        });
    }

    /* Each block of the cluster adds up some rows of the tile. */
    MEMBER void add_staged() const {
        float *tile = reinterpret_cast<float *>(shared);
        int n = ROWS * COLS, first = n * (int)rank / (int)n_ranks;
        int end = n * (int)(rank + 1) / (int)n_ranks;
#pragma unroll 2
        for (int i = first + threadIdx.x; i < end; i += THREADS) {
            float total = *cluster_shared(tile + i, 0);
            for (unsigned other = 1; other < n_ranks; other++)
                total += *cluster_shared(tile + i, other);
            int64_t row = rows.row0 + i / COLS, col = col0 + i % COLS;
            if (row < shape.m && col < shape.n)
                c[row * shape.n + col] = total;
        }
    }
};

/*
 * One cluster per tile; tiles side by side come first, so that their weights are read from memory
 * once.
 */
template <class Work>
DEVICE void run_wgmma(const WgmmaShape &shape, const Weights &w, const float *b, float *c,
                      uint8_t *scratch, uint8_t *shared) {
    unsigned n_ranks = cluster_size(), rank = cluster_rank();
    int64_t tile = blockIdx.x / n_ranks, tiles_n = (shape.n - 1) / Work::COLS + 1;
    int64_t row0 = tile / tiles_n * Work::ROWS, tile_n = tile % tiles_n;
    typename Work::Rows rows = {shape, w, shared + Work::WEIGHTS_AT, row0, shape.k / BLOCK_VALUES};
    Work work = {
        shape, rows, b, c, scratch, shared, rank, n_ranks, tile_n, tiles_n, tile_n * Work::COLS};
    if (threadIdx.x == 0)
        work.make_gates();
    __syncthreads();
    if (__shfl_sync(0xFFFFFFFF, threadIdx.x / Work::MAKERS, 0) == 0) {
        keep_registers<Work::REGISTERS_OF_MAKERS>();
        if (shape.is_wide && (shape.is_wide_b || scratch))
            work.template make<true>();
        else
            work.template make<false>();
    } else {
        take_registers<Work::REGISTERS>();
        float sums[Work::M_TILES][Work::COLS / 2] = {};
        work.multiply(sums);
        if (n_ranks == 1) {
            work.store(sums);
        } else {
            meet_some<Work::USERS>(15); /* all have used the last chunk */
            work.stage_sums(sums);
        }
    }
    if (n_ranks == 1)
        return;
    cluster_sync();
    work.add_staged();
    cluster_sync(); /* no block ends before it was read */
}

#endif
#endif
