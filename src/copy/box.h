/*
 * Boxes: the bytes that one copy between host and device moves, cut into pieces that fit a buffer.
 *
 * A box is rows of width_bytes, `height` rows per slice, `depth` slices.  Parts without a gap on
 * both sides are first joined to one longer row.  A piece is some rows of one slice, or a part of
 * one row; in a buffer its rows have no gaps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_copy_side {
    uint64_t address;
    size_t row_bytes, slice_bytes; /* from one to the next */
};

struct cushim_copy_box {
    struct cushim_copy_side host, device;
    size_t width_bytes, height, depth; /* none is 0 */
    bool is_to_device;
};

struct cushim_copy_cut {
    struct cushim_copy_box box; /* rows without gaps joined */
    size_t piece_bytes, n_rows; /* of a row in one piece; most rows in one */
    size_t n_across, n_down, n_pieces;
};

struct cushim_copy_piece {
    uint64_t host, device;
    size_t width_bytes, n_rows;
};

/* Cut a box into pieces of at most max_bytes. */
struct cushim_copy_cut cushim_copy_cut(const struct cushim_copy_box *box, size_t max_bytes);

/* Piece i, below n_pieces: each byte of the box is in one of them. */
struct cushim_copy_piece cushim_copy_piece(const struct cushim_copy_cut *cut, size_t i);
