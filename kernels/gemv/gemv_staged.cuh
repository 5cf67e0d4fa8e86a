/*
 * The weights of a tile on their way through shared memory: some rows, a chunk of their blocks at a
 * time, in two stages.  Blocks there become parts of a matrix product: a lane's integers of a row,
 * exact in binary16, and the row's scale.
 *
 * A row of a chunk is copied as it lies in memory.  If every row of the matrix starts at a multiple
 * of 16 bytes, it is copied by 16, from the multiple at or before the chunk on, and its blocks lie
 * `skew` bytes behind the start of the row.  Otherwise it is copied by units of the format, without
 * a skew.  Rows of super-blocks may start at any even place, if the matrix starts and ends at a
 * multiple of 16.
 */
#ifndef CUSHIM_KERNELS_GEMV_STAGED_CUH
#define CUSHIM_KERNELS_GEMV_STAGED_CUH

#include "kernels/device/arch/async_copy.cuh"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_kernels.h"
#include "kernels/device/math/bf16.cuh"

/* ---- a word of integers to four rows of a fragment ---- */

/*
 * The k slots of a product have values in our own order: of the 16 values v of a half block, slots
 * 2t, 2t + 1 are v = 4t, 4t + 2, and slots 2t + 8, 2t + 9 are v = 4t + 1, 4t + 3.  So a lane's are
 * four neighbours, as the formats have them.
 */
struct Fragment {
    uint32_t of[2][2];   /* [half of the block][slots below 8, from 8 on] */
    uint32_t rest[2][2]; /* what is to be added to them, if a format HAS_REST */
};

/* Word t of 32 nibbles has values 4t .. 4t + 3 and 16 more than those. */
DEVICE Fragment fragment_of_nibbles(uint32_t word) {
    const uint16_t one = 0x3C00, sixteenth = 0x2C00, less_1032 = 0xE408, less_72 = 0xD480;
    uint32_t next = word >> 8;
    return {{{fma_f16x2(masked_or(word, 0x000F000F, 0x64006400), one, less_1032),
              fma_f16x2(masked_or(next, 0x000F000F, 0x64006400), one, less_1032)},
             {fma_f16x2(masked_or(word, 0x00F000F0, 0x64006400), sixteenth, less_72),
              fma_f16x2(masked_or(next, 0x00F000F0, 0x64006400), sixteenth, less_72)}},
            {}};
}

/* Words t and t + 4 of 32 bytes. */
DEVICE Fragment fragment_of_bytes(uint32_t first, uint32_t second) {
    const uint16_t one = 0x3C00, less_1152 = 0xE480;
    first ^= 0x80808080;
    second ^= 0x80808080;
    return {{{fma_f16x2(__byte_perm(first, 0x64646464, 0x4240), one, less_1152),
              fma_f16x2(__byte_perm(first, 0x64646464, 0x4341), one, less_1152)},
             {fma_f16x2(__byte_perm(second, 0x64646464, 0x4240), one, less_1152),
              fma_f16x2(__byte_perm(second, 0x64646464, 0x4341), one, less_1152)}},
            {}};
}

/* ---- a block in shared memory, at a multiple of 2 bytes ---- */

DEVICE uint32_t shared_word(const uint8_t *from) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(from);
    return halves[0] | (uint32_t)halves[1] << 16;
}

/*
 * A format has: the Place of a group in a stage; fragment(), of its block i; scale(), of the group;
 * if it HAS_MINIMA their slots and factor; weight(), value i of a block in memory.
 */
template <class Format> struct Staged;

struct StagedBlock {
    typedef const uint8_t *Place;
    DEVICE Place staged(const uint8_t *block, int) {
        return block;
    }
};

template <> struct Staged<Q4_0> : StagedBlock {
    DEVICE Fragment fragment(Place block, int, int t) {
        return fragment_of_nibbles(reinterpret_cast<const uint32_t *>(block)[t]);
    }
    DEVICE float scale(const uint8_t *, const uint16_t *scales) {
        return f32_of_f16(*scales);
    }
    DEVICE float weight(const Weights &w, int64_t block, int i) {
        int byte = w.values[block * Q4_0::BYTES + i % 16];
        return scale(nullptr, reinterpret_cast<const uint16_t *>(w.scales) + block) *
               (float)((i < 16 ? byte & 15 : byte >> 4) - 8);
    }
};

template <> struct Staged<Q8_0> : StagedBlock {
    DEVICE Fragment fragment(Place block, int, int t) {
        const uint8_t *values = block + Q8_0::SCALE_BYTES;
        return fragment_of_bytes(shared_word(values + 4 * t), shared_word(values + 4 * t + 16));
    }
    DEVICE float scale(const uint8_t *block, const uint16_t *) {
        return f32_of_f16(*reinterpret_cast<const uint16_t *>(block));
    }
    DEVICE float weight(const Weights &w, int64_t block, int i) {
        const uint8_t *from = w.values + block * Q8_0::BYTES;
        return scale(from, nullptr) * (float)(int8_t)from[Q8_0::SCALE_BYTES + i];
    }
};

template <> struct Staged<Q8f> : StagedBlock {
    DEVICE Fragment fragment(Place block, int, int t) {
        const uint32_t *words = reinterpret_cast<const uint32_t *>(block + Q8f::SCALE_BYTES);
        return fragment_of_bytes(words[t], words[t + 4]);
    }
    DEVICE float scale(const uint8_t *block, const uint16_t *) {
        return *reinterpret_cast<const float *>(block);
    }
    DEVICE float weight(const Weights &w, int64_t block, int i) {
        const uint8_t *from = w.values + block * Q8f::BYTES;
        return scale(from, nullptr) * (float)(int8_t)from[Q8f::SCALE_BYTES + i];
    }
};

/* ---- the stages ---- */

/* The multiple of 16 at or before an address in a matrix. */
DEVICE const uint8_t *floor_16(const uint8_t *from) {
    return from - reinterpret_cast<uintptr_t>(from) % 16;
}

/* Where a copy by 16 begins, of the blocks of a row in this layout of chunks. */
template <class Layout> DEVICE const uint8_t *start_of_copy(const uint8_t *blocks) {
    return Layout::HAS_SKEW ? floor_16(blocks) : blocks;
}

/* How blocks of a chunk lie in memory and in a row of a stage: one behind the other, or as groups
 * of super-blocks, each of some pieces of 16 bytes. */
template <class Format, int CHUNK, bool IS_SUPER = Format::GROUP != 1> struct ChunkLayout {
    enum { BLOCK_BYTES = Format::BYTES, BYTES = CHUNK * BLOCK_BYTES, HAS_SKEW = BYTES % 16 != 0 };
    enum { PIECES = (BYTES + BYTES % 16 + 15) / 16, SLICE_BYTES = 8 * BLOCK_BYTES };

    MEMBER static int64_t bytes_before(int64_t block) {
        return block * Format::BYTES;
    }
    /* Where a byte of a row is, behind the multiple of 16 that the chunk starts at. */
    MEMBER static int source(int64_t, int byte) {
        return byte;
    }
    MEMBER static bool has_piece(int piece, int skew, int n_blocks) {
        return 16 * piece < skew + n_blocks * Format::BYTES;
    }
    MEMBER static bool has_byte(int64_t, int byte, int n_blocks) {
        return byte < n_blocks * Format::BYTES;
    }
};

/* A row of these has whole chunks. */
template <class Format, int CHUNK> struct ChunkLayout<Format, CHUNK, true> {
    enum { GROUPS = CHUNK / Format::GROUP, PIECES = GROUPS * Format::PIECES };
    enum { BLOCK_BYTES = Format::PIECES * 16 / Format::GROUP };
    enum { SLICE_BYTES = Format::SUPER_BYTES, HAS_SKEW = SLICE_BYTES % 16 != 0 };

    MEMBER static int64_t bytes_before(int64_t block) {
        return block / 8 * Format::SUPER_BYTES;
    }
    MEMBER static int source(int64_t block0, int byte) {
        int piece = byte / 16, group = (int)(block0 / Format::GROUP) + piece / Format::PIECES;
        return Format::source(group % 2, piece % Format::PIECES) + byte % 16;
    }
    MEMBER static bool has_piece(int, int, int) {
        return true;
    }
    MEMBER static bool has_byte(int64_t block0, int byte, int) {
        return source(block0, byte) < Format::SUPER_BYTES;
    }
};

/*
 * Shape has m, and is_wide if rows are copied by 16 bytes.  The first THREADS of a block copy.
 * IS_FULL: no registers are left, so values that a chunk's rows share are computed anew for each
 * row; kept over the loop they make such kernels spill.
 */
template <class Format, class Shape, int ROWS, int CHUNK, int THREADS, bool IS_FULL>
struct StagedRows {
    /* A row of a chunk has at most 8 bytes before it. */
    typedef ChunkLayout<Format, CHUNK> Layout;
    enum { PITCH = GEMV_MMA_PITCH(Layout::BLOCK_BYTES, CHUNK) };
    enum { STAGE_BYTES = GEMV_MMA_STAGE(ROWS, Layout::BLOCK_BYTES, CHUNK) };
    enum { PIECES = Layout::PIECES };
    static_assert(PIECES * 16 <= PITCH, "room");

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

    /* How far a row of a chunk starts behind a multiple of 16.  Rows 8 apart are alike. */
    MEMBER int skew_of(int64_t block0, int row) const {
        unsigned bytes = (unsigned)Layout::bytes_before(block0);
        if (Format::GROUP > 1)
            bytes += row % 8 * (unsigned)Layout::bytes_before(n_blocks);
        return shape.is_wide && Layout::HAS_SKEW ? (int)(bytes % 16) : 0;
    }

    MEMBER uint8_t *stage_at(int stage) const {
        return stages + stage * STAGE_BYTES;
    }

    /* Of a row of a stage; that of a sum of multiples of 4 and another row is the sum of theirs. */
    MEMBER static constexpr int place_of(int row) {
        return GEMV_MMA_PLACE(row, PITCH);
    }

    /* The place of a group of blocks in a stage. */
    MEMBER typename Staged<Format>::Place place_in(int stage, int skew, int row, int group,
                                                   int64_t block0) const {
        return Staged<Format>::staged(stage_at(stage) + place_of(row) + skew +
                                          group * (Format::GROUP * Layout::BLOCK_BYTES),
                                      (int)(block0 / Format::GROUP + group) % 2);
    }

    /* Copy the chunk from block0 on; the caller commits the copies. */
    MEMBER void copy(int stage, int64_t block0) const {
        int n_blocks_here = blocks_from(block0);
        int64_t row_bytes = Layout::bytes_before(n_blocks), before = Layout::bytes_before(block0);
        const uint8_t *chunk = w.values + row0 * row_bytes + before;
        int last = last_row();
        auto from = [&](int row) {
            return IS_FULL ? w.values + row_of(row) * row_bytes + before
                           : chunk + (unsigned)(row < last ? row : last) * row_bytes;
        };
        if (shape.is_wide) {
#pragma unroll 4
            for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
                int row = i / PIECES, piece = i % PIECES;
                if (Layout::has_piece(piece, skew_of(block0, row), n_blocks_here))
                    copy_async_16(stage_at(stage) + place_of(row) + 16 * piece,
                                  start_of_copy<Layout>(from(row)) +
                                      Layout::source(block0, 16 * piece));
            }
        } else {
            enum { UNITS = Layout::BLOCK_BYTES * CHUNK / Format::UNIT }; /* skew is 0 */
            for (int i = threadIdx.x; i < ROWS * UNITS; i += THREADS) {
                int row = i / UNITS, byte = i % UNITS * Format::UNIT;
                if (Layout::has_byte(block0, byte, n_blocks_here))
                    copy_unit<Format::UNIT>(stage_at(stage) + place_of(row) + byte,
                                            from(row) + Layout::source(block0, byte));
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
