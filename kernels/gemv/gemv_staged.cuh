/*
 * The weights of a tile on their way through shared memory: some rows, a chunk of their blocks at a
 * time, in two stages.  Blocks there become parts of a matrix product: a lane's integers of a row,
 * exact in binary16, and the row's scale.
 *
 * A row of a chunk is copied as it lies in memory.  If every row of the matrix starts at a multiple
 * of 16 bytes, it is copied by 16, from the multiple at or before the chunk on, and its blocks lie
 * `skew` bytes behind the start of the row.  Otherwise it is copied by units of the format, without
 * a skew.
 */
#ifndef CUSHIM_KERNELS_GEMV_STAGED_CUH
#define CUSHIM_KERNELS_GEMV_STAGED_CUH

#include "kernels/device/arch/async_copy.cuh"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_kernels.h"

/* ---- a word of integers to four rows of a fragment ---- */

/*
 * The k slots of a product have values in our own order: of the 16 values v of a half block, slots
 * 2t, 2t + 1 are v = 4t, 4t + 2, and slots 2t + 8, 2t + 9 are v = 4t + 1, 4t + 3.  So a lane's are
 * four neighbours, as the formats have them.
 */
struct Fragment {
    uint32_t of[2][2]; /* [half of the block][slots below 8, from 8 on] */
};

/* Word t of 32 nibbles has values 4t .. 4t + 3 and 16 more than those. */
DEVICE Fragment fragment_of_nibbles(uint32_t word) {
    const uint16_t one = 0x3C00, sixteenth = 0x2C00, less_1032 = 0xE408, less_72 = 0xD480;
    uint32_t next = word >> 8;
    return {{{fma_f16x2(masked_or(word, 0x000F000F, 0x64006400), one, less_1032),
              fma_f16x2(masked_or(next, 0x000F000F, 0x64006400), one, less_1032)},
             {fma_f16x2(masked_or(word, 0x00F000F0, 0x64006400), sixteenth, less_72),
              fma_f16x2(masked_or(next, 0x00F000F0, 0x64006400), sixteenth, less_72)}}};
}

/* Words t and t + 4 of 32 bytes. */
DEVICE Fragment fragment_of_bytes(uint32_t first, uint32_t second) {
    const uint16_t one = 0x3C00, less_1152 = 0xE480;
    first ^= 0x80808080;
    second ^= 0x80808080;
    return {{{fma_f16x2(__byte_perm(first, 0x64646464, 0x4240), one, less_1152),
              fma_f16x2(__byte_perm(first, 0x64646464, 0x4341), one, less_1152)},
             {fma_f16x2(__byte_perm(second, 0x64646464, 0x4240), one, less_1152),
              fma_f16x2(__byte_perm(second, 0x64646464, 0x4341), one, less_1152)}}};
}

/* ---- a block in shared memory, at a multiple of 2 bytes ---- */

DEVICE uint32_t shared_word(const uint8_t *from) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(from);
    return halves[0] | (uint32_t)halves[1] << 16;
}

template <class Format> struct Staged;

template <> struct Staged<Q4_0> {
    DEVICE Fragment fragment(const uint8_t *block, int t) {
        return fragment_of_nibbles(reinterpret_cast<const uint32_t *>(block)[t]);
    }
    DEVICE float scale(const uint8_t *, const uint16_t *scales) {
        return f32_of_f16(*scales);
    }
    DEVICE int value(const uint8_t *block, int i) {
        return (i < 16 ? block[i] & 15 : block[i - 16] >> 4) - 8;
    }
};

template <> struct Staged<Q8_0> {
    DEVICE Fragment fragment(const uint8_t *block, int t) {
        const uint8_t *values = block + Q8_0::SCALE_BYTES;
        return fragment_of_bytes(shared_word(values + 4 * t), shared_word(values + 4 * t + 16));
    }
    DEVICE float scale(const uint8_t *block, const uint16_t *) {
        return f32_of_f16(*reinterpret_cast<const uint16_t *>(block));
    }
    DEVICE int value(const uint8_t *block, int i) {
        return (int8_t)block[Q8_0::SCALE_BYTES + i];
    }
};

template <> struct Staged<Q8f> {
    DEVICE Fragment fragment(const uint8_t *block, int t) {
        const uint32_t *words = reinterpret_cast<const uint32_t *>(block + Q8f::SCALE_BYTES);
        return fragment_of_bytes(words[t], words[t + 4]);
    }
    DEVICE float scale(const uint8_t *block, const uint16_t *) {
        return *reinterpret_cast<const float *>(block);
    }
    DEVICE int value(const uint8_t *block, int i) {
        return (int8_t)block[Q8f::SCALE_BYTES + i];
    }
};

/* ---- the stages ---- */

/*
 * Shape has m, and is_wide if rows start at multiples of 16.  The first THREADS of a block copy.
 * IS_FULL: no registers are left, so values that a chunk's rows share are computed anew for each
 * row; kept over the loop they make such kernels spill.
 */
template <class Format, class Shape, int ROWS, int CHUNK, int THREADS, bool IS_FULL>
struct StagedRows {
    /* A row of a chunk: at most 8 bytes before it, and an odd multiple of 16 against bank
     * conflicts. */
    enum { PITCH = GEMV_MMA_PITCH(Format::BYTES, CHUNK), STAGE_BYTES = ROWS * PITCH };
    static_assert(Format::BYTES * CHUNK + Format::BYTES * CHUNK % 16 <= PITCH, "room");
    /* Pieces of 16 bytes of a row: its chunks start at multiples of 16, or it has room for more. */
    enum { CHUNK_BYTES = CHUNK * Format::BYTES, IS_EVEN = CHUNK_BYTES % 16 == 0 };
    enum { PIECES = IS_EVEN ? CHUNK_BYTES / 16 : PITCH / 16 };

    const Shape &shape;
    Weights w;
    uint8_t *stages; /* in shared memory, two times STAGE_BYTES */
    int64_t row0, n_blocks;

    MEMBER int blocks_from(int64_t block0) const {
        return (int)(n_blocks - block0 < CHUNK ? n_blocks - block0 : (int64_t)CHUNK);
    }

    /* Rows beyond the last repeat it, and are not stored. */
    MEMBER int64_t row_of(int row) const {
        return row0 + row < shape.m ? row0 + row : shape.m - 1;
    }

    /* The last row that exists. */
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

    /* Copy the chunk from block0 on; the caller commits the copies. */
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
