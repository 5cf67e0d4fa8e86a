/*
 * Quantised weights times one column on the matrix units (sm_90): the integers as they are, the
 * column as integers, sums of a block without an error; of q4k the column as terms.
 *
 * A column's 32 values are scaled by a power of two and become integers of 45 bits, six digits of a
 * signed byte each; every value down to 2^-22 of the largest is exact or nearly so.  For q4k they
 * become two binary16 terms, 22 bits of every value down to 2^-26 of the largest: its integers have
 * no sign, so that they are halves as they lie.  Where a value is smaller, or not finite, plain
 * fp32 products take the block.
 *
 * A warp has 16 rows and steps of 256 values.  Lane 4 g + t has blocks 2t and 2t + 1 of rows g and
 * g + 8 whole, and gives their words to the units as they come: in the slots that are lane t's,
 * every product has values of its block alone.  So the other side is zeros but for the slots of one
 * block of four: columns 2t and 2t + 1 are two digits of block t, three products make six (the two
 * terms, one product), and what comes out is apart for each block, in the lanes that have its
 * scale.
 *
 * The digits are formed once by a block that stays for many rows; its warps share k, go on from one
 * tile to the next as if their steps were one row of them, and meet only when they add up what they
 * have of its tiles, at the end.  While the kernel ahead still runs, the block asks for its first
 * weights, which then come from L2, or, where that kernel writes none of them (IS_EARLY), for as
 * many as its registers hold, and for those behind them.
 */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_CUH
#define CUSHIM_KERNELS_GEMV_DIRECT_CUH

#include <float.h>

#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/gemv/gemv_direct_formats.cuh"
#include "kernels/gemv/gemv_ends.cuh"

/* ---- the column ---- */

/*
 * All of k into shared memory: [step][half] digits, for the lanes of their block 16 bytes of each
 * set of two, then [step][block] factors, which undo the scaling, and sums.  A
 * factor that is negative (-0) says that plain products take the block.  A column that is normed
 * is multiplied with weights here, and with 1 by the root of its mean square at the end.
 */
template <class Work, bool HAS_NORM> struct DirectColumn {
    enum { PART_VALUES = BLOCK_VALUES / 4, BATCH = 2 }; /* parts that are on their way */

    uint8_t *digits;
    float2 *factors;
    const float *b;
    const DirectShape &shape;
    int n; /* parts */
    float x[BATCH][PART_VALUES];
    const float *norm; /* its weights, or NULL */
    float weights[HAS_NORM ? BATCH : 1][PART_VALUES], squares;

    MEMBER DirectColumn(uint8_t *digits, float2 *factors, const float *b, const float *norm,
                        const DirectShape &shape, int n_steps)
        : digits(digits), factors(factors), b(b), shape(shape),
          n(n_steps * (DIRECT_STEP / PART_VALUES)), norm(norm), squares(0) {
    }

    /* Where there is none, 1. */
    MEMBER void load_weights(float (&to)[PART_VALUES], int value, bool is_there) const {
        bool is_wide = reinterpret_cast<uintptr_t>(norm) % 16 == 0;
        const float4 *fours = reinterpret_cast<const float4 *>(norm + value);
        if (norm && is_there && is_wide) {
            float4 first = __ldg(fours), second = __ldg(fours + 1);
            to[0] = first.x, to[1] = first.y, to[2] = first.z, to[3] = first.w;
            to[4] = second.x, to[5] = second.y, to[6] = second.z, to[7] = second.w;
        } else {
#pragma unroll
            for (int j = 0; j < PART_VALUES; j++)
                to[j] = norm && is_there ? __ldg(norm + value + j) : 1;
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

    /* The thread's parts from number i on. */
    MEMBER void load(int i) {
        bool is_wide = reinterpret_cast<uintptr_t>(b) % 16 == 0;
#pragma unroll
        for (int at = 0; at < BATCH; at++, i += blockDim.x) {
            int value = Work::IS_HALVED ? i / 4 * BLOCK_VALUES + i % 4 * 4 : i * PART_VALUES;
            bool is_there = i < n && value < shape.k;
            const float *from = b + value;
            if constexpr (HAS_NORM)
                load_weights(weights[at], value, is_there);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (is_wide) {
                    float4 four = make_float4(0, 0, 0, 0);
                    if (is_there)
                        four = __ldg(reinterpret_cast<const float4 *>(from));
                    x[at][4 * half] = four.x, x[at][4 * half + 1] = four.y;
                    x[at][4 * half + 2] = four.z, x[at][4 * half + 3] = four.w;
                } else {
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        x[at][4 * half + j] = is_there ? __ldg(from + j) : 0;
                }
                from += Work::IS_HALVED ? 16 : 4;
            }
        }
    }

    /* What was loaded from the thread's first on, and all that follows. */
    MEMBER void form_all() {
#pragma unroll 1
        for (int i = threadIdx.x; i < n;) {
#pragma unroll
            for (int at = 0; at < BATCH; at++, i += blockDim.x) {
                if constexpr (HAS_NORM)
                    apply_weights(x[at], weights[at]);
                if (i < n)
                    form(x[at], i);
            }
            load(i);
        }
    }

    MEMBER void form(const float (&x)[PART_VALUES], int i) const {
        uint32_t most = 0, least = 0xFFFFFFFF; /* of those that are not 0, less 1 */
#pragma unroll
        for (int j = 0; j < PART_VALUES; j++) {
            uint32_t bits = __float_as_uint(x[j]) & 0x7FFFFFFF;
            most = max(most, bits);
            least = min(least, bits - 1);
        }
        float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
#pragma unroll
        for (int flips = 2; flips; flips /= 2) {
            most = max(most, __shfl_xor_sync(0xFFFFFFFF, most, flips));
            least = min(least, __shfl_xor_sync(0xFFFFFFFF, least, flips));
            if (Work::HAS_MINIMA)
                sum += __shfl_xor_sync(0xFFFFFFFF, sum, flips);
        }
        typename Work::Scale scale(most, least + 1);
        bool is_plain = scale.is_plain || (Work::HAS_MINIMA && !(fabsf(sum) <= FLT_MAX));
        int block = i / 4, part = i % 4;
        Work::store(digits + block / 8 * Work::STEP_BYTES, block % 8, part, x,
                    is_plain ? 0 : scale.value);
        if (part == 0) {
            int log2 = block % 2 ? (int)Work::LOG2_SECOND : (int)Work::LOG2_FIRST;
            float factor = __uint_as_float(scale.factor_bits - (log2 << 23));
            factors[block] = make_float2(is_plain ? -0.0f : factor, sum);
        }
    }
};

/* ---- the rows ---- */

/* Plain products of a block, read again; norm: the column's weights, or NULL. */
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
    int n_blocks, n_steps;
    unsigned row_bytes;
    int n_tiles;

    /* shared */
    uint8_t *digits;
    float2 *factors;
    float *parts, *squares; /* of HAS_NORM, a sum a warp */

    /* What is fetched next. */
    int fetch_tile, fetch_step, last;
    DirectRows rows;
    typename Work::Fetched fetched[DEPTH];

    MEMBER DirectRun(const DirectShape &shape, const Weights &w, const End &end, uint8_t *shared)
        : shape(shape), w(w), end(end), n_warps(blockDim.x / 32), warp(threadIdx.x / 32),
          lane(threadIdx.x % 32), g(lane / 4), t(lane % 4), n_blocks((int)(shape.k / BLOCK_VALUES)),
          n_steps((n_blocks + DIRECT_STEP_BLOCKS - 1) / DIRECT_STEP_BLOCKS),
          row_bytes((unsigned)(n_blocks * Format::BYTES)),
          n_tiles((int)((shape.m + DIRECT_ROWS - 1) / DIRECT_ROWS)),
          digits(shared + Work::STEP_BYTES), fetch_tile((int)blockIdx.x), fetch_step(warp),
          last(0) {
        factors = reinterpret_cast<float2 *>(digits + n_steps * Work::STEP_BYTES);
        parts = reinterpret_cast<float *>(factors + n_steps * DIRECT_STEP_BLOCKS);
        squares = parts + shape.most_tiles * n_warps * DIRECT_ROWS;
    }

    /* A tile's first row; where rows are paired, its eight pairs are of one head, or of half of m.
     */
    MEMBER int64_t first_row(int tile) const {
        if constexpr (IS_PAIRED) {
            unsigned pair = (unsigned)tile * PAIRS, half = (unsigned)end.args.half;
            return pair + pair / half * half;
        }
        return (int64_t)tile * DIRECT_ROWS;
    }

    /* Of its rows, or pairs, the last that there is. */
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
        rows.scales = w.scales + row0 * (n_blocks * 2);
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
                fetch_tile += gridDim.x;
                if (fetch_tile < n_tiles)
                    take_rows();
            }
        }
    }

    MEMBER void fetch_first() {
        if (fetch_tile < n_tiles)
            take_rows();
#pragma unroll
        for (int slot = 0; slot < DEPTH; slot++)
            fetch(slot);
    }

    /* The block's first weights, asked for by a warp while the kernel ahead may still run; with
     * IS_EARLY from its second tile on. */
    MEMBER void prefetch() const {
        enum { PIECE = IS_EARLY ? 4096 : 1024, LINE = 128 };
        int64_t left = shape.early_bytes;
        for (int tile = blockIdx.x + IS_EARLY * gridDim.x; tile < n_tiles && left > 0;
             tile += gridDim.x) {
#pragma unroll
            for (int part = 0; part < 1 + IS_PAIRED; part++) {
                int64_t row0 = first_row(tile), n_rows = last_of(tile) + 1;
                if constexpr (IS_PAIRED)
                    row0 += part * end.args.half;
                int64_t n = n_rows * row_bytes;
                n = n < left ? n : left;
                left -= n;
                for (int64_t at = lane * PIECE; at < n; at += 32 * PIECE)
                    prefetch_early(w.values + row0 * row_bytes + at,
                                   (unsigned)(n - at < PIECE ? n - at : (int64_t)PIECE));
                for (int64_t at = lane * LINE; Work::SCALES_APART && at < n / 8; at += 32 * LINE)
                    prefetch_early(w.scales + row0 * (n_blocks * 2) + at);
            }
        }
    }

    /* A sum over the warps, in their order. */
    MEMBER float sum_of(const float *of_warps, int stride) const {
        float sum = 0;
#pragma unroll 4
        for (int other = 0; other < n_warps; other++)
            sum += of_warps[other * stride];
        return sum;
    }

    /* The warps' sums of the block's n tiles. */
    MEMBER void store(int n) const {
        for (int i = threadIdx.x; i < n * DIRECT_ROWS; i += blockDim.x) {
            const float *from = parts + i / DIRECT_ROWS * (n_warps * DIRECT_ROWS) + i % DIRECT_ROWS;
            float sum = sum_of(from, DIRECT_ROWS);
            int64_t row = (blockIdx.x + (int64_t)(i / DIRECT_ROWS) * gridDim.x) * DIRECT_ROWS +
                          i % DIRECT_ROWS;
            if (row < shape.m)
                end.c[row] = sum;
        }
    }

    /* The same with an end: output i of the block, or pair. */
    MEMBER int64_t output_of(int i) const {
        return (blockIdx.x + (int64_t)(i / N) * gridDim.x) * N + i % N;
    }

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

    /* The squares of HAS_NORM, of a warp. */
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
        column.load(threadIdx.x);
        if (!IS_EARLY)
            fetch_first();
        for (int i = threadIdx.x; i < Work::STEP_BYTES / 4; i += blockDim.x)
            reinterpret_cast<uint32_t *>(digits - Work::STEP_BYTES)[i] = 0;
        auto before = this->before();
        column.form_all();
        if constexpr (End::HAS_NORM)
            put_squares(column.squares);
        __syncthreads();

        /* Lanes whose column is of another block meet the zeros ahead of the digits. */
        bool is_own = g / 2 == t;
        const uint8_t *own = is_own ? digits + g * 16 : digits - Work::STEP_BYTES;
        int own_step = is_own ? (int)Work::STEP_BYTES : 0;
        int tile = blockIdx.x;
        int step = warp, n_waiting = 0;
        float sums[2] = {};
        while (tile < n_tiles) {
#pragma unroll
            for (int slot = 0; slot < DEPTH; slot++) {
                if (tile >= n_tiles)
                    break;
                typename Work::Sums d0 = {}, d1 = {};
                DirectScales scales;
                Work::multiply(d0, d1, fetched[slot], own + step * own_step);
                Work::scales(scales, fetched[slot], n_blocks - step * DIRECT_STEP_BLOCKS);
                fetch(slot);
                add(sums, d0, d1, scales, tile, step, b);
                step += n_warps;
                if (step >= n_steps) {
                    put_aside(sums, n_waiting++);
                    step -= n_steps;
                    tile += gridDim.x;
                    if (tile >= n_tiles) {
                        __syncthreads();
                        if constexpr (End::IS_PLAIN)
                            store(n_waiting);
                        else
                            finish(n_waiting, before);
                    }
                }
            }
        }
    }

    MEMBER void add(float (&sums)[2], const typename Work::Sums &d0, const typename Work::Sums &d1,
                    const DirectScales &scales, int tile, int step, const float *b) const {
        float4 both =
            *reinterpret_cast<const float4 *>(factors + step * DIRECT_STEP_BLOCKS + 2 * t);
        bool is_plain = ((__float_as_uint(both.x) | __float_as_uint(both.z)) >> 31) != 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const typename Work::Sums &d = half ? d1 : d0;
            float factor = half ? both.z : both.x, sum_x = half ? both.w : both.y;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float product = Work::product(d, i) * factor;
                float with = scales.scale[i][half];
                if (is_plain && __float_as_uint(factor) >> 31)
                    with = 0, sum_x = 0;
                if (Work::HAS_MINIMA)
                    sums[i] = fmaf(-scales.minimum[i][half], sum_x, sums[i]);
                sums[i] = fmaf(with, product, sums[i]);
            }
        }
        if (__any_sync(0xFFFFFFFF, is_plain)) {
#pragma unroll 1
            for (int half = 0; half < 2; half++) {
                if (!(__float_as_uint(half ? both.z : both.x) >> 31))
                    continue;
                int block = step * DIRECT_STEP_BLOCKS + 2 * t + half;
                const float *with = norm() ? norm() + (int64_t)block * BLOCK_VALUES : nullptr;
#pragma unroll
                for (int i = 0; i < 2; i++)
                    sums[i] += plain_block<Work>(w, row_of(tile, g + 8 * i) * n_blocks + block,
                                                 b + (int64_t)block * BLOCK_VALUES, with);
            }
        }
    }

    /* What the warp has of a tile, until the others have theirs. */
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

template <class Format, int DEPTH, bool IS_EARLY, class End>
DEVICE void run_direct(const DirectShape &shape, const Weights &w, const float *b, const End &end,
                       uint8_t *shared) {
    DirectRun<Format, DEPTH, IS_EARLY, End> work(shape, w, end, shared);
    if (IS_EARLY)
        work.fetch_first();
    if (threadIdx.x < 32)
        work.prefetch();
    wait_for_earlier();
    let_next_start();
    work.run(b);
}

#endif
