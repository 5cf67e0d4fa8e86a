#include "copy/box.h"

/* Slices that follow each other as their rows do become one slice. */
static void join_slices(struct cushim_copy_box *box) {
    if (box->depth > 1 && box->host.slice_bytes == box->height * box->host.row_bytes &&
        box->device.slice_bytes == box->height * box->device.row_bytes) {
        box->height *= box->depth;
        box->depth = 1;
    }
}

/* Rows without gaps become one row, and the slices become the rows. */
static void join_rows(struct cushim_copy_box *box) {
    if (box->height > 1 &&
        (box->host.row_bytes != box->width_bytes || box->device.row_bytes != box->width_bytes))
        return;
    box->width_bytes *= box->height;
    box->height = box->depth;
    box->depth = 1;
    box->host.row_bytes = box->host.slice_bytes;
    box->device.row_bytes = box->device.slice_bytes;
}

static size_t divide_up(size_t n, size_t by) {
    return n / by + (n % by != 0);
}

struct cushim_copy_cut cushim_copy_cut(const struct cushim_copy_box *box, size_t max_bytes) {
    struct cushim_copy_cut cut = {.box = *box};
    struct cushim_copy_box *joined = &cut.box;
    join_slices(joined);
    join_rows(joined);
    if (joined->height > 1 && joined->depth == 1)
        join_rows(joined);
    bool is_long = joined->width_bytes > max_bytes;
    cut.piece_bytes = is_long ? max_bytes : joined->width_bytes;
    cut.n_rows = is_long ? 1 : max_bytes / joined->width_bytes;
    if (cut.n_rows > joined->height)
        cut.n_rows = joined->height;
    cut.n_across = divide_up(joined->width_bytes, cut.piece_bytes);
    cut.n_down = divide_up(joined->height, cut.n_rows);
    cut.n_pieces = cut.n_across * cut.n_down * joined->depth;
    return cut;
}

static uint64_t at(const struct cushim_copy_side *side, size_t x_bytes, size_t y, size_t z) {
    return side->address + z * side->slice_bytes + y * side->row_bytes + x_bytes;
}

struct cushim_copy_piece cushim_copy_piece(const struct cushim_copy_cut *cut, size_t i) {
    size_t x_bytes = i % cut->n_across * cut->piece_bytes;
    size_t y = i / cut->n_across % cut->n_down * cut->n_rows;
    size_t z = i / cut->n_across / cut->n_down;
    size_t left_bytes = cut->box.width_bytes - x_bytes, left_rows = cut->box.height - y;
    return (struct cushim_copy_piece){
        .host = at(&cut->box.host, x_bytes, y, z),
        .device = at(&cut->box.device, x_bytes, y, z),
        .width_bytes = left_bytes < cut->piece_bytes ? left_bytes : cut->piece_bytes,
        .n_rows = left_rows < cut->n_rows ? left_rows : cut->n_rows,
    };
}
