/*
 * Two operands with strides to one contiguous output: c = a op b over rows of columns.
 *
 * A thread keeps its column and goes down the rows, several in flight, so that an operand which is
 * the same in all rows stays in registers.  If rows are short, the threads of a block cover several
 * whole rows, so neighbours write neighbouring addresses in any shape.  The address of a row comes
 * from its number by multiplications.
 *
 * An output goes by tiles if L2 keeps a good part of it.  A short block has a part of one row, and
 * accesses are plain, because streamed they would leave L2 first.
 */
#include "kernels/broadcast/broadcast_rows.h"
#include "kernels/device/device.cuh"
#include "kernels/device/math/divide.cuh"
#include "kernels/device/math/arithmetic.cuh"
#include "kernels/device/vector.cuh"

namespace {

typedef cushim_broadcast_rows Rows;
typedef cushim_broadcast_operand Operand;

struct Digits {
    int64_t i0, i1, i2;
};

DEVICE Digits digits_of(const Rows &rows, int64_t row) {
    Digits digits = {0, 0, row};
    if (!rows.is_flat) {
        int64_t rest = divide(row, rows.by_2);
        digits.i2 = row - rest * rows.by_2.by;
        digits.i0 = divide(rest, rows.by_1);
        digits.i1 = rest - digits.i0 * rows.by_1.by;
    }
    return digits;
}

DEVICE const float *row_of(const float *base, const Operand &operand, const Digits &digits) {
    return base + (digits.i0 * operand.strides[0] + digits.i1 * operand.strides[1] +
                   digits.i2 * operand.strides[2]);
}

/* ---- one access: how an operand is read along a row ---- */

struct OneOfMany {
    typedef float Value;
    DEVICE float load(const float *row, const Operand &operand, int64_t col) {
        return row[col * operand.col_stride];
    }
};

struct Vector {
    typedef float4 Value;
    DEVICE float4 load(const float *row, const Operand &, int64_t col) {
        return load_streamed(reinterpret_cast<const float4 *>(row) + col);
    }
};

struct KeptVector {
    typedef float4 Value;
    DEVICE float4 load(const float *row, const Operand &, int64_t col) {
        return reinterpret_cast<const float4 *>(row)[col];
    }
};

/* The same element all along the row. */
struct Scalar {
    typedef float4 Value;
    DEVICE float4 load(const float *row, const Operand &, int64_t) {
        float value = *row;
        return make_float4(value, value, value, value);
    }
};

template <class Op> DEVICE float combine(float a, float b) {
    return Op::of(a, b);
}

template <class Op> DEVICE float4 combine(float4 a, float4 b) {
    return make_float4(Op::of(a.x, b.x), Op::of(a.y, b.y), Op::of(a.z, b.z), Op::of(a.w, b.w));
}

DEVICE void store(float *c, int64_t place, float value) {
    c[place] = value;
}

DEVICE void store(float *c, int64_t place, float4 value) {
    store_streamed(reinterpret_cast<float4 *>(c) + place, value);
}

/* ---- the walk ---- */

template <class Op, class A, class B, int IN_FLIGHT>
DEVICE void broadcast(const float *a, const float *b, float *c, const Rows &rows) {
    typedef typename A::Value Value;
    int64_t row_step = (int64_t)gridDim.y * blockDim.y;
    int64_t col_step = (int64_t)gridDim.x * blockDim.x;
    int64_t first_row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    for (int64_t col = thread_of_grid(); col < rows.n_cols; col += col_step) {
        Value fixed_a = {}, fixed_b = {};
        if (rows.a.is_fixed)
            fixed_a = A::load(a, rows.a, col);
        if (rows.b.is_fixed)
            fixed_b = B::load(b, rows.b, col);
        for (int64_t row = first_row; row < rows.n_rows; row += IN_FLIGHT * row_step) {
            Value values_a[IN_FLIGHT], values_b[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) {
                Digits digits = digits_of(rows, row + k * row_step);
                bool is_in = row + k * row_step < rows.n_rows;
                values_a[k] = fixed_a;
                values_b[k] = fixed_b;
                if (is_in && !rows.a.is_fixed)
                    values_a[k] = A::load(row_of(a, rows.a, digits), rows.a, col);
                if (is_in && !rows.b.is_fixed)
                    values_b[k] = B::load(row_of(b, rows.b, digits), rows.b, col);
            }
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) {
                if (row + k * row_step < rows.n_rows)
                    store(c, (row + k * row_step) * rows.n_cols + col,
                          combine<Op>(values_a[k], values_b[k]));
            }
        }
    }
}

/* ---- tiles ---- */

/* One block of BROADCAST_TILE_THREADS per tile, all tiles whole; the rows are along y. */
template <class Op, class A, class B>
DEVICE void broadcast_tile(const float *a, const float *b, float *c, const Rows &rows) {
    enum { N = BROADCAST_TILE_COLS / BROADCAST_TILE_THREADS };
    int64_t col = (int64_t)blockIdx.x * BROADCAST_TILE_COLS + threadIdx.x;
    Digits digits = digits_of(rows, blockIdx.y);
    const float *row_a = row_of(a, rows.a, digits), *row_b = row_of(b, rows.b, digits);
    float4 *to = reinterpret_cast<float4 *>(c) + blockIdx.y * rows.n_cols + col;
    float4 values_a[N], values_b[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        values_a[k] = A::load(row_a, rows.a, col + k * BROADCAST_TILE_THREADS);
        values_b[k] = B::load(row_b, rows.b, col + k * BROADCAST_TILE_THREADS);
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        to[k * BROADCAST_TILE_THREADS] = combine<Op>(values_a[k], values_b[k]);
}

} // namespace

/*
 * Wide and by tiles: four elements per access. a and b are read as a vector (v) or as one element
 * (s) per row.
 */
#define BROADCAST(word, Op)                                                                        \
    KERNEL(broadcast_##word)(const float *a, const float *b, float *c, Rows rows) {                \
        broadcast<Op, OneOfMany, OneOfMany, 4>(a, b, c, rows);                                     \
    }                                                                                              \
    KERNEL(broadcast_##word##_vv)(const float *a, const float *b, float *c, Rows rows) {           \
        broadcast<Op, Vector, Vector, 2>(a, b, c, rows);                                           \
    }                                                                                              \
    KERNEL(broadcast_##word##_vs)(const float *a, const float *b, float *c, Rows rows) {           \
        broadcast<Op, Vector, Scalar, 2>(a, b, c, rows);                                           \
    }                                                                                              \
    KERNEL(broadcast_##word##_sv)(const float *a, const float *b, float *c, Rows rows) {           \
        broadcast<Op, Scalar, Vector, 2>(a, b, c, rows);                                           \
    }                                                                                              \
    KERNEL(broadcast_##word##_tile_vv)(const float *a, const float *b, float *c, Rows rows) {      \
        broadcast_tile<Op, KeptVector, KeptVector>(a, b, c, rows);                                 \
    }                                                                                              \
    KERNEL(broadcast_##word##_tile_vs)(const float *a, const float *b, float *c, Rows rows) {      \
        broadcast_tile<Op, KeptVector, Scalar>(a, b, c, rows);                                     \
    }                                                                                              \
    KERNEL(broadcast_##word##_tile_sv)(const float *a, const float *b, float *c, Rows rows) {      \
        broadcast_tile<Op, Scalar, KeptVector>(a, b, c, rows);                                     \
    }

BROADCAST(add, Add)
BROADCAST(sub, Sub)
BROADCAST(mul, Mul)
BROADCAST(div, Div)
