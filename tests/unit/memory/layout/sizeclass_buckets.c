#include "memory/layout/sizeclass.h"

#include <string.h>

#include "memory/layout/block.h"
#include "memory/layout/segment.h"
#include "tests/unit/suite.h"

enum { CLASS = 7, CELLS = 16 }; /* 4 KiB blocks, 16 in a slab */

static struct cushim_mem_meta meta;
static struct cushim_mem_bucket bucket;
static struct cushim_mem_segment segment;

static struct cushim_mem_extent *add(void) {
    struct cushim_mem_extent *extent = cushim_mem_meta_obtain(&meta, sizeof *extent);
    extent->segment = &segment;
    extent->n_grains = (size_t)CELLS * 8;
    ck_assert_int_eq(cushim_mem_bucket_add(&bucket, &meta, extent, CLASS), CUSHIM_OK);
    return extent;
}

static struct cushim_mem_blockref take(void) {
    struct cushim_mem_blockref ref = {NULL, 0};
    ck_assert(cushim_mem_bucket_take(&bucket, &ref));
    return ref;
}

TEST(an_empty_bucket_has_nothing_to_take_or_drain) {
    struct cushim_mem_blockref ref;
    ck_assert(!cushim_mem_bucket_take(&bucket, &ref));
    ck_assert_ptr_null(cushim_mem_bucket_drain(&bucket));
}

TEST(a_slab_gives_each_of_its_cells_once) {
    bool seen[CELLS] = {false};
    struct cushim_mem_blockref ref;
    struct cushim_mem_extent *slab = add();
    ck_assert_uint_eq(slab->n_cells, CELLS);
    ck_assert_uint_eq(slab->block_bytes, 4096);
    for (unsigned i = 0; i < CELLS; i++) {
        ref = take();
        ck_assert_ptr_eq(ref.extent, slab);
        ck_assert_uint_lt(ref.index, CELLS);
        ck_assert(!seen[ref.index]);
        seen[ref.index] = true;
    }
    ck_assert(!cushim_mem_bucket_take(&bucket, &ref));
}

TEST(the_block_freed_last_is_handed_out_first) {
    add();
    struct cushim_mem_blockref a = take(), b = take();
    cushim_mem_bucket_give(&bucket, &a);
    cushim_mem_bucket_give(&bucket, &b);
    ck_assert_uint_eq(take().index, b.index);
    ck_assert_uint_eq(take().index, a.index);
}

TEST(a_full_slab_comes_back_with_its_first_free_cell) {
    struct cushim_mem_blockref refs[CELLS];
    add();
    for (unsigned i = 0; i < CELLS; i++)
        refs[i] = take();
    ck_assert_ptr_null(bucket.slabs);
    ck_assert_ptr_null(cushim_mem_bucket_give(&bucket, &refs[5]));
    ck_assert_uint_eq(take().index, refs[5].index);
}

TEST(the_only_slab_is_kept_when_it_is_free_and_a_second_one_is_not) {
    struct cushim_mem_blockref refs[CELLS + 1];
    struct cushim_mem_extent *first = add();
    for (unsigned i = 0; i < CELLS; i++)
        refs[i] = take();
    struct cushim_mem_extent *second = add();
    refs[CELLS] = take();
    ck_assert_ptr_null(cushim_mem_bucket_give(&bucket, &refs[CELLS]));
    struct cushim_mem_extent *out = NULL;
    for (unsigned i = 0; i < CELLS && !out; i++)
        out = cushim_mem_bucket_give(&bucket, &refs[i]);
    ck_assert(out == first || out == second);
    ck_assert_uint_eq(out->n_free_cells, CELLS);
    ck_assert_ptr_nonnull(bucket.slabs);
}

TEST(draining_takes_free_slabs_alone) {
    struct cushim_mem_extent *slab = add();
    struct cushim_mem_blockref ref = take();
    ck_assert_ptr_null(cushim_mem_bucket_drain(&bucket));
    ck_assert_ptr_null(cushim_mem_bucket_give(&bucket, &ref));
    ck_assert_ptr_eq(cushim_mem_bucket_drain(&bucket), slab);
    ck_assert_ptr_null(cushim_mem_bucket_drain(&bucket));
    ck_assert(!cushim_mem_bucket_take(&bucket, &ref));
}

TEST(draining_finds_the_free_slab_behind_others) {
    struct cushim_mem_blockref refs[2 * CELLS];
    struct cushim_mem_extent *first = add(), *second = NULL;
    for (unsigned i = 0; i < 2 * CELLS; i++) {
        if (i == CELLS)
            second = add();
        refs[i] = take();
    }
    for (unsigned i = 0; i < CELLS; i++) /* free and alone: kept */
        ck_assert_ptr_null(cushim_mem_bucket_give(&bucket, &refs[i]));
    ck_assert_ptr_null(cushim_mem_bucket_give(&bucket, &refs[CELLS]));
    ck_assert_ptr_eq(bucket.slabs, second);
    ck_assert_ptr_eq(cushim_mem_bucket_drain(&bucket), first);
    ck_assert_ptr_null(cushim_mem_bucket_drain(&bucket));
    ck_assert_ptr_eq(bucket.slabs, second);
}

TEST(a_random_history_never_gives_a_cell_twice) {
    enum { PLACES = 200 };
    struct cushim_mem_blockref refs[PLACES] = {{NULL, 0}};
    uint64_t random = 0xb0c4e7;
    for (unsigned round = 0; round < suite_steps(20000); round++) {
        struct cushim_mem_blockref *ref = &refs[suite_random(&random) % PLACES];
        if (!ref->extent) {
            if (!cushim_mem_bucket_take(&bucket, ref)) {
                add();
                *ref = take();
            }
            uint32_t was = atomic_exchange(&ref->extent->cells[ref->index].state, CUSHIM_MEM_LIVE);
            ck_assert_uint_eq(was, CUSHIM_MEM_FREE);
        } else {
            atomic_store(&ref->extent->cells[ref->index].state, CUSHIM_MEM_FREE);
            struct cushim_mem_extent *out = cushim_mem_bucket_give(&bucket, ref);
            for (unsigned i = 0; out && i < PLACES; i++)
                ck_assert(&refs[i] == ref || refs[i].extent != out);
            if (out)
                cushim_mem_meta_release(&meta, out, sizeof *out);
            ref->extent = NULL;
        }
        unsigned n_whole = 0;
        for (struct cushim_mem_extent *slab = bucket.slabs; slab; slab = slab->next) {
            ck_assert_uint_gt(slab->n_free_cells, 0);
            n_whole += slab->n_free_cells == slab->n_cells;
        }
        ck_assert_uint_le(n_whole, 1);
    }
}

TEST(a_slab_of_blocks_up_to_64_KiB_has_room_for_all_its_cells) {
    static const uint32_t n_blocks[] = {1, 1, 2, 4, 8, 16, 16};
    for (unsigned i = 0; i < sizeof n_blocks / sizeof *n_blocks; i++) {
        ck_assert_uint_eq(cushim_mem_bucket_slab_grains(&bucket, CLASS), n_blocks[i] * 8);
        struct cushim_mem_extent *extent = cushim_mem_meta_obtain(&meta, sizeof *extent);
        extent->n_grains = (size_t)n_blocks[i] * 8;
        ck_assert_int_eq(cushim_mem_bucket_add(&bucket, &meta, extent, CLASS), CUSHIM_OK);
    }
    while (cushim_mem_bucket_drain(&bucket)) {
    }
}

TEST(a_slab_ends_with_a_block_and_is_no_shorter_than_an_extent) {
    for (unsigned i = 0; i < CUSHIM_MEM_N_CLASSES; i++) {
        size_t block_grains = cushim_mem_sizeclass_bytes(i) / 512;
        size_t n_least = block_grains < 8 ? (8 + block_grains - 1) / block_grains : 1;
        bucket.n_cells = 0;
        ck_assert_uint_eq(cushim_mem_bucket_slab_grains(&bucket, i), n_least * block_grains);
        bucket.n_cells = 1000;
        size_t n_grains = cushim_mem_bucket_slab_grains(&bucket, i);
        ck_assert_uint_eq(n_grains % block_grains, 0);
        ck_assert_uint_le(n_grains, block_grains < 128 ? 128 : block_grains);
        ck_assert_uint_gt(n_grains, block_grains < 128 ? 64 : 0);
    }
}

/* 16 of 18 KiB: two end at a page's end, three leave half a page. */
TEST(a_slab_ends_at_a_pages_end_if_whole_blocks_allow_it) {
    unsigned class_index = cushim_mem_sizeclass_of(18 << 10);
    bucket.n_cells = 16;
    ck_assert_uint_eq(cushim_mem_bucket_slab_grains(&bucket, class_index), 72);
    bucket.n_cells = 1;
    ck_assert_uint_eq(cushim_mem_bucket_slab_grains(&bucket, class_index), 36);
}

TEST(the_block_of_an_offset_equals_the_quotient) {
    for (uint32_t n_grains = 1; n_grains <= CUSHIM_MEM_MOST_CLASSES; n_grains++) {
        size_t block_bytes = (size_t)n_grains * CUSHIM_MEM_GRAIN_BYTES;
        struct cushim_mem_extent slab = {.inverse = cushim_mem_extent_inverse(block_bytes)};
        for (uint64_t offset = 0; offset < 4 << 20; offset += 256)
            if (cushim_mem_extent_index(&slab, offset) != offset / block_bytes)
                ck_abort_msg("block of %zu, offset %zu", block_bytes, (size_t)offset);
    }
}

SUITE() {
    cushim_mem_sizeclass_choose(CUSHIM_MEM_FINE);
    return tests_run("sizeclass_buckets");
}
