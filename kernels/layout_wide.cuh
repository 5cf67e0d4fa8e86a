/*
 * The tiles of layout_tile.cuh where rows and columns go 16 bytes at a time: units of 4 and of 2
 * bytes, 64 by 64.
 *
 * The tile is kept in shared memory as it is read, in pieces of 16 bytes; within a row a piece is
 * at its number XOR the row's group, a group being the rows that make up 16 bytes of the output. So
 * the eight lanes that write a row's pieces use all banks, and so do the lanes that pick one column
 * of eight groups.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_WIDE_CUH
#define CUSHIM_KERNELS_LAYOUT_WIDE_CUH

#include "kernels/layout_tile.cuh"

namespace {

constexpr int WIDE_SIDE = 64;

/* The piece's place in shared memory, where a row has N_PIECES. */
template <int N_PIECES> DEVICE int place_of_piece(int row, int piece) {
    constexpr int GROUP = WIDE_SIDE / N_PIECES;
    return row * N_PIECES + (piece ^ (row / GROUP & 7));
}

/* N_PIECES a row: 16 of four units, or 8 of eight. */
template <int N_PIECES, class Unit>
DEVICE void read_pieces(uint4 *shared, const Unit *src, const Corner &corner,
                        const struct layout_tile &tile) {
    constexpr int N_UNITS = WIDE_SIDE / N_PIECES, STEP = TILE_THREADS / N_PIECES,
                  N_ROWS = WIDE_SIDE / STEP;
    int piece = (int)threadIdx.x % N_PIECES, row = (int)threadIdx.x / N_PIECES;
    bool is_inside = corner.b + piece * N_UNITS < tile.n_b;
    uint4 pieces[N_ROWS]; /* all in flight */
#pragma unroll
    for (int k = 0; k < N_ROWS; k++) {
        int64_t a = corner.a + row + k * STEP;
        if (is_inside && a < tile.n_a)
            pieces[k] = load_streamed(reinterpret_cast<const uint4 *>(
                src + corner.from + source_of_a(a, tile) + corner.b + piece * N_UNITS));
    }
#pragma unroll
    for (int k = 0; k < N_ROWS; k++)
        shared[place_of_piece<N_PIECES>(row + k * STEP, piece)] = pieces[k];
}

template <class Unit>
DEVICE void write_piece(Unit *dst, const Corner &corner, const struct layout_tile &tile, int a,
                        int b, uint4 piece) {
    if (corner.a + a < tile.n_a && corner.b + b < tile.n_b)
        store_streamed(reinterpret_cast<uint4 *>(dst + corner.to + output_of_b(corner.b + b, tile) +
                                                 corner.a + a),
                       piece);
}

/* Eight lanes write 128 bytes of a column, the four eights of a warp columns side by side. */
DEVICE void write_columns_of_4(uint32_t *dst, const uint4 *shared, const Corner &corner,
                               const struct layout_tile &tile) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = warp; k < 32; k += TILE_WARPS) {
        int piece = k / 2, group = k % 2 * 8 + lane % 8, column = lane / 8;
        uint32_t units[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            units[u] = words[place_of_piece<16>(group * 4 + u, piece) * 4 + column];
        write_piece(dst, corner, tile, group * 4, piece * 4 + column,
                    make_uint4(units[0], units[1], units[2], units[3]));
    }
}

/* The low halves of two words, and the high ones. */
DEVICE uint32_t low_halves(uint32_t first, uint32_t second) {
    return (first & 0xffff) | second << 16;
}

DEVICE uint32_t high_halves(uint32_t first, uint32_t second) {
    return first >> 16 | (second & 0xffff0000);
}

/* The same with two columns a thread, which share the words that it picks. */
DEVICE void write_columns_of_2(uint16_t *dst, const uint4 *shared, const Corner &corner,
                               const struct layout_tile &tile) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(shared);
    int piece = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int group = lane % 8, pair = lane / 8;
    uint32_t units[8];
#pragma unroll
    for (int u = 0; u < 8; u++)
        units[u] = words[place_of_piece<8>(group * 8 + u, piece) * 4 + pair];
    write_piece(dst, corner, tile, group * 8, piece * 8 + pair * 2,
                make_uint4(low_halves(units[0], units[1]), low_halves(units[2], units[3]),
                           low_halves(units[4], units[5]), low_halves(units[6], units[7])));
    write_piece(dst, corner, tile, group * 8, piece * 8 + pair * 2 + 1,
                make_uint4(high_halves(units[0], units[1]), high_halves(units[2], units[3]),
                           high_halves(units[4], units[5]), high_halves(units[6], units[7])));
}

} // namespace

#define WIDE_TILE(bytes, Unit, n_pieces)                                                           \
    KERNEL(layout_tile_##bytes##_wide)(const Unit *src, Unit *dst, struct layout_tile tile) {      \
        __shared__ uint4 shared[WIDE_SIDE * n_pieces];                                             \
        for (int64_t number = blockIdx.x; number < tile.n_tiles; number += gridDim.x) {            \
            Corner corner = corner_of(number, tile, WIDE_SIDE);                                    \
            read_pieces<n_pieces>(shared, src, corner, tile);                                      \
            __syncthreads();                                                                       \
            write_columns_of_##bytes(dst, shared, corner, tile);                                   \
            __syncthreads();                                                                       \
        }                                                                                          \
    }

WIDE_TILE(2, uint16_t, 8)
WIDE_TILE(4, uint32_t, 16)

#endif
