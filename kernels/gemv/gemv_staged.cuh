/*
 * The weights of a tile on their way through shared memory: some rows, a chunk of their blocks at
 * a time, in two stages.
 *
 * A row of a chunk is copied as it lies in memory.  Where every row of the matrix starts at a
 * multiple of 16 bytes it is copied by 16, from the multiple at or before the chunk on, and its
 * blocks lie `skew` bytes behind the start of the row; else by units of the format, without a skew.
 */
#ifndef CUSHIM_KERNELS_GEMV_STAGED_CUH
#define CUSHIM_KERNELS_GEMV_STAGED_CUH

#include "kernels/device/arch/async_copy.cuh"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_kernels.h"

/*
 * Shape has m, and is_wide where rows start at multiples of 16.  The first THREADS of a block copy.
 * IS_FULL: no registers are left, so what a chunk's rows share is formed anew for each of them;
 * held over the loop it makes such kernels spill.
 */
template <class Format, class Shape, int ROWS, int CHUNK, int THREADS, bool IS_FULL>
struct StagedRows {
    /* A row of a chunk: at most 8 bytes before it, and an odd multiple of 16 against conflicts. */
    enum { PITCH = GEMV_MMA_PITCH(Format::BYTES, CHUNK), STAGE_BYTES = ROWS * PITCH };
    static_assert(Format::BYTES * CHUNK + Format::BYTES * CHUNK % 16 <= PITCH, "room");
    /* Pieces of 16 bytes of a row: its chunks start at multiples of 16, or it has room for more. */
    enum { CHUNK_BYTES = CHUNK * Format::BYTES, IS_EVEN = CHUNK_BYTES % 16 == 0 };
    enum { PIECES = IS_EVEN ? CHUNK_BYTES / 16 : PITCH / 16 };

    const Shape &shape;
    Weights w;
    uint8_t *stages; /* shared, two times STAGE_BYTES */
    int64_t row0, n_blocks;

    MEMBER int blocks_from(int64_t block0) const {
        return (int)(n_blocks - block0 < CHUNK ? n_blocks - block0 : (int64_t)CHUNK);
    }

    /* Rows beyond the last are the last again; nobody stores them. */
    MEMBER int64_t row_of(int row) const {
        return row0 + row < shape.m ? row0 + row : shape.m - 1;
    }

    /* The last of them that there is. */
    MEMBER int last_row() const {
        return (int)(shape.m - row0 < ROWS ? shape.m - row0 : (int64_t)ROWS) - 1;
    }

    /* How far a chunk's rows start behind a multiple of 16. */
    MEMBER int skew_of(int64_t block0) const {
        return shape.is_wide && !IS_EVEN ? (int)(block0 * Format::BYTES % 16) : 0;
    }

    MEMBER uint8_t *stage_at(int stage) const {
        return stages + stage * STAGE_BYTES;
    }

    MEMBER const uint8_t *row_in(int stage, int skew, int row, int block) const {
        return stage_at(stage) + row * PITCH + skew + block * Format::BYTES;
    }

    /* The chunk from block0 on; who calls commits the copies. */
    MEMBER void copy(int stage, int64_t block0) const {
        int skew = skew_of(block0), n_bytes = blocks_from(block0) * Format::BYTES;
        int64_t row_bytes = n_blocks * Format::BYTES;
        const uint8_t *chunk = w.values + row0 * row_bytes + block0 * Format::BYTES - skew;
        int last = last_row();
        auto from = [&](int row, int before) {
            return IS_FULL ? w.values + (row_of(row) * n_blocks + block0) * Format::BYTES - before
                           : chunk + (unsigned)(row < last ? row : last) * row_bytes;
        };
        if (shape.is_wide) {
            int n_pieces = (skew + n_bytes + 15) / 16;
#pragma unroll 4
            for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
                int row = i / PIECES, piece = i % PIECES;
                if (piece < n_pieces)
                    copy_async_16(stage_at(stage) + row * PITCH + 16 * piece,
                                  from(row, skew) + 16 * piece);
            }
        } else {
            enum { UNITS = CHUNK * Format::BYTES / Format::UNIT }; /* skew is 0 */
            for (int i = threadIdx.x; i < ROWS * UNITS; i += THREADS) {
                int row = i / UNITS, byte = i % UNITS * Format::UNIT;
                if (byte < n_bytes)
                    copy_unit<Format::UNIT>(stage_at(stage) + row * PITCH + byte,
                                            from(row, 0) + byte);
            }
        }
    }

    template <int BYTES> MEMBER static void copy_unit(uint8_t *to, const uint8_t *from) {
        if (BYTES == 4)
            *reinterpret_cast<uint32_t *>(to) = __ldg(reinterpret_cast<const uint32_t *>(from));
        else if (BYTES == 2)
            *reinterpret_cast<uint16_t *>(to) = __ldg(reinterpret_cast<const uint16_t *>(from));
        else
            *to = __ldg(from);
    }
};

#endif
