/*
 * Rows of 32-value blocks (q4_0, q8_0, q8f) times columns: a lane has a block, a step 32 blocks of
 * each row.
 *
 * Nibbles are fetched as they are used, 16 bytes per lane.  Blocks of bytes are not a multiple of
 * 16, so a warp fetches the bytes of its rows in order, 16 per lane, and passes them through shared
 * memory.  Rows that do not start at multiples of 16 are fetched by smaller words when they are
 * used.
 */
#ifndef CUSHIM_KERNELS_GEMV_BLOCKS_CUH
#define CUSHIM_KERNELS_GEMV_BLOCKS_CUH

#include "kernels/gemv/gemv_kernels.h"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_rows.cuh"

enum {
    COLUMN_VALUES = GEMV_COLUMN_VALUES, /* of all columns in a slice */
    BLOCK_PITCH = 36, /* floats from one block of a column to the next, so that no two share a
                         bank */
};

/* Floats that a slice of the columns takes. */
enum { COLUMN_FLOATS = COLUMN_VALUES / BLOCK_VALUES * BLOCK_PITCH };
static_assert(COLUMN_FLOATS * 4 == GEMV_COLUMN_BYTES, "as launched");

template <class Format, int N_ROWS, int N_COLS, bool IS_WIDE> struct Blocks {
    enum { ROWS = N_ROWS, COLS = N_COLS, STEP = 32 * BLOCK_VALUES };
    enum { SLICE = COLUMN_VALUES / COLS, PITCH = COLUMN_FLOATS / COLS };
    enum { IS_STAGED = Format::IS_STAGED && IS_WIDE };
    enum { CHUNKS_PER_ROW = 32 * Format::BYTES / 16 };
    static constexpr int CHUNKS = IS_STAGED ? (ROWS * CHUNKS_PER_ROW + 31) / 32 : 1;
    static_assert(!IS_STAGED || COLUMN_FLOATS * 4 + ROWS_WARPS * ROWS * CHUNKS_PER_ROW * 16 <=
                                    GEMV_STAGED_BYTES(Format::BYTES),
                  "as launched");
    typedef typename Format::Block Block;

    /* Either chunks of the rows in order, or the lane's blocks. */
    struct Chunks {
        uint4 of[CHUNKS];
    };
    struct Own {
        Block of[ROWS];
    };
    template <bool IS, class Yes, class No> struct Choice { typedef Yes Type; };
    template <class Yes, class No> struct Choice<false, Yes, No> { typedef No Type; };
    typedef typename Choice<IS_STAGED, Chunks, Own>::Type Fetched;
    typedef Fetched Held;

    const RowsShape &shape;
    Weights w;
    const float *b;
    float *columns;   /* in shared memory, of the block */
    uint32_t *staged; /* in shared memory, of the warp */
    int64_t block0;   /* of the first row */
    int rows_left;

    MEMBER Blocks(const RowsShape &shape, const Weights &w, const float *b, float *shared)
        : shape(shape), w(w), b(b), columns(shared),
          staged(reinterpret_cast<uint32_t *>(shared + COLUMN_FLOATS) +
                 threadIdx.x / 32 * (ROWS * CHUNKS_PER_ROW * 4)) {
    }

    MEMBER void take_rows(int64_t row0) {
        /* Rows beyond the last repeat it, and are not stored. */
        int64_t left = shape.m - row0;
        rows_left = left < ROWS ? (int)left : (int)ROWS;
        if (rows_left < 1) {
            rows_left = 1;
            row0 = shape.m - 1;
        }
        block0 = row0 * (shape.k / BLOCK_VALUES);
    }

    MEMBER int64_t block_of(int row) const {
        return block0 + (row < rows_left ? row : rows_left - 1) * (shape.k / BLOCK_VALUES);
    }

    MEMBER void fetch_into(Chunks &chunks, int64_t at, int n) const {
        int bytes = n / BLOCK_VALUES * Format::BYTES;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int chunk = i * 32 + threadIdx.x % 32, row = chunk / CHUNKS_PER_ROW;
            int byte = chunk % CHUNKS_PER_ROW * 16;
            if (row < ROWS && byte < bytes)
                chunks.of[i] = load_streamed(reinterpret_cast<const uint4 *>(
                    w.values + (block_of(row) + at / BLOCK_VALUES) * Format::BYTES + byte));
        }
    }

    MEMBER void fetch_into(Own &own, int64_t at, int n) const {
        int lane = threadIdx.x % 32;
        if (lane * BLOCK_VALUES >= n)
            return;
#pragma unroll
        for (int row = 0; row < ROWS; row++)
            own.of[row] =
                Format::template load<IS_WIDE>(w, block_of(row) + at / BLOCK_VALUES + lane);
    }

    MEMBER Fetched fetch(int64_t at, int n) const {
        Fetched fetched;
        fetch_into(fetched, at, n);
        return fetched;
    }

    MEMBER Held hold(const Fetched &fetched, int n) const {
        place(fetched, n);
        return fetched;
    }

    MEMBER void place(const Own &, int) const {
    }

    MEMBER void place(const Chunks &chunks, int n) const {
        int bytes = n / BLOCK_VALUES * Format::BYTES;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int chunk = i * 32 + threadIdx.x % 32;
            if (chunk < ROWS * CHUNKS_PER_ROW && chunk % CHUNKS_PER_ROW * 16 < bytes)
                reinterpret_cast<uint4 *>(staged)[chunk] = chunks.of[i];
        }
        __syncwarp();
    }

    MEMBER void release() const {
        if (IS_STAGED)
            __syncwarp();
    }

    MEMBER Block block_at(const Own &own, int row) const {
        return own.of[row];
    }

    MEMBER Block block_at(const Chunks &, int row) const {
        return Format::unpack(staged + row * CHUNKS_PER_ROW * 4, threadIdx.x % 32);
    }

    MEMBER void add(float (&sums)[ROWS][COLS], const Held &held, int step, int n) const {
        int lane = threadIdx.x % 32;
        if (lane * BLOCK_VALUES >= n)
            return;
        const float *from = columns + (step / BLOCK_VALUES + lane) * BLOCK_PITCH;
        Block blocks[ROWS];
        float parts[ROWS][COLS] = {};
#pragma unroll
        for (int row = 0; row < ROWS; row++)
            blocks[row] = block_at(held, row);
#pragma unroll
        for (int i = 0; i < BLOCK_VALUES / 4; i++) {
            float4 x[COLS];
#pragma unroll
            for (int col = 0; col < COLS; col++)
                x[col] = *reinterpret_cast<const float4 *>(from + col * PITCH + 4 * i);
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                float4 q = Format::four(blocks[row], i);
#pragma unroll
                for (int col = 0; col < COLS; col++) {
                    parts[row][col] = fmaf(q.x, x[col].x, parts[row][col]);
                    parts[row][col] = fmaf(q.y, x[col].y, parts[row][col]);
                    parts[row][col] = fmaf(q.z, x[col].z, parts[row][col]);
                    parts[row][col] = fmaf(q.w, x[col].w, parts[row][col]);
                }
            }
        }
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
#pragma unroll
            for (int col = 0; col < COLS; col++)
                sums[row][col] = fmaf(blocks[row].scale, parts[row][col], sums[row][col]);
        }
    }

    /* n values of each column from `at` on; columns that b does not have are zeros. */
    MEMBER void stage(int64_t at, int n) const {
        if constexpr (COLS == 1) {
            stage_column(columns, BLOCK_PITCH - BLOCK_VALUES, BLOCK_VALUES, b + at, n);
        } else {
            for (int i = threadIdx.x; i < n * COLS; i += ROWS_THREADS) {
                int value = i / COLS, col = i % COLS;
                columns[col * PITCH + value / BLOCK_VALUES * BLOCK_PITCH + value % BLOCK_VALUES] =
                    col < shape.n ? __ldg(b + (at + value) * shape.n + col) : 0;
            }
        }
    }
};

#endif
