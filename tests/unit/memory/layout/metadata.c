#include "memory/layout/metadata.h"

#include <stdbool.h>
#include <string.h>

#include "tests/unit/suite.h"

static struct cushim_mem_meta meta;

/* Whether every byte has this value: the first has it, and each equals its neighbour. */
static bool is_all(const char *piece, char byte, size_t n_bytes) {
    return piece[0] == byte && memcmp(piece, piece + 1, n_bytes - 1) == 0;
}

TEST(pieces_are_zero_aligned_and_apart) {
    char *pieces[512];
    for (size_t i = 0; i < 512; i++) {
        size_t n_bytes = i * 7 + 1;
        pieces[i] = cushim_mem_meta_obtain(&meta, n_bytes);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % 64, 0);
        ck_assert(is_all(pieces[i], 0, n_bytes));
        memset(pieces[i], (int)i | 1, n_bytes);
    }
    for (size_t i = 0; i < 512; i++)
        ck_assert(is_all(pieces[i], (char)(i | 1), i * 7 + 1));
}

TEST(a_released_piece_is_handed_out_again_zeroed) {
    static const size_t sizes[] = {1, 63, 64, 65, 4096, 100000, 1 << 18, (1 << 18) + 1, 1 << 22};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *piece = cushim_mem_meta_obtain(&meta, sizes[i]);
        ck_assert_ptr_nonnull(piece);
        memset(piece, 0xff, sizes[i]);
        cushim_mem_meta_release(&meta, piece, sizes[i]);
        ck_assert_ptr_eq(cushim_mem_meta_obtain(&meta, sizes[i]), piece);
        ck_assert(is_all(piece, 0, sizes[i]));
    }
}

TEST(sizes_of_one_order_share_their_pieces_and_others_do_not) {
    char *piece = cushim_mem_meta_obtain(&meta, 100);
    cushim_mem_meta_release(&meta, piece, 100);
    ck_assert_ptr_ne(cushim_mem_meta_obtain(&meta, 129), piece);
    ck_assert_ptr_ne(cushim_mem_meta_obtain(&meta, 64), piece);
    ck_assert_ptr_eq(cushim_mem_meta_obtain(&meta, 128), piece);
}

TEST(releasing_nothing_changes_nothing) {
    struct cushim_mem_meta before = meta;
    cushim_mem_meta_release(&meta, NULL, 100);
    ck_assert_int_eq(memcmp(&before, &meta, sizeof meta), 0);
}

TEST(a_size_beyond_all_orders_is_refused) {
    ck_assert_ptr_null(cushim_mem_meta_obtain(&meta, SIZE_MAX));
    ck_assert_ptr_null(cushim_mem_meta_obtain(&meta, (size_t)1 << 40));
}

SUITE() {
    return tests_run("meta");
}
