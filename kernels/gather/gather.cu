/*
 * Gather: out[i, :] = table[clamp(idx[i]), :].
 *
 * The output is walked as one range of pieces, 16 or 4 bytes each.  A block writes a stretch of it
 * with several pieces of each thread in flight, whatever rows they belong to.  All threads of a row
 * read the index, which comes from the caches after the first.
 */
#include "kernels/device/math/divide.cuh"
#include "kernels/device/vector.cuh"

namespace {

/* Clamped in its own width, so that no bit is lost before. */
template <class Index> DEVICE int64_t clamp(Index index, int64_t v) {
    return index < 0 ? 0 : (int64_t)index >= v ? v - 1 : (int64_t)index;
}

DEVICE uint32_t load_piece(const uint32_t *from) {
    return __ldg(from);
}

DEVICE uint4 load_piece(const uint4 *from) {
    return load_streamed(from);
}

DEVICE void store_piece(uint32_t *to, uint32_t piece) {
    *to = piece;
}

DEVICE void store_piece(uint4 *to, uint4 piece) {
    store_streamed(to, piece);
}

/* n pieces of the output, `row` of them in a row; Number is wide enough for n. */
template <int N_FLYING, class Piece, class Index, class Number>
DEVICE void gather_pieces(const Piece *table, const Index *idx, Piece *out, int64_t n,
                          const struct cushim_divider &row, int64_t v) {
    int64_t step = (int64_t)N_FLYING * threads_of_grid();
    int64_t at = (int64_t)N_FLYING * blockDim.x * blockIdx.x + threadIdx.x;
    for (; at < n; at += step) {
        Piece pieces[N_FLYING];
        Index indices[N_FLYING]; /* all are asked for before the first is waited for */
        Number columns[N_FLYING];
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            int64_t to = at + k * blockDim.x;
            if (to < n) {
                Number i = divide((Number)to, row);
                columns[k] = (Number)to - i * (Number)row.by;
                indices[k] = __ldg(idx + i);
            }
        }
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            if (at + k * blockDim.x < n)
                pieces[k] = load_piece(table + clamp(indices[k], v) * (int64_t)row.by + columns[k]);
        }
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            int64_t to = at + k * blockDim.x;
            if (to < n)
                store_piece(out + to, pieces[k]);
        }
    }
}

/* A few pieces have one thread each, which waits for one index and one row. */
template <class Piece, class Index, class Number>
DEVICE void gather(const Piece *table, const Index *idx, Piece *out, int64_t n,
                   const struct cushim_divider &row, int64_t v) {
    if (n <= threads_of_grid())
        gather_pieces<1, Piece, Index, Number>(table, idx, out, n, row, v);
    else
        gather_pieces<4, Piece, Index, Number>(table, idx, out, n, row, v);
}

} // namespace

/* ... and the same for outputs of 2^31 pieces and more. */
#define GATHER(name, Piece, Index)                                                                 \
    KERNEL(gather_##name)                                                                          \
    (const Piece *table, const Index *idx, Piece *out, int64_t n, struct cushim_divider row,       \
     int64_t v) {                                                                                  \
        gather<Piece, Index, uint32_t>(table, idx, out, n, row, v);                                \
    }                                                                                              \
    KERNEL(gather_##name##_large)                                                                  \
    (const Piece *table, const Index *idx, Piece *out, int64_t n, struct cushim_divider row,       \
     int64_t v) {                                                                                  \
        gather<Piece, Index, uint64_t>(table, idx, out, n, row, v);                                \
    }

GATHER(i64, uint32_t, int64_t)
GATHER(i64_wide, uint4, int64_t)
GATHER(i32, uint32_t, int32_t)
GATHER(i32_wide, uint4, int32_t)

/* A thread has a value; blocks of 36 bytes have a float scale and 32 bytes. */
KERNEL(gather_q8f)
(const uint8_t *table, const int32_t *idx, float *out, int64_t n, int64_t d, int64_t v) {
    enum { VALUES = 32, BYTES = 36 };
    for (int64_t to = thread_of_grid(); to < n; to += threads_of_grid()) {
        int64_t row = to / d, at = to - row * d;
        const uint8_t *block =
            table + (clamp(__ldg(idx + row), v) * (d / VALUES) + at / VALUES) * BYTES;
        int8_t q = (int8_t)block[4 + at % VALUES];
        out[to] = __fmul_rn(*reinterpret_cast<const float *>(block), (float)q);
    }
}
