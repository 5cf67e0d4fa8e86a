/*
 * Rows of q4k super-blocks times one column: four lanes a super-block, a step eight of each row.
 *
 * A lane has the head and the 32 bytes of one group, three loads of 16 bytes.  The minima meet the
 * sum of x over their 32 values, which the block forms once a slice.  Where such a sum is not
 * finite (an infinity in x meets nibbles of 0) each weight of the slice is formed by itself.
 */
#ifndef CUSHIM_KERNELS_GEMV_Q4K_CUH
#define CUSHIM_KERNELS_GEMV_Q4K_CUH

#include "kernels/device/q4k.cuh"
#include "kernels/gemv_kernels.h"
#include "kernels/gemv_formats.cuh"
#include "kernels/gemv_rows.cuh"

enum {
    Q4K_SLICE = GEMV_COLUMN_VALUES,
    Q4K_GROUP = 64,       /* values of a lane */
    Q4K_GROUP_PITCH = 68, /* floats from one group to the next: no bank meets twice */
    Q4K_COLUMN_FLOATS = Q4K_SLICE / Q4K_GROUP * Q4K_GROUP_PITCH,
    Q4K_SUMS = Q4K_SLICE / 32,
};
static_assert((Q4K_COLUMN_FLOATS + Q4K_SUMS) * 4 == GEMV_Q4K_BYTES, "as launched");

template <bool IS_WIDE> DEVICE uint4 load_q4k(const uint8_t *from) {
    if (IS_WIDE)
        return load_kept(reinterpret_cast<const uint4 *>(from));
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(from);
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = __ldg(halves + 2 * i) | (uint32_t)__ldg(halves + 2 * i + 1) << 16;
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/* A word's value j of 4, of the low or the high nibbles, as a float. */
DEVICE float4 q4k_four(uint32_t word, int high) {
    return make_float4(f32_of_nibble<0>(word, high), f32_of_nibble<0>(word, 2 + high),
                       f32_of_nibble<0>(word, 4 + high), f32_of_nibble<0>(word, 6 + high));
}

template <bool IS_WIDE> struct Q4kRows {
    enum { ROWS = 2, COLS = 1, STEP = 8 * Q4K_VALUES, SLICE = Q4K_SLICE };

    struct Fetched {
        uint4 head[ROWS], low[ROWS], high[ROWS]; /* bytes 0 .. 15 and 16 .. 31 of the group */
    };
    typedef Fetched Held;

    const RowsShape &shape;
    const uint8_t *w;
    const float *x;
    float *column, *sums32; /* shared */
    const uint8_t *rows[ROWS];
    int64_t slice_at;
    bool is_plain; /* the slice has finite sums */

    MEMBER Q4kRows(const RowsShape &shape, const uint8_t *w, const float *x, float *shared)
        : shape(shape), w(w), x(x), column(shared), sums32(shared + Q4K_COLUMN_FLOATS) {
    }

    MEMBER void take_rows(int64_t row0) {
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int64_t at = row0 + row < shape.m ? row0 + row : shape.m - 1;
            rows[row] = w + at * (shape.k / Q4K_VALUES) * Q4K_BYTES;
        }
    }

    /* A lane beyond the end has the first super-block, and does not add it. */
    MEMBER Fetched fetch(int64_t at, int n) const {
        int lane = threadIdx.x % 32, group = lane % 4;
        int super = lane / 4 * Q4K_VALUES < n ? lane / 4 : 0;
        Fetched fetched;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            const uint8_t *block = rows[row] + (at / Q4K_VALUES + super) * Q4K_BYTES;
            const uint8_t *nibbles = block + Q4K_HEAD_BYTES + 32 * group;
            fetched.head[row] = load_q4k<IS_WIDE>(block);
            fetched.low[row] = load_q4k<IS_WIDE>(nibbles);
            fetched.high[row] = load_q4k<IS_WIDE>(nibbles + 16);
        }
        return fetched;
    }

    MEMBER Held hold(const Fetched &fetched, int) const {
        return fetched;
    }

    MEMBER void release() const {
    }

    /* 32 values of one scale: the sum of q x, then the scale and the minimum. */
    MEMBER float times(const Held &held, int row, int half, const float *from, float sum_x) const {
        Q4kScale scale = q4k_scale(held.head[row], 2 * (threadIdx.x % 4) + half);
        const uint32_t words[8] = {held.low[row].x,  held.low[row].y,  held.low[row].z,
                                   held.low[row].w,  held.high[row].x, held.high[row].y,
                                   held.high[row].z, held.high[row].w};
        float part = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 q = q4k_four(words[i], half);
            float4 x4 = *reinterpret_cast<const float4 *>(from + 4 * i);
            part = fmaf(q.x, x4.x, part);
            part = fmaf(q.y, x4.y, part);
            part = fmaf(q.z, x4.z, part);
            part = fmaf(q.w, x4.w, part);
        }
        return fmaf(scale.scale, part, -(scale.minimum * sum_x));
    }

    /* The lane's 64 values, each weight by itself, read again. */
    MEMBER float times_each(const Held &held, int row, int step, const float *from) const {
        int lane = threadIdx.x % 32, group = lane % 4;
        const uint8_t *nibbles = rows[row] +
                                 ((slice_at + step) / Q4K_VALUES + lane / 4) * Q4K_BYTES +
                                 Q4K_HEAD_BYTES + 32 * group;
        Q4kScale low = q4k_scale(held.head[row], 2 * group);
        Q4kScale high = q4k_scale(held.head[row], 2 * group + 1);
        float sum = 0;
#pragma unroll 1
        for (int i = 0; i < 32; i++) {
            int byte = __ldg(nibbles + i);
            sum = fmaf(fmaf(low.scale, (float)(byte & 15), -low.minimum), from[i], sum);
            sum = fmaf(fmaf(high.scale, (float)(byte >> 4), -high.minimum), from[32 + i], sum);
        }
        return sum;
    }

    MEMBER void add(float (&sums)[ROWS][COLS], const Held &held, int step, int n) const {
        int lane = threadIdx.x % 32;
        if (lane / 4 * Q4K_VALUES >= n)
            return;
        int group = step / Q4K_GROUP + lane;
        const float *from = column + group * Q4K_GROUP_PITCH;
        float2 sum_x = *reinterpret_cast<const float2 *>(sums32 + 2 * group);
#pragma unroll
        for (int row = 0; row < ROWS; row++)
            sums[row][0] += is_plain ? times(held, row, 0, from, sum_x.x) +
                                           times(held, row, 1, from + 32, sum_x.y)
                                     : times_each(held, row, step, from);
    }

    MEMBER void stage(int64_t at, int n) {
        slice_at = at;
        stage_column(column, Q4K_GROUP_PITCH - Q4K_GROUP, Q4K_GROUP, x + at, n);
        __syncthreads();
        bool is_finite = true;
        for (int i = threadIdx.x; i < n / 32; i += ROWS_THREADS) {
            const float4 *from =
                reinterpret_cast<const float4 *>(column + i / 2 * Q4K_GROUP_PITCH + i % 2 * 32);
            float4 sum = from[0];
            for (int j = 1; j < 8; j++) {
                sum.x += from[j].x;
                sum.y += from[j].y;
                sum.z += from[j].z;
                sum.w += from[j].w;
            }
            float total = (sum.x + sum.y) + (sum.z + sum.w);
            sums32[i] = total;
            is_finite = is_finite && fabsf(total) <= FLT_MAX;
        }
        is_plain = !__syncthreads_or(!is_finite);
    }
};

#endif
