/*
 * Quantised weights times one column on the matrix units (sm_90): the integers as they are, the
 * column as integers, the sums of a block exact.
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
 * block, and its columns are the digits.
 *
 * A block stays for many rows and forms the digits once.  Its warps share k and go from one tile to
 * the next as if their steps were one row.  They meet only at the end, to add up what they have of
 * its tiles.  While the kernel ahead still runs, the block asks for its first weights, which then
 * come from L2.  If that kernel writes none of them (IS_EARLY), it loads a warp's first step.
 */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_CUH
#define CUSHIM_KERNELS_GEMV_DIRECT_CUH

#include <float.h>

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/math/maximum.cuh"
#include "kernels/gemv/gemv_direct_formats.cuh"
#include "kernels/gemv/gemv_ends.cuh"

/* ---- the column ---- */

/*
 * All of k in shared memory: [step][half] digits, with 16 bytes of each set of two for the lanes of
 * their block, then [step][block] factors, which undo the scaling, and sums.  A negative factor
 * (-0) says that plain products take the block.  A normed column is multiplied by its weights here,
 * and by 1 / the root of its mean square at the end.
 */
template <class Work, bool HAS_NORM> struct DirectColumn {
    enum {
        PART_VALUES = BLOCK_VALUES / 4,
        BETWEEN = Work::IS_HALVED ? 16 : 4, /* from a part's first half to its second */
        BATCH = 2                           /* parts in flight */
    };

    uint8_t *digits;
    float2 *factors;
    const float *b;
    const DirectShape &shape;
    int n; /* parts */
    float x[BATCH][PART_VALUES];
    const float *norm; /* its weights, or NULL */
    float weights[HAS_NORM ? BATCH : 1][PART_VALUES], squares;
    bool is_any_plain; /* whether any of the thread's parts is plain */

    MEMBER DirectColumn(uint8_t *digits, float2 *factors, const float *b, const float *norm,
                        const DirectShape &shape, int n_steps)
        : digits(digits), factors(factors), b(b), shape(shape),
          n(n_steps * (DIRECT_STEP / PART_VALUES)), norm(norm), squares(0), is_any_plain(false) {
    }

    /* Eight neighbours, or two fours 16 apart; `otherwise` if they do not exist. */
    MEMBER void load_part(float (&to)[PART_VALUES], const float *from, bool is_there,
                          float otherwise) const {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float4 four = make_float4(otherwise, otherwise, otherwise, otherwise);
            if (is_there)
                four = __ldg(reinterpret_cast<const float4 *>(from + half * BETWEEN));
            to[4 * half] = four.x, to[4 * half + 1] = four.y;
            to[4 * half + 2] = four.z, to[4 * half + 3] = four.w;
        }
    }

    MEMBER void apply_weights(float (&x)[PART_VALUES], const float (&with)[PART_VALUES]) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < PART_VALUES; j++) {
            sum = fmaf(x[j], x[j], sum);
            x[j] *= with[j];
        }
        squares += sum;
    }

    /* Load the thread's parts from number i on. */
    MEMBER void load(int i) {
#pragma unroll
        for (int at = 0; at < BATCH; at++, i += blockDim.x) {
            int value = Work::IS_HALVED ? i / 4 * BLOCK_VALUES + i % 4 * 4 : i * PART_VALUES;
            bool is_there = i < n && value < shape.k;
            if constexpr (HAS_NORM)
                load_part(weights[at], norm + value, norm && is_there, 1);
            load_part(x[at], b + value, is_there, 0);
        }
    }

    /* Form all of the thread's parts; `meanwhile` is called when the first are asked for. */
    template <class Meanwhile> MEMBER void form_all(Meanwhile meanwhile) {
        bool is_first = true;
        int i = threadIdx.x;
        do {
            load(i);
            if (is_first)
                meanwhile();
            is_first = false;
#pragma unroll
            for (int at = 0; at < BATCH; at++, i += blockDim.x) {
                if constexpr (HAS_NORM)
                    apply_weights(x[at], weights[at]);
                if (i < n)
                    form(x[at], i);
            }
        } while (i < n);
    }

    MEMBER void form(const float (&x)[PART_VALUES], int i) {
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
        int block = i / 4, part = i % 4;
        Work::store(digits + block / 8 * Work::STEP_BYTES, block % 8, part, x,
                    is_plain ? 0 : scale.value);
        if (part == 0) {
            float factor = __uint_as_float(scale.factor_bits - (Work::LOG2_INTEGERS << 23));
            factors[block] = make_float2(is_plain ? -0.0f : factor, is_plain ? 0 : sum);
        }
        is_any_plain |= is_plain;
    }
};

/* ---- the rows ---- */

/* Plain products of a block, which is read again; norm: the column's weights, or NULL. */
template <class Work>
DEVICE float plain_block(const Weights &w, int64_t block, const float *b, const float *norm) {
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < BLOCK_VALUES; i++) {
        float x = __ldg(b + i);
        sum = fmaf(Work::value(w, block, i), norm ? x * __ldg(norm + i) : x, sum);
    }
    return sum;
}

template <class Format, int DEPTH, bool IS_EARLY, class End> struct DirectRun {
    typedef Direct<Format> Work;

    enum {
        IS_PAIRED = End::IS_PAIRED,
        PAIRS = DIRECT_ROWS / 2,
        N = DIRECT_ROWS / (1 + IS_PAIRED) /* outputs of a tile: rows, or pairs */
    };

    const DirectShape &shape;
    const Weights &w;
    const End &end;
    int n_warps, warp, lane, g, t;
    int n_blocks, n_steps; /* of the block */
    unsigned row_bytes;
    int n_tiles, tile0, tile_step; /* the first one of the cluster, and from one to its next */

    /* in shared memory */
    float *parts; /* at the same place in all blocks of a cluster */
    uint8_t *digits;
    float2 *factors;
    float *squares; /* if HAS_NORM, a sum per warp; otherwise stages */

    /* The next to fetch. */
    int fetch_tile, fetch_step, last;
    DirectRows rows;
    typename Work::Fetched fetched[DEPTH];

    MEMBER DirectRun(const DirectShape &shape, const Weights &w, const End &end, uint8_t *shared)
        : shape(shape), w(w), end(end), n_warps(blockDim.x / 32), warp(threadIdx.x / 32),
          lane(threadIdx.x % 32), g(lane / 4), t(lane % 4), n_blocks((int)(shape.k / BLOCK_VALUES)),
          n_steps((n_blocks + DIRECT_STEP_BLOCKS - 1) / DIRECT_STEP_BLOCKS),
          row_bytes((unsigned)shape.n_blocks * Work::WEIGHT_BYTES / DIRECT_STEP_BLOCKS),
          n_tiles((int)((shape.m + DIRECT_ROWS - 1) / DIRECT_ROWS)),
          tile0((int)(blockIdx.x / n_ranks())), tile_step((int)(gridDim.x / n_ranks())),
          parts(reinterpret_cast<float *>(shared)), fetch_tile(tile0), fetch_step(warp), last(0) {
        digits = shared + shape.most_tiles * n_warps * (DIRECT_ROWS * 4) + Work::STEP_BYTES;
        factors = reinterpret_cast<float2 *>(digits + n_steps * Work::STEP_BYTES);
        squares = reinterpret_cast<float *>(factors + n_steps * DIRECT_STEP_BLOCKS);
        if constexpr (Work::STAGE_BYTES > 0) {
#pragma unroll
            for (int slot = 0; slot < DEPTH; slot++)
                fetched[slot].stage = reinterpret_cast<uint8_t *>(squares) +
                                      (warp * DEPTH + slot) * Work::STAGE_BYTES;
        }
    }

    /* The blocks that share k; those of products with an end never do. */
    MEMBER static unsigned n_ranks() {
        return End::IS_PLAIN ? cluster_size() : 1;
    }

    /* A tile's first row.  If rows are paired, its eight pairs are of one head, or of half of m. */
    MEMBER int64_t first_row(int tile) const {
        if constexpr (IS_PAIRED) {
            unsigned pair = (unsigned)tile * PAIRS, half = (unsigned)end.args.half;
            return pair + pair / half * half;
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

    MEMBER void take_rows() {
        int64_t row0 = first_row(fetch_tile);
        last = last_of(fetch_tile);
        rows.values = w.values + row0 * row_bytes;
        rows.scales = w.scales + row0 * (shape.n_blocks * 2);
        rows.row_bytes = row_bytes;
        rows.last = last;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if constexpr (IS_PAIRED)
                rows.offset[i] =
                    ((unsigned)(g < last ? g : last) + i * (unsigned)end.args.half) * row_bytes;
            else
                rows.offset[i] = (unsigned)(g + 8 * i < last ? g + 8 * i : last) * row_bytes;
        }
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

    /* The steps that are fetched before the column, whose values need the remaining places. */
    enum { FIRST_SLOTS = IS_EARLY ? 1 : DEPTH };

    MEMBER void fetch_first() {
        if (fetch_tile < n_tiles)
            take_rows();
#pragma unroll
        for (int slot = 0; slot < FIRST_SLOTS; slot++)
            fetch(slot);
    }

    /* Ask for the block's first weights while the kernel ahead may still run, one request per
     * row. */
    MEMBER void prefetch() const {
        enum { LINE = 128 };
        int left = shape.early_bytes, n = n_blocks * Work::WEIGHT_BYTES / DIRECT_STEP_BLOCKS;
        for (int tile = tile0; tile < n_tiles && left > 0; tile += tile_step) {
            for (int row = warp; row < DIRECT_ROWS && row * n < left; row += n_warps) {
                int64_t number = row_of(tile, row);
                if (lane == 0)
                    prefetch_early(w.values + number * row_bytes, (unsigned)n);
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

    /* Output i of the block, or pair. */
    MEMBER int64_t output_of(int i) const {
        return (tile0 + (int64_t)(i / N) * tile_step) * N + i % N;
    }

    /* Store the warps' sums of n tiles.  If blocks share k, each of them adds up its own. */
    MEMBER void store(int n) const {
        auto part = [&](int i) {
            return parts + i / DIRECT_ROWS * (n_warps * DIRECT_ROWS) + i % DIRECT_ROWS;
        };
        for (int i = threadIdx.x; i < n * DIRECT_ROWS; i += blockDim.x) {
            float sum = sum_of(part(i), DIRECT_ROWS);
            int64_t row = output_of(i);
            if (n_ranks() > 1)
                *part(i) = sum;
            else if (row < shape.m)
                end.c[row] = sum;
        }
        if (n_ranks() == 1)
            return;
        cluster_sync();
        for (int i = (int)(cluster_rank() * blockDim.x + threadIdx.x); i < n * DIRECT_ROWS;
             i += (int)(n_ranks() * blockDim.x)) {
            float sum = 0;
            for (unsigned rank = 0; rank < n_ranks(); rank++)
                sum += *cluster_shared(part(i), rank);
            if (output_of(i) < shape.m)
                end.c[output_of(i)] = sum;
        }
        cluster_sync(); /* no block ends before it was read */
    }

    /* The same with an end. */

    template <class Before> MEMBER void finish(int n, Before before) const {
        int64_t n_outputs = IS_PAIRED ? shape.m / 2 : shape.m;
        float factor = 1;
        if (End::HAS_NORM && end.args.norm)
            factor =
                __frsqrt_rn(__fadd_rn(__fdiv_rn(sum_of(squares, 1), (float)shape.k), end.args.eps));
        for (int i = threadIdx.x; i < n * N; i += blockDim.x) {
            const float *from = parts + i / N * (n_warps * DIRECT_ROWS) + i % N;
            int64_t output = output_of(i);
            if (output >= n_outputs)
                continue;
            if (i >= (int)blockDim.x)
                before = end.before(output);
            float second = IS_PAIRED ? sum_of(from + PAIRS, DIRECT_ROWS) * factor : 0;
            end.finish(output, sum_of(from, DIRECT_ROWS) * factor, second, before);
        }
    }

    /* What the thread's first output reads. */
    MEMBER auto before() const {
        if constexpr (End::IS_PLAIN) {
            return 0;
        } else {
            int64_t n_outputs = IS_PAIRED ? shape.m / 2 : shape.m, output = output_of(threadIdx.x);
            return output < n_outputs ? end.before(output) : typename End::Before();
        }
    }

    /* If HAS_NORM, put a warp's sum of squares. */
    MEMBER void put_squares(float sum) const {
#pragma unroll
        for (int flips = 16; flips; flips /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, flips);
        if (lane == 0)
            squares[warp] = sum;
    }

    MEMBER const float *norm() const {
        if constexpr (End::HAS_NORM)
            return end.args.norm;
        return nullptr;
    }

    MEMBER void run(const float *b) {
        DirectColumn<Work, (bool)End::HAS_NORM> column(digits, factors, b, norm(), shape, n_steps);
        typename Work::Lane own(digits);
        decltype(this->before()) before;
        column.form_all([&] {
            if (!IS_EARLY)
                fetch_first();
            before = this->before();
        });
#pragma unroll
        for (int slot = FIRST_SLOTS; slot < DEPTH; slot++)
            fetch(slot);
        if constexpr (End::HAS_NORM)
            put_squares(column.squares);
        bool is_any_plain = __syncthreads_or(column.is_any_plain);

        int tile = tile0;
        int step = warp, n_waiting = 0;
        float sums[2] = {};
        while (tile < n_tiles) {
#pragma unroll
            for (int slot = 0; slot < DEPTH; slot++) {
                if (tile >= n_tiles)
                    break;
                typename Work::Products products = {};
                wait_fetched();
                Work::multiply(products, fetched[slot], own, step,
                               n_blocks - step * DIRECT_STEP_BLOCKS);
                release_fetched();
                fetch(slot);
                float4 both =
                    *reinterpret_cast<const float4 *>(factors + step * DIRECT_STEP_BLOCKS + 2 * t);
                Work::add(sums, products, own, both);
                if (is_any_plain)
                    add_plain(sums, both, tile, step, b);
                step += n_warps;
                if (step >= n_steps) {
                    put_aside(sums, n_waiting++);
                    step -= n_steps;
                    tile += tile_step;
                }
            }
        }
        __syncthreads();
        if constexpr (End::IS_PLAIN)
            store(n_waiting);
        else
            finish(n_waiting, before);
    }

    /* Add those of two blocks that are plain, whose factors are negative. */
    MEMBER void add_plain(float (&sums)[2], float4 both, int tile, int step, const float *b) const {
#pragma unroll 1
        for (int which = 0; which < 4; which++) { /* of two blocks and rows */
            int half = which / 2, i = which % 2;
            if (!(__float_as_uint(half ? both.z : both.x) >> 31))
                continue;
            int block = step * DIRECT_STEP_BLOCKS + 2 * t + half;
            const float *with = norm() ? norm() + (int64_t)block * BLOCK_VALUES : nullptr;
            float sum = plain_block<Work>(w, row_of(tile, g + 8 * i) * shape.n_blocks + block,
                                          b + (int64_t)block * BLOCK_VALUES, with);
            sums[0] += i ? 0 : sum;
            sums[1] += i ? sum : 0;
        }
    }

    /* Put aside what the warp has of a tile until the other warps have theirs. */
    MEMBER void put_aside(float (&sums)[2], int place) const {
        float *to = parts + (place * n_warps + warp) * DIRECT_ROWS;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = sums[i];
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
            if (t == 0)
                to[g + 8 * i] = sum;
            sums[i] = 0;
        }
    }
};

/* Take the steps of the block from shape, weights and column, which are those of the product. */
template <class Work> DEVICE void take_rank(DirectShape &shape, Weights &w, const float *&b) {
    int n_steps = (int)((shape.k + DIRECT_STEP - 1) / DIRECT_STEP), n_ranks = (int)cluster_size(),
        rank = (int)cluster_rank();
    if (n_ranks == 1)
        return;
    int first = GEMV_DIRECT_FIRST_STEP(n_steps, rank, n_ranks);
    if (rank + 1 < n_ranks)
        shape.k = GEMV_DIRECT_FIRST_STEP(n_steps, rank + 1, n_ranks) * DIRECT_STEP;
    shape.k -= first * DIRECT_STEP;
    w.values += (int64_t)first * Work::WEIGHT_BYTES;
    if (Work::SCALES_APART)
        w.scales += first * DIRECT_STEP_BLOCKS * 2;
    b += first * DIRECT_STEP;
}

template <class Format, int DEPTH, bool IS_EARLY, class End>
DEVICE void run_direct(DirectShape shape, Weights w, const float *b, const End &end,
                       uint8_t *shared) {
    if (End::IS_PLAIN)
        take_rank<Direct<Format>>(shape, w, b);
    DirectRun<Format, DEPTH, IS_EARLY, End> work(shape, w, end, shared);
    if (IS_EARLY)
        work.fetch_first();
    else
        work.prefetch();
    wait_for_earlier();
    let_next_start();
    work.run(b);
}

#endif
