/*
 * The tiles of layout_tile.cuh if rows and columns go 16 bytes at a time: units of 4 and of 2
 * bytes, 64 by 64; units of 4 also 32 by 128 and 128 by 32, if there are no more than 32 along one
 * side.  A block has one tile, and coordinates are below 2^31, because instructions would otherwise
 * be the limit.
 *
 * Shared memory holds the tile as it is read, in pieces of 16 bytes.  Within a row a piece is at
 * its number XOR the row's group; a group are the rows that make up 16 bytes of the output.  So the
 * eight lanes that write a row's pieces use all banks, and so do the lanes that pick one column of
 * eight groups.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_WIDE_CUH
#define CUSHIM_KERNELS_LAYOUT_WIDE_CUH

#include "kernels/layout/layout_tile.cuh"

namespace {

/* The piece's place in shared memory if a row has N_PIECES of N_UNITS. */
template <int N_PIECES, int N_UNITS> DEVICE unsigned place_of_piece(unsigned row, unsigned piece) {
    return row * N_PIECES + (piece ^ (row / N_UNITS & 7));
}

/* A rows with B units. */
template <int A, int B, class Unit>
DEVICE void read_pieces(uint4 *shared, const Unit *src, const Corner<uint32_t> &corner,
                        const struct layout_tile &tile) {
    constexpr int N_UNITS = sizeof(uint4) / sizeof(Unit), N_PIECES = B / N_UNITS,
                  STEP = TILE_THREADS / N_PIECES, N_ROWS = A / STEP;
    unsigned piece = threadIdx.x % N_PIECES, row = threadIdx.x / N_PIECES;
    bool is_inside = corner.b + piece * N_UNITS < (uint32_t)tile.n_b;
    uint4 pieces[N_ROWS]; /* all in flight */
#pragma unroll
    for (int k = 0; k < N_ROWS; k++) {
        uint32_t a = corner.a + row + k * STEP;
        if (is_inside && a < (uint32_t)tile.n_a)
            pieces[k] = load_streamed(reinterpret_cast<const uint4 *>(
                src + corner.from + source_of_a(a, tile) + corner.b + piece * N_UNITS));
    }
#pragma unroll
    for (int k = 0; k < N_ROWS; k++)
        shared[place_of_piece<N_PIECES, N_UNITS>(row + k * STEP, piece)] = pieces[k];
}

template <class Unit>
DEVICE void write_piece(Unit *dst, const Corner<uint32_t> &corner, const struct layout_tile &tile,
                        unsigned a, unsigned b, uint4 piece) {
    if (corner.a + a < (uint32_t)tile.n_a && corner.b + b < (uint32_t)tile.n_b)
        store_streamed(reinterpret_cast<uint4 *>(dst + corner.to + output_of_b(corner.b + b, tile) +
                                                 corner.a + a),
                       piece);
}

/*
 * Eight lanes write 128 bytes of a column; the four groups of eight in a warp have neighbouring
 * columns.
 */
template <int A, int B>
DEVICE void write_columns(uint32_t *dst, const uint4 *shared, const Corner<uint32_t> &corner,
                          const struct layout_tile &tile) {
    constexpr int N_EIGHTS = A / 32, N_PIECES = B / 4;
    const uint32_t *words = reinterpret_cast<const uint32_t *>(shared);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < N_EIGHTS * N_PIECES / TILE_WARPS; j++) {
        unsigned k = warp + j * TILE_WARPS;
        unsigned piece = k / N_EIGHTS, group = k % N_EIGHTS * 8 + lane % 8, column = lane / 8;
        uint32_t units[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            units[u] = words[place_of_piece<N_PIECES, 4>(group * 4 + u, piece) * 4 + column];
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

/* The same for 64 by 64 with two columns per thread, which share the words that it picks. */
template <int A, int B>
DEVICE void write_columns(uint16_t *dst, const uint4 *shared, const Corner<uint32_t> &corner,
                          const struct layout_tile &tile) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(shared);
    unsigned piece = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned group = lane % 8, pair = lane / 8;
    uint32_t units[8];
#pragma unroll
    for (int u = 0; u < 8; u++)
        units[u] = words[place_of_piece<8, 8>(group * 8 + u, piece) * 4 + pair];
    write_piece(dst, corner, tile, group * 8, piece * 8 + pair * 2,
                make_uint4(low_halves(units[0], units[1]), low_halves(units[2], units[3]),
                           low_halves(units[4], units[5]), low_halves(units[6], units[7])));
    write_piece(dst, corner, tile, group * 8, piece * 8 + pair * 2 + 1,
                make_uint4(high_halves(units[0], units[1]), high_halves(units[2], units[3]),
                           high_halves(units[4], units[5]), high_halves(units[6], units[7])));
}

} // namespace

#define WIDE_TILE(name, Unit, side_a, side_b)                                                      \
    KERNEL_OF(TILE_THREADS, 4, layout_tile_##name)                                                 \
    (const Unit *src, Unit *dst, struct layout_tile tile) {                                        \
        __shared__ uint4 shared[side_a * side_b * sizeof(Unit) / sizeof(uint4)];                   \
        Corner<uint32_t> corner = corner_of((uint32_t)blockIdx.x, tile, side_a, side_b);           \
        read_pieces<side_a, side_b>(shared, src, corner, tile);                                    \
        __syncthreads();                                                                           \
        write_columns<side_a, side_b>(dst, shared, corner, tile);                                  \
    }

WIDE_TILE(2_wide, uint16_t, 64, 64)
WIDE_TILE(4_wide, uint32_t, 64, 64)
WIDE_TILE(4_low, uint32_t, 32, 128)
WIDE_TILE(4_narrow, uint32_t, 128, 32)

#endif
