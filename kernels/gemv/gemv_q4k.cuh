/*
 * Rows of q4k super-blocks times one column: four lanes per super-block, eight of each row per
 * step.
 *
 * A lane has the head and the 32 bytes of one group, three loads of 16 bytes.  Each weight is
 * formed separately.  If the minima were taken off at the end by the sum of x, they would be much
 * of it if one value of x is larger than all others and its weight is small.
 */
#ifndef CUSHIM_KERNELS_GEMV_Q4K_CUH
#define CUSHIM_KERNELS_GEMV_Q4K_CUH

#include "kernels/device/math/q4k.cuh"
#include "kernels/gemv/gemv_kernels.h"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_rows.cuh"

enum {
    Q4K_SLICE = GEMV_COLUMN_VALUES,
    Q4K_GROUP = 64,       /* values of a lane */
    Q4K_GROUP_PITCH = 68, /* floats from one group to the next, so that no two share a bank */
};
static_assert(Q4K_SLICE / Q4K_GROUP * Q4K_GROUP_PITCH * 4 == GEMV_Q4K_BYTES, "as launched");

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

/* Values 0 to 3 of a word, of the low or the high nibbles, as floats. */
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
    float *column; /* in shared memory */
    const uint8_t *rows[ROWS];

    MEMBER Q4kRows(const RowsShape &shape, const uint8_t *w, const float *x, float *shared)
        : shape(shape), w(w), x(x), column(shared) {
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

    /* 32 values with one scale and minimum. */
    MEMBER float times(const Held &held, int row, int half, const float *from) const {
        Q4kScale scale = q4k_scale(held.head[row], 2 * (threadIdx.x % 4) + half);
        const uint32_t words[8] = {held.low[row].x,  held.low[row].y,  held.low[row].z,
                                   held.low[row].w,  held.high[row].x, held.high[row].y,
                                   held.high[row].z, held.high[row].w};
        float part = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 q = q4k_four(words[i], half);
            float4 x4 = *reinterpret_cast<const float4 *>(from + 4 * i);
            part = fmaf(weight(scale, q.x), x4.x, part);
            part = fmaf(weight(scale, q.y), x4.y, part);
            part = fmaf(weight(scale, q.z), x4.z, part);
            part = fmaf(weight(scale, q.w), x4.w, part);
        }
        return part;
    }

    /* As the format defines it; the product has 21 bits, so only one rounding happens. */
    MEMBER static float weight(const Q4kScale &scale, float q) {
        return fmaf(scale.scale, q, -scale.minimum);
    }

    MEMBER void add(float (&sums)[ROWS][COLS], const Held &held, int step, int n) const {
        int lane = threadIdx.x % 32;
        if (lane / 4 * Q4K_VALUES >= n)
            return;
        int group = step / Q4K_GROUP + lane;
        const float *from = column + group * Q4K_GROUP_PITCH;
#pragma unroll
        for (int row = 0; row < ROWS; row++)
            sums[row][0] += times(held, row, 0, from) + times(held, row, 1, from + 32);
    }

    MEMBER void stage(int64_t at, int n) {
        stage_column(column, Q4K_GROUP_PITCH - Q4K_GROUP, Q4K_GROUP, x + at, n);
    }
};

#endif
