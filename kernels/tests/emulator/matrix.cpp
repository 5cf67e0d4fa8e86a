/*
 * Products of small matrices, and loads of their parts: the layouts of the PTX ISA.
 *
 * A product and the sum are computed exactly (in double) and truncated to float, as in tensor
 * cores.
 */
#include "kernels/tests/emulator/half.h"
#include "kernels/tests/emulator/thread.h"

#include <float.h>
#include <math.h>
#include <string.h>

namespace emulated {

enum { ROWS = 16, COLUMNS = 8, MOST_DEPTH = 16 };

struct Parts {
    float *d;
    const uint32_t *a, *b;
};

struct Matrices {
    double a[ROWS][MOST_DEPTH], b[MOST_DEPTH][COLUMNS];
};

/* Towards zero; beyond the largest float it is an infinity. */
static float cut(double value) {
    float rounded = (float)value;
    if (isfinite(rounded) && fabs((double)rounded) > fabs(value))
        rounded = nextafterf(rounded, 0.0f);
    return rounded;
}

static void accumulate(void *const lanes[32], const Matrices *of, int depth) {
    for (unsigned lane = 0; lane < 32; lane++) {
        float *d = ((const Parts *)lanes[lane])->d;
        for (unsigned i = 0; i < 4; i += 2) { /* two columns side by side */
            unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2;
            double sums[2] = {(double)d[i], (double)d[i + 1]};
            for (int k = 0; k < depth; k++) {
                sums[0] += of->a[row][k] * of->b[k][column];
                sums[1] += of->a[row][k] * of->b[k][column + 1];
            }
            d[i] = cut(sums[0]);
            d[i + 1] = cut(sums[1]);
        }
    }
}

/* Two values per register. */
template <class Widen>
static void gather_pairs(void *const lanes[32], int depth, Matrices *out, Widen widen) {
    for (unsigned lane = 0; lane < 32; lane++) {
        const Parts *parts = (const Parts *)lanes[lane];
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < (unsigned)depth / 4; i++) {
            double *a = &out->a[g + i % 2 * 8][2 * t + i / 2 * 8];
            a[0] = widen((uint16_t)parts->a[i]);
            a[1] = widen((uint16_t)(parts->a[i] >> 16));
        }
        for (unsigned i = 0; i < (unsigned)depth / 8; i++) {
            out->b[2 * t + i * 8][g] = widen((uint16_t)parts->b[i]);
            out->b[2 * t + i * 8 + 1][g] = widen((uint16_t)(parts->b[i] >> 16));
        }
    }
}

static double f16_value(uint16_t bits) {
    return (double)float_of_f16(bits);
}

static double float_value(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double bf16_value(uint16_t bits) {
    return float_value((uint32_t)bits << 16);
}

static double tf32_value(uint32_t bits) {
    return float_value(bits & 0xffffe000u);
}

template <int DEPTH> static void multiply_lanes_f16(void *const lanes[32], unsigned) {
    Matrices of;
    gather_pairs(lanes, DEPTH, &of, f16_value);
    accumulate(lanes, &of, DEPTH);
}

static void multiply_lanes_bf16(void *const lanes[32], unsigned) {
    Matrices of;
    gather_pairs(lanes, 16, &of, bf16_value);
    accumulate(lanes, &of, 16);
}

static void multiply_lanes_tf32(void *const lanes[32], unsigned) {
    Matrices of;
    for (unsigned lane = 0; lane < 32; lane++) {
        const Parts *parts = (const Parts *)lanes[lane];
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++)
            of.a[g + i % 2 * 8][t + i / 2 * 4] = tf32_value(parts->a[i]);
        for (unsigned i = 0; i < 2; i++)
            of.b[t + i * 4][g] = tf32_value(parts->b[i]);
    }
    accumulate(lanes, &of, 8);
}

struct Integers {
    int *d;
    const uint32_t *a, *b;
    bool is_a_signed;
};

/* Four values per register. */
static void multiply_lanes_bytes(void *const lanes[32], unsigned) {
    int a[ROWS][32], b[32][COLUMNS];
    for (unsigned lane = 0; lane < 32; lane++) {
        const Integers *parts = (const Integers *)lanes[lane];
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 16; i++) {
            uint8_t byte = (uint8_t)(parts->a[i / 4] >> 8 * (i % 4));
            a[g + i / 4 % 2 * 8][4 * t + i % 4 + i / 8 * 16] =
                parts->is_a_signed ? (int8_t)byte : byte;
        }
        for (unsigned i = 0; i < 8; i++)
            b[4 * t + i % 4 + i / 4 * 16][g] = (int8_t)(parts->b[i / 4] >> 8 * (i % 4));
    }
    int products[ROWS][COLUMNS] = {};
    for (int row = 0; row < ROWS; row++) {
        for (int k = 0; k < 32; k++) {
            for (int column = 0; column < COLUMNS; column++)
                products[row][column] += a[row][k] * b[k][column];
        }
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        int *d = ((const Integers *)lanes[lane])->d;
        for (unsigned i = 0; i < 4; i++) {
            if (__builtin_sadd_overflow(d[i], products[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2],
                                        &d[i]))
                fail("a sum of products of bytes overflows");
        }
    }
}

void multiply_bytes(int *d, const uint32_t *a, const uint32_t *b, bool is_a_signed) {
    Integers parts = {d, a, b, is_a_signed};
    meet_lanes("mma of bytes", ~0u, &parts, multiply_lanes_bytes);
}

void multiply_f16(float *d, const uint32_t *a, const uint32_t *b, int depth) {
    Parts parts = {d, a, b};
    if (depth == 16)
        meet_lanes("mma of f16, k 16", ~0u, &parts, multiply_lanes_f16<16>);
    else
        meet_lanes("mma of f16, k 8", ~0u, &parts, multiply_lanes_f16<8>);
}

void multiply_bf16(float *d, const uint32_t *a, const uint32_t *b) {
    Parts parts = {d, a, b};
    meet_lanes("mma of bf16", ~0u, &parts, multiply_lanes_bf16);
}

void multiply_tf32(float *d, const uint32_t *a, const uint32_t *b) {
    Parts parts = {d, a, b};
    meet_lanes("mma of tf32", ~0u, &parts, multiply_lanes_tf32);
}

/* ---- loads ---- */

struct Load {
    uint32_t *parts;
    const void *row;
    bool is_transposed;
};

static void load_lanes(void *const lanes[32], unsigned) {
    const Load *load = (const Load *)lanes[0];
    uint16_t value[8][8];
    for (int i = 0; i < 4; i++) {
        for (int r = 0; r < 8; r++) {
            const void *row = ((const Load *)lanes[8 * i + r])->row;
            if ((uintptr_t)row % 16)
                fail("row %d of matrix %d is at %p, which is no multiple of 16", r, i, row);
            memcpy(value[r], row, sizeof value[r]);
        }
        for (unsigned lane = 0; lane < 32; lane++) {
            unsigned g = lane / 4, t = lane % 4 * 2;
            uint16_t low = load->is_transposed ? value[t][g] : value[g][t];
            uint16_t high = load->is_transposed ? value[t + 1][g] : value[g][t + 1];
            ((const Load *)lanes[lane])->parts[i] = low | (uint32_t)high << 16;
        }
    }
}

void load_matrices(uint32_t *parts, const void *row, bool is_transposed) {
    Load load = {parts, row, is_transposed};
    meet_lanes(is_transposed ? "ldmatrix.x4.trans" : "ldmatrix.x4", ~0u, &load, load_lanes);
}

} // namespace emulated
