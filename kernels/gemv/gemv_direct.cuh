/*
 * Quantised weights times one or two columns on the matrix units (sm_90): the integers as they are,
 * the columns as integers, the sums of a block exact.
 *
 * A column's 32 values are scaled by a power of two and become integers of 45 bits, six digits of a
 * signed byte each; every value down to 2^-22 of the largest is exact or nearly so.  For q4k it is
 * 256 values, 52 bits in seven digits, and 22 bits of every value down to 2^-30 of the largest.  If
 * a value is smaller or not finite, plain fp32 products take the block, or all 256.
 *
 * A warp has 16 rows and steps of 256 values.  For q4_0, lane 4 g + t has the whole blocks 2t and
 * 2t + 1 of rows g and g + 8, and gives their words to the units as they come: in the slots of lane
 * t, every product has values of only its block.  So the other side is zeros except in the slots of
 * one block of four.  Columns 2t and 2t + 1 are two digits of block t, three products make six, and
 * the results are separate for each block, in the lanes that have its scale.  For q4k, whose scales
 * are integers except one per 256 values, lanes share the words of a block, a product has one
 * block, and its columns are the digits.  Of two columns of x, each has products of its own with
 * weights that are unpacked once, and all formats do as q4k, because these are fewer products.
 *
 * A block stays for many rows and forms the digits once.  Its warps share k and go from one tile to
 * the next as if their steps were one row.  In its first tile a warp forms the digits of each step
 * just before it multiplies by them.  If its steps of the other tiles are the same ones, warps meet
 * only at the end, to add up what they have of the block's tiles; otherwise once more behind the
 * first tile.  While the kernel ahead still runs, the block asks for its first weights, which then
 * come from L2.  If that kernel writes none of what does not depend on x (IS_EARLY), it loads a
 * warp's first step and all of that.
 */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_CUH
#define CUSHIM_KERNELS_GEMV_DIRECT_CUH

#include <float.h>

#include "kernels/device/arch/barrier.cuh"
#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/math/maximum.cuh"
#include "kernels/gemv/gemv_direct_formats.cuh"
#include "kernels/gemv/gemv_ends.cuh"

/* ---- the column ---- */

/*
 * All of k in shared memory: [step][column][half] digits, with 16 bytes of each set of two for the
 * lanes of their block, then [step][column][block] factors, which undo the scaling, and sums.  A
 * negative factor (-0) says that plain products take the block.  A normed column is multiplied by
 * its weights here, and by 1 / the root of its mean square at the end.  A warp forms step by step.
 */
template <class Work, bool HAS_NORM, int COLS> struct DirectColumn {
    enum {
        PART_VALUES = BLOCK_VALUES / 4,
        BETWEEN = Work::IS_HALVED ? 16 : 4 /* from a part's first half to its second */
    };

    uint8_t *digits;
    float2 *factors;
    const float *b, *norm; /* its weights, or NULL */
    int64_t k;
    int block, part; /* of a step */
    float x[COLS][PART_VALUES], weights[1][HAS_NORM ? PART_VALUES : 1], squares;

    MEMBER DirectColumn(uint8_t *digits, float2 *factors, const float *b, const float *norm,
                        int64_t k)
        : digits(digits), factors(factors), b(b), norm(norm), k(k), block(threadIdx.x % 32 / 4),
          part(threadIdx.x % 4), squares(0) {
    }

    /* The lane's part: eight neighbours, or two fours 16 apart; `otherwise` if it does not exist.
     */
    template <int N>
    MEMBER void load_part(float (&to)[N][PART_VALUES], const float *from, int step,
                          float otherwise) const {
        int value = (step * DIRECT_STEP_BLOCKS + block) * BLOCK_VALUES +
                    part * (Work::IS_HALVED ? 4 : (int)PART_VALUES);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            auto put = [&](int i, float one) { to[i % N][4 * half + i / N] = one; };
#pragma unroll
            for (int i = 0; i < 4 * N; i += 4) { /* values of all columns */
                float4 four = make_float4(otherwise, otherwise, otherwise, otherwise);
                if (from && value < k)
                    four = __ldg(reinterpret_cast<const float4 *>(from + value * N +
                                                                  (half * BETWEEN * N + i)));
                put(i, four.x), put(i + 1, four.y), put(i + 2, four.z), put(i + 3, four.w);
            }
        }
    }

    MEMBER void load(int step) {
        load_part(x, b, step, 0);
    }
    MEMBER void load_weights(int step) {
        if constexpr (HAS_NORM)
            load_part(weights, norm, step, 1);
    }

    MEMBER void apply_weights() {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < PART_VALUES; j++) {
            sum = fmaf(x[0][j], x[0][j], sum);
            x[0][j] *= weights[0][HAS_NORM ? j : 0];
        }
        squares += sum;
    }

    /* Form the step that was loaded. */
    MEMBER void form(int step) {
        if (HAS_NORM)
            apply_weights();
#pragma unroll 1
        for (int col = 0; col < COLS; col++) { /* each by the same code */
            form(step * COLS + col, x[0]);
#pragma unroll
            for (int i = 0; i < (COLS - 1) * PART_VALUES; i++)
                x[i / PART_VALUES][i % PART_VALUES] = x[i / PART_VALUES + 1][i % PART_VALUES];
        }
    }

    /* The place is a step of a column. */
    MEMBER void form(int place, const float (&x)[PART_VALUES]) {
        uint32_t most = 0, least = 0; /* of those that are not 0, below 2^32 */
#pragma unroll
        for (int j = 0; j < PART_VALUES; j++) {
            uint32_t bits = __float_as_uint(x[j]) & 0x7FFFFFFF;
            most = max(most, bits);
            least = max(least, 0 - bits);
        }
        float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
        if (Work::SCALE_LANES == 32) {
            most = max_of_warp(most);
            least = max_of_warp(least);
        }
#pragma unroll
        for (int flips = 2; flips; flips /= 2) {
            if (Work::SCALE_LANES == 4) {
                most = max(most, __shfl_xor_sync(0xFFFFFFFF, most, flips));
                least = max(least, __shfl_xor_sync(0xFFFFFFFF, least, flips));
            }
            if (Work::HAS_MINIMA)
                sum += __shfl_xor_sync(0xFFFFFFFF, sum, flips);
        }
        DirectScale scale(most, 0 - least, Work::SPREAD);
        bool is_plain = scale.is_plain;
        if (Work::HAS_MINIMA)
            is_plain = __any_sync(0xFFFFFFFF, is_plain || !(fabsf(sum) <= FLT_MAX));
        Work::store(digits + place * Work::STEP_BYTES, block, part, x, scale.value);
        if (part == 0) {
            float factor = __uint_as_float(scale.factor_bits - (Work::LOG2_INTEGERS << 23));
            factors[place * DIRECT_STEP_BLOCKS + block] =
                make_float2(is_plain ? -0.0f : factor, is_plain ? 0 : sum);
        }
    }
};

/* ---- the rows ---- */

/* Plain products of a block, which is read again; norm: the column's weights, or NULL. */
template <class Work, int COLS>
DEVICE float plain_block(const Weights &w, int64_t block, const float *b, const float *norm) {
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < BLOCK_VALUES; i++) {
        float x = __ldg(b + i * COLS);
        sum = fmaf(Work::value(w, block, i), norm ? x * __ldg(norm + i) : x, sum);
    }
    return sum;
}

template <class Format, int COLS, int DEPTH, bool IS_EARLY, class End> struct DirectRun {
    typedef Direct<Format> Work;
    typedef typename Work::template Lane<COLS> Lane;
    typedef typename Work::template Products<COLS> Products;

    enum {
        IS_PAIRED = End::IS_PAIRED,
        PAIRS = DIRECT_ROWS / 2,
        N = DIRECT_ROWS / (1 + IS_PAIRED), /* of a tile: rows, or pairs */
        OUTPUTS = N * COLS,
        SUMS = DIRECT_ROWS * COLS /* [row][column] */
    };
    static_assert(COLS == 1 || !(End::HAS_NORM || IS_PAIRED), "ends that have one column");

    /* The places of steps in flight that have code of their own.  With two columns all steps go
     * through the first place, because code takes longest when it runs for the first time. */
    enum { SLOTS = COLS == 1 ? DEPTH : 1 };
    static_assert(SLOTS == DEPTH || Work::STAGE_BYTES > 0, "places that can be exchanged");

    DirectShape shape;
    Weights w;
    const float *b, *norm; /* the columns; the weights of one, or NULL */
    const End &end;
    int n_warps, warp, lane, g, t;
    int n_blocks, n_steps; /* of the block */
    unsigned row_bytes;
    int n_tiles, tile0, tile_step; /* the first one of the cluster, and from one to its next */

    /* in shared memory */
    float *parts;   /* at the same place in all blocks of a cluster */
    float *squares; /* if HAS_NORM, a sum per warp */
    uint8_t *digits;
    float2 *factors; /* then stages */

    /* The next to fetch. */
    int fetch_tile, fetch_step;
    typename Work::Rows rows;
    unsigned load_row[Work::LOADS], load_bytes[Work::LOADS];
    typename Work::Fetched fetched[DEPTH];

    MEMBER DirectRun(const DirectShape &shape, const Weights &w, const float *b, const End &end,
                     uint8_t *shared)
        : shape(shape), w(w), b(b), norm(nullptr), end(end), n_warps(blockDim.x / 32),
          warp((int)__shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0)), lane(threadIdx.x % 32),
          g(lane / 4), t(lane % 4),
          row_bytes((unsigned)shape.n_blocks * Work::WEIGHT_BYTES / DIRECT_STEP_BLOCKS),
          n_tiles((int)((shape.m + DIRECT_ROWS - 1) / DIRECT_ROWS)), tile0((int)blockIdx.x),
          tile_step((int)gridDim.x), parts(reinterpret_cast<float *>(shared)), fetch_step(warp) {
        if constexpr (End::HAS_NORM)
            norm = end.args.norm;
        if (n_ranks() > 1)
            take_rank();
        fetch_tile = tile0;
        n_blocks = (int)(this->shape.k / BLOCK_VALUES);
        n_steps = (n_blocks + DIRECT_STEP_BLOCKS - 1) / DIRECT_STEP_BLOCKS;
        squares = parts + shape.most_tiles * n_warps * SUMS;
        digits = reinterpret_cast<uint8_t *>(squares) +
                 (End::HAS_NORM ? n_warps * GEMV_DIRECT_NORM_BYTES : 0) + COLS * Work::STEP_BYTES;
        factors = reinterpret_cast<float2 *>(digits + n_steps * (COLS * Work::STEP_BYTES));
        if constexpr (Work::STAGE_BYTES > 0) {
#pragma unroll
            for (int slot = 0; slot < DEPTH; slot++) {
                fetched[slot].stage =
                    reinterpret_cast<uint8_t *>(factors + n_steps * (COLS * DIRECT_STEP_BLOCKS)) +
                    (warp * DEPTH + slot) * Work::STAGE_BYTES;
                fetched[slot].row_bytes = row_bytes;
            }
        }
    }

    /* Of the cluster, which shares k. */
    MEMBER static unsigned n_ranks() {
        return End::MAY_SHARE ? cluster_size() : 1;
    }
    MEMBER static unsigned rank() {
        return End::MAY_SHARE ? cluster_rank() : 0;
    }

    /* Take the steps of the block, which shares k with the others of its cluster. */
    MEMBER void take_rank() {
        int n_all = (int)((shape.k + DIRECT_STEP - 1) / DIRECT_STEP), n = (int)n_ranks(),
            number = (int)rank(), first = GEMV_DIRECT_FIRST_STEP(n_all, number, n);
        tile0 /= n, tile_step /= n;
        if (number + 1 < n)
            shape.k = GEMV_DIRECT_FIRST_STEP(n_all, number + 1, n) * DIRECT_STEP;
        shape.k -= first * DIRECT_STEP;
        w.values += (int64_t)first * Work::WEIGHT_BYTES;
        if (Work::SCALES_APART)
            w.scales += first * DIRECT_STEP_BLOCKS * 2;
        b += first * (DIRECT_STEP * COLS);
    }

    /* A tile's first row.  If rows are paired, its eight pairs are of one head, or of half of m. */
    MEMBER int64_t first_row(int tile) const {
        if constexpr (IS_PAIRED) {
            unsigned pair = (unsigned)tile * PAIRS, half = (unsigned)end.args.half;
            return pair < half ? pair : pair + pair / half * half;
        }
        return (int64_t)tile * DIRECT_ROWS;
    }

    /* The last of its rows, or pairs, that exists. */
    MEMBER int last_of(int tile) const {
        int64_t left = (IS_PAIRED ? shape.m / 2 : shape.m) - (int64_t)tile * N;
        return left < N ? (int)left - 1 : N - 1;
    }

    MEMBER int64_t row_of(int tile, int row) const {
        if constexpr (IS_PAIRED) {
            int last = last_of(tile), at = row % PAIRS;
            return first_row(tile) + (at < last ? at : last) + row / PAIRS * end.args.half;
        }
        int64_t at = (int64_t)tile * DIRECT_ROWS + row;
        return at < shape.m ? at : shape.m - 1;
    }

    /* Where the lane's loads begin in a tile: a row, and bytes from there on. */
    MEMBER void place_loads() {
#pragma unroll
        for (int i = 0; i < Work::LOADS; i++) {
            unsigned row = (unsigned)Work::row_of(i), bytes = Work::begin_of(i);
            if constexpr (IS_PAIRED) {
                bytes += row / PAIRS * (unsigned)end.args.half * row_bytes;
                row %= PAIRS;
            }
            load_row[i] = row;
            load_bytes[i] = bytes;
            settle(load_row[i]), settle(load_bytes[i]);
        }
    }

    MEMBER void take_rows() {
        int64_t row0 = first_row(fetch_tile);
        unsigned last = (unsigned)last_of(fetch_tile);
        rows.values = w.values + row0 * row_bytes;
        rows.scales = w.scales + row0 * (shape.n_blocks * 2);
#pragma unroll
        for (int i = 0; i < Work::LOADS; i++)
            rows.offset[i] = min(load_row[i], last) * row_bytes + load_bytes[i];
    }

    MEMBER void fetch(int slot) {
        if (fetch_tile < n_tiles) {
            Work::fetch(fetched[slot], rows, fetch_step,
                        n_blocks - fetch_step * DIRECT_STEP_BLOCKS);
            fetch_step += n_warps;
            if (fetch_step >= n_steps) {
                fetch_step -= n_steps;
                fetch_tile += tile_step;
                if (fetch_tile < n_tiles)
                    take_rows();
            }
        }
        if (Work::STAGE_BYTES > 0)
            commit_copies();
    }

    /* The first place becomes the last one. */
    MEMBER void turn() {
        typename Work::Fetched first = fetched[0];
#pragma unroll
        for (int slot = 1; slot < DEPTH && SLOTS == 1; slot++) {
            fetched[slot - 1] = fetched[slot];
            fetched[slot] = first;
        }
    }

    /* Wait for what was fetched DEPTH steps ago, and let no lane fetch before all have it. */
    MEMBER void wait_fetched() const {
        if (Work::STAGE_BYTES > 0) {
            wait_copies<DEPTH - 1>();
            __syncwarp();
        }
    }
    MEMBER void release_fetched() const {
        if (Work::STAGE_BYTES > 0)
            __syncwarp();
    }

    /* The steps that are fetched before the column, which more of them would delay. */
    enum { FIRST_SLOTS = IS_EARLY ? 1 : DEPTH };

    MEMBER void fetch_first() {
        place_loads();
        if (fetch_tile < n_tiles)
            take_rows();
#pragma unroll(SLOTS)
        for (int slot = 0; slot < FIRST_SLOTS; slot++) {
            fetch(slot % SLOTS);
            turn();
        }
    }

    /* Ask for the block's first weights while the kernel ahead may still run, one request per
     * row. */
    MEMBER void prefetch() const {
        enum { LINE = 128 };
        int left = shape.early_bytes, n = n_blocks * Work::WEIGHT_BYTES / DIRECT_STEP_BLOCKS;
        for (int tile = tile0; tile < n_tiles && left > 0; tile += tile_step) {
            for (int row = warp; row < DIRECT_ROWS && row * n < left; row += n_warps) {
                int64_t number = row_of(tile, row);
                if (lane == 0) /* by 16 */
                    prefetch_early(floor_16(w.values + number * row_bytes), (unsigned)n / 16 * 16);
                for (int i = lane * LINE; Work::SCALES_APART && i < n_blocks * 2; i += 32 * LINE)
                    prefetch_early(w.scales + number * (shape.n_blocks * 2) + i);
            }
            left -= DIRECT_ROWS * n;
        }
    }

    /* A sum over the warps, in their order. */
    MEMBER float sum_of(const float *of_warps, int stride) const {
        float sum = 0;
#pragma unroll
        for (int other = 0; other < GEMV_DIRECT_WARPS; other++)
            sum += other < n_warps ? of_warps[other * stride] : 0;
        return sum;
    }

    /* Output i of the block, or pair: of a row all columns. */
    MEMBER int64_t output_of(int i) const {
        return (tile0 + (int64_t)(i / OUTPUTS) * tile_step) * OUTPUTS + i % OUTPUTS;
    }

    MEMBER int64_t n_outputs() const {
        return IS_PAIRED ? shape.m / 2 : shape.m * COLS;
    }

    /* The thread's first one; blocks of a cluster divide theirs. */
    MEMBER int first_output() const {
        return (int)(rank() * blockDim.x + threadIdx.x);
    }

    /* A sum over the warps of all blocks that share k.  If there are several, each has put that of
     * its own warps into the first place. */
    MEMBER float total(const float *of_warps, int stride) const {
        if (n_ranks() == 1)
            return sum_of(of_warps, stride);
        float sum = 0;
        for (unsigned other = 0; other < n_ranks(); other++)
            sum += *cluster_shared(of_warps, other);
        return sum;
    }
    MEMBER void share_sums(int n) const {
        for (int i = threadIdx.x; i < n * SUMS; i += blockDim.x)
            *part(i, SUMS) = sum_of(part(i, SUMS), SUMS);
        cluster_sync();
    }

    /* What the first warp has of output i, if a tile has n of them. */
    MEMBER float *part(int i, int n) const {
        return parts + i / n * (n_warps * SUMS) + i % n;
    }

    /* Finish the outputs of n tiles. */
    template <class Before> MEMBER void finish(int n, Before before) const {
        float factor = 1;
        if (n_ranks() > 1)
            share_sums(n);
        if constexpr (End::HAS_NORM) {
            if (norm)
                factor = __frsqrt_rn(
                    __fadd_rn(__fdiv_rn(sum_of(squares, 1), (float)shape.k), end.args.eps));
        }
        for (int i = first_output(); i < n * OUTPUTS; i += (int)(n_ranks() * blockDim.x)) {
            const float *from = part(i, OUTPUTS);
            int64_t output = output_of(i);
            if (output >= n_outputs())
                continue;
            if (i != first_output())
                before = end.before(output);
            float second = IS_PAIRED ? total(from + PAIRS, SUMS) * factor : 0;
            end.finish(output, total(from, SUMS) * factor, second, before);
        }
        if (n_ranks() > 1)
            cluster_sync(); /* no block ends before it was read */
    }

    /* What the thread's first output reads. */
    MEMBER typename End::Before before() const {
        int64_t output = output_of(first_output());
        return output < n_outputs() ? end.before(output) : typename End::Before();
    }

    typedef DirectColumn<Work, (bool)End::HAS_NORM, COLS> Column;

    /* Form the digits of a step of the warp, whose next step is asked for. */
    MEMBER void form(Column &column, int step) const {
        column.form(step);
        if (step + n_warps < n_steps) {
            column.load_weights(step + n_warps);
            column.load(step + n_warps);
        }
        __syncwarp();
    }

    /* The warp has formed its steps.  It has others in the next tiles unless all have as many. */
    MEMBER void end_column([[maybe_unused]] float of_lane) const {
        if constexpr (End::HAS_NORM) {
#pragma unroll
            for (int flips = 16; flips; flips /= 2)
                of_lane += __shfl_xor_sync(0xFFFFFFFF, of_lane, flips);
            if (lane == 0)
                squares[warp] = of_lane;
        }
        if (n_steps % n_warps)
            meet_block();
    }

    MEMBER void run() {
        Column column(digits, factors, b, norm, shape.k);
        typename End::Before before;
        /* for what does not depend on x */
        auto ask = [&] {
            fetch_first();
            column.load_weights(warp);
            before = this->before();
        };
        if (IS_EARLY)
            ask();
        else
            prefetch();
        Lane own(digits);
        wait_for_earlier();
        let_next_start();
        column.load(warp);
        if (!IS_EARLY)
            ask();
#pragma unroll
        for (int slot = FIRST_SLOTS; slot < DEPTH; slot++) {
            fetch(slot % SLOTS);
            turn();
        }

        int tile = tile0;
        int step = warp, n_waiting = 0;
        float sums[COLS][2] = {};
        while (tile < n_tiles) {
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) {
                if (tile >= n_tiles)
                    break;
                if (n_waiting == 0)
                    form(column, step);
                Products products = {};
                wait_fetched();
                Work::multiply(products, fetched[slot], own, step,
                               n_blocks - step * DIRECT_STEP_BLOCKS);
                release_fetched();
                fetch(slot);
                turn();
#pragma unroll
                for (int col = 0; col < COLS; col++) {
                    float4 both = *reinterpret_cast<const float4 *>(
                        factors + (step * COLS + col) * DIRECT_STEP_BLOCKS + 2 * t);
                    Work::add(sums[col], products, col, own, both);
                    if ((__float_as_uint(both.x) | __float_as_uint(both.z)) >> 31)
                        add_plain(sums[col], both, tile, step, col);
                }
                step += n_warps;
                if (step >= n_steps) {
                    if (n_waiting == 0)
                        end_column(column.squares);
                    put_aside(sums, n_waiting++);
                    step -= n_steps;
                    tile += tile_step;
                }
            }
        }
        __syncthreads();
        finish(n_waiting, before);
    }

    /* Add those of two blocks of a column that are plain, whose factors are negative. */
    MEMBER void add_plain(float (&sums)[2], float4 both, int tile, int step, int col) const {
#pragma unroll 1
        for (int which = 0; which < 4; which++) { /* of two blocks and rows */
            int half = which / 2, i = which % 2;
            if (!(__float_as_uint(half ? both.z : both.x) >> 31))
                continue;
            int block = step * DIRECT_STEP_BLOCKS + 2 * t + half;
            const float *with = norm ? norm + (int64_t)block * BLOCK_VALUES : nullptr;
            float sum =
                plain_block<Work, COLS>(w, row_of(tile, g + 8 * i) * shape.n_blocks + block,
                                        b + (int64_t)block * BLOCK_VALUES * COLS + col, with);
            sums[0] += i ? 0 : sum;
            sums[1] += i ? sum : 0;
        }
    }

    /* Put aside what the warp has of a tile until the other warps have theirs. */
    MEMBER void put_aside(float (&sums)[COLS][2], int place) const {
        float *to = parts + (place * n_warps + warp) * SUMS;
#pragma unroll
        for (int i = 0; i < 2 * COLS; i++) {
            int row = i % 2, col = i / 2;
            float sum = sums[col][row];
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
            if (t == 0)
                to[(g + 8 * row) * COLS + col] = sum;
            sums[col][row] = 0;
        }
    }
};

template <class Format, int COLS, int DEPTH, bool IS_EARLY, class End>
DEVICE void run_direct(const DirectShape &shape, const Weights &w, const float *b, const End &end,
                       uint8_t *shared) {
    DirectRun<Format, COLS, DEPTH, IS_EARLY, End>(shape, w, b, end, shared).run();
}

#endif
