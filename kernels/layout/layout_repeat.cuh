/*
 * Repetition: x as rows [n_rows][row], y as [n_rows][reps][row].
 *
 * Either a thread reads a few pieces of x once and writes them reps times.  Or it writes the pieces
 * of y in order and reads x from the caches, if x is too small for the first way to fill the
 * device, or its rows are too short to write whole lines.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_REPEAT_CUH
#define CUSHIM_KERNELS_LAYOUT_REPEAT_CUH

#include "kernels/device/math/divide.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/layout/layout.h"

namespace {

DEVICE void store_piece(uint32_t *to, uint32_t piece) {
    *to = piece;
}

DEVICE void store_piece(uint4 *to, uint4 piece) {
    store_streamed(to, piece);
}

/* n pieces of x, `row` in each row. */
template <class Piece, class Number>
DEVICE void repeat_by_input(const Piece *x, Piece *y, int64_t n, const struct cushim_divider &row,
                            int64_t reps) {
    constexpr int N_FLYING = LAYOUT_REPEAT_FLYING;
    int64_t width = (int64_t)row.by, step = (int64_t)N_FLYING * threads_of_grid();
    int64_t at = (int64_t)N_FLYING * blockDim.x * blockIdx.x + threadIdx.x;
    for (; at < n; at += step) {
        Piece pieces[N_FLYING], *to[N_FLYING];
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            int64_t from = at + k * blockDim.x, i = (int64_t)divide((Number)from, row);
            to[k] = y + i * reps * width + (from - i * width);
            if (from < n)
                pieces[k] = __ldg(x + from);
        }
#pragma unroll 1 /* loading ahead would take the registers that more blocks need */
        for (int64_t r = 0; r < reps; r++) {
#pragma unroll
            for (int k = 0; k < N_FLYING; k++) {
                if (at + k * blockDim.x < n)
                    store_piece(to[k], pieces[k]);
                to[k] += width;
            }
        }
    }
}

/* n pieces of y; `row` is a row of x and `rows` all its repetitions. */
template <class Piece, class Number>
DEVICE void repeat_by_output(const Piece *x, Piece *y, int64_t n, const struct cushim_divider &row,
                             const struct cushim_divider &rows) {
    constexpr int N_FLYING = 4;
    int64_t step = (int64_t)N_FLYING * threads_of_grid();
    int64_t at = (int64_t)N_FLYING * blockDim.x * blockIdx.x + threadIdx.x;
    for (; at < n; at += step) {
        Piece pieces[N_FLYING];
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            Number to = (Number)(at + k * blockDim.x);
            if (at + k * blockDim.x < n) {
                Number i = divide(to, rows), column = to - divide(to, row) * (Number)row.by;
                pieces[k] = __ldg(x + (int64_t)i * (int64_t)row.by + column);
            }
        }
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            if (at + k * blockDim.x < n)
                y[at + k * blockDim.x] = pieces[k];
        }
    }
}

} // namespace

/* ... and the same for 2^31 pieces and more. */
#define REPEAT(bytes, Piece)                                                                       \
    KERNEL(layout_repeat_##bytes)                                                                  \
    (const Piece *x, Piece *y, int64_t n, struct cushim_divider row, int64_t reps) {               \
        repeat_by_input<Piece, uint32_t>(x, y, n, row, reps);                                      \
    }                                                                                              \
    KERNEL(layout_repeat_##bytes##_large)                                                          \
    (const Piece *x, Piece *y, int64_t n, struct cushim_divider row, int64_t reps) {               \
        repeat_by_input<Piece, uint64_t>(x, y, n, row, reps);                                      \
    }                                                                                              \
    KERNEL(layout_repeat_##bytes##_out)                                                            \
    (const Piece *x, Piece *y, int64_t n, struct cushim_divider row, struct cushim_divider rows) { \
        repeat_by_output<Piece, uint32_t>(x, y, n, row, rows);                                     \
    }                                                                                              \
    KERNEL(layout_repeat_##bytes##_out_large)                                                      \
    (const Piece *x, Piece *y, int64_t n, struct cushim_divider row, struct cushim_divider rows) { \
        repeat_by_output<Piece, uint64_t>(x, y, n, row, rows);                                     \
    }

REPEAT(4, uint32_t)
REPEAT(16, uint4)

#endif
