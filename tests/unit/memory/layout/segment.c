#include "memory/layout/segment.h"

#include "tests/unit/suite.h"

static struct cushim_mem_meta meta;
static const uint64_t base = (uint64_t)5 << 40;

static uint64_t grain(uint32_t i) {
    return base + (uint64_t)i * CUSHIM_MEM_GRAIN_BYTES;
}

TEST(an_inner_address_finds_its_extent) {
    enum { N = 6, GRAINS = 4096 };
    struct cushim_mem_extent at[N] = {0};
    static const uint32_t starts[N + 1] = {0, 55, 63, 71, 128, 300, GRAINS};
    struct cushim_mem_segment *segment =
        cushim_mem_segment_create(&meta, base, GRAINS * CUSHIM_MEM_GRAIN_BYTES, false);
    ck_assert_uint_eq(segment->n_grains, GRAINS);
    cushim_mem_segment_enter(segment, 0, GRAINS, NULL);
    for (unsigned i = 0; i < N; i++)
        cushim_mem_segment_enter(segment, starts[i], starts[i + 1] - starts[i], &at[i]);
    for (uint32_t i = 0, k = 0; i < GRAINS; i++) {
        k += i == starts[k + 1];
        ck_assert_ptr_eq(cushim_mem_segment_extent(segment, grain(i)), &at[k]);
        ck_assert_ptr_eq(cushim_mem_segment_extent(segment, grain(i + 1) - 1), &at[k]);
    }
    cushim_mem_segment_enter(segment, 128, 172, NULL);
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, grain(128)));
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, grain(299)));
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, grain(127)), &at[3]);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, grain(300)), &at[5]);
}

TEST(a_new_segment_is_one_extent_and_an_address_after_it_finds_nothing) {
    struct cushim_mem_segment *segment = cushim_mem_segment_create(&meta, base, 2 << 20, false);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, grain(0)), &segment->first);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, grain(4095)), &segment->first);
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, grain(4096)));
    cushim_mem_segment_enter(segment, 0, segment->n_grains, NULL);
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, grain(0)));
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, grain(4095)));
}

/* A stale descriptor may be reused for a smaller segment and get such a look-up: the bits of its
 * first grains are in the same word. */
TEST(an_address_after_the_last_grain_does_not_find_earlier_ones) {
    struct cushim_mem_segment *segment =
        cushim_mem_segment_create(&meta, base, (size_t)10 * CUSHIM_MEM_GRAIN_BYTES, false);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, grain(9)), &segment->first);
    for (uint32_t i = 10; i < 64; i++)
        ck_assert_ptr_null(cushim_mem_segment_extent(segment, grain(i)));
}

TEST(a_dedicated_segment_is_one_extent_however_large_it_is) {
    size_t n_bytes = ((size_t)3 << 30) + 1;
    struct cushim_mem_segment *segment = cushim_mem_segment_create(&meta, base, n_bytes, true);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, base), &segment->first);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, base + n_bytes - 1), &segment->first);
}

TEST(a_released_descriptor_is_the_next_one_used) {
    struct cushim_mem_segment *first = cushim_mem_segment_create(&meta, base, 2 << 20, false);
    cushim_mem_segment_destroy(&meta, first);
    struct cushim_mem_segment *second = cushim_mem_segment_create(&meta, base, 2 << 20, false);
    ck_assert_ptr_eq(first, second);
    ck_assert_ptr_eq(cushim_mem_segment_extent(second, base), &second->first);
}

SUITE() {
    return tests_run("segment");
}
