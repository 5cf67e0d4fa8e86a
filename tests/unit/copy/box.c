#include "copy/box.h"

#include <string.h>

#include "tests/unit/suite.h"

enum { SPACE = 1 << 13 };

/* Copies all pieces of a box from a host of SPACE bytes to a device of SPACE zero bytes. False if a
 * byte came twice, or if a piece is empty or too large. */
static bool move(const struct cushim_copy_box *box, size_t max_bytes, const unsigned char *host,
                 unsigned char *device) {
    struct cushim_copy_cut cut = cushim_copy_cut(box, max_bytes);
    size_t n_again = 0;
    for (size_t i = 0; i < cut.n_pieces; i++) {
        struct cushim_copy_piece piece = cushim_copy_piece(&cut, i);
        if (!piece.width_bytes || !piece.n_rows || piece.width_bytes * piece.n_rows > max_bytes)
            return false;
        for (size_t y = 0; y < piece.n_rows; y++) {
            unsigned char *to = device + piece.device + y * cut.box.device.row_bytes;
            const unsigned char *from = host + piece.host + y * cut.box.host.row_bytes;
            for (size_t x = 0; x < piece.width_bytes; x++) {
                n_again += to[x] != 0;
                to[x] = from[x];
            }
        }
    }
    return n_again == 0;
}

/* The reference: row by row. */
static void move_plainly(const struct cushim_copy_box *box, const unsigned char *host,
                         unsigned char *device) {
    for (size_t z = 0; z < box->depth; z++) {
        for (size_t y = 0; y < box->height; y++)
            memcpy(device + box->device.address + z * box->device.slice_bytes +
                       y * box->device.row_bytes,
                   host + box->host.address + z * box->host.slice_bytes + y * box->host.row_bytes,
                   box->width_bytes);
    }
}

static struct cushim_copy_side random_side(uint64_t *state, const struct cushim_copy_box *box) {
    size_t row_bytes = box->width_bytes + suite_random(state) % 3 * (suite_random(state) % 5);
    size_t n_rows = box->height + suite_random(state) % 2 * (suite_random(state) % 3);
    return (struct cushim_copy_side){suite_random(state) % 16, row_bytes, row_bytes * n_rows};
}

TEST(the_pieces_cover_each_byte_of_the_box_once) {
    uint64_t state = 88172645463325252u;
    for (unsigned seed = 0; seed < suite_steps(20000); seed++) {
        static unsigned char host[SPACE], device[SPACE], plain[SPACE];
        struct cushim_copy_box box = {.width_bytes = 1 + suite_random(&state) % 40,
                                      .height = 1 + suite_random(&state) % 9,
                                      .depth = 1 + suite_random(&state) % 6};
        box.host = random_side(&state, &box);
        box.device = random_side(&state, &box);
        for (size_t i = 0; i < SPACE; i++)
            host[i] = (unsigned char)(1 + (i + i / 255 + seed) % 255);
        memset(device, 0, SPACE);
        memset(plain, 0, SPACE);
        ck_assert(move(&box, 1 + suite_random(&state) % 100, host, device));
        move_plainly(&box, host, plain);
        ck_assert_msg(memcmp(device, plain, SPACE) == 0, "seed %u", seed);
    }
}

TEST(rows_without_gaps_are_one_row) {
    struct cushim_copy_box box = {
        .host = {0, 10, 50}, .device = {0, 10, 50}, .width_bytes = 10, .height = 5, .depth = 4};
    struct cushim_copy_cut cut = cushim_copy_cut(&box, 1000);
    ck_assert_uint_eq(cut.n_pieces, 1);
    ck_assert_uint_eq(cushim_copy_piece(&cut, 0).width_bytes, 200);
    box.device = (struct cushim_copy_side){0, 10, 60}; /* a gap behind each slice */
    cut = cushim_copy_cut(&box, 1000);
    ck_assert_uint_eq(cut.n_pieces, 1);
    ck_assert_uint_eq(cushim_copy_piece(&cut, 0).n_rows, 4);
    ck_assert_uint_eq(cushim_copy_piece(&cut, 0).width_bytes, 50);
}

SUITE() {
    return tests_run("copy/box");
}
