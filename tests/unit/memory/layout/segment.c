#include "memory/layout/segment.h"

#include "memory/layout/extent.h"
#include "tests/unit/suite.h"

static struct cushim_mem_meta meta;
static const uint64_t base = (uint64_t)5 << 40;

static uint64_t page(uint32_t i) {
    return base + (uint64_t)i * CUSHIM_MEM_PAGE_BYTES;
}

START_TEST(an_inner_address_finds_the_extent_that_begins_before_it) {
    struct cushim_mem_extent at[4] = {0};
    static const uint32_t starts[] = {0, 63, 64, 300};
    struct cushim_mem_segment *segment =
        cushim_mem_segment_create(&meta, base, (size_t)512 * CUSHIM_MEM_PAGE_BYTES, false);
    ck_assert_uint_eq(segment->n_pages, 512);
    for (unsigned i = 0; i < 4; i++)
        cushim_mem_segment_enter(segment, starts[i], (i < 3 ? starts[i + 1] : 512) - starts[i],
                                 &at[i]);
    for (uint32_t i = 0; i < 512; i++) {
        struct cushim_mem_extent *wanted = &at[i < 63 ? 0 : i < 64 ? 1 : i < 300 ? 2 : 3];
        ck_assert_ptr_eq(cushim_mem_segment_extent(segment, page(i)), wanted);
        ck_assert_ptr_eq(cushim_mem_segment_extent(segment, page(i + 1) - 1), wanted);
    }
    cushim_mem_segment_enter(segment, 64, 236, NULL);
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, page(64)));
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, page(299)));
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, page(63)), &at[1]);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, page(300)), &at[3]);
}
END_TEST

START_TEST(a_segment_without_extents_and_an_address_behind_it_find_nothing) {
    struct cushim_mem_segment *segment = cushim_mem_segment_create(&meta, base, 2 << 20, false);
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, page(0)));
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, page(511)));
    struct cushim_mem_extent extent = {0};
    cushim_mem_segment_enter(segment, 0, segment->n_pages, &extent);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, page(511)), &extent);
    ck_assert_ptr_null(cushim_mem_segment_extent(segment, page(512)));
}
END_TEST

/* As a stale descriptor is asked that was reused for a smaller segment: the bits of its first pages
 * are in the same word. */
START_TEST(an_address_behind_the_last_page_finds_nothing_of_the_pages_before_it) {
    struct cushim_mem_extent extent = {0};
    struct cushim_mem_segment *segment =
        cushim_mem_segment_create(&meta, base, (size_t)10 * CUSHIM_MEM_PAGE_BYTES, false);
    cushim_mem_segment_enter(segment, 0, 10, &extent);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, page(9)), &extent);
    for (uint32_t i = 10; i < 64; i++)
        ck_assert_ptr_null(cushim_mem_segment_extent(segment, page(i)));
}
END_TEST

START_TEST(a_dedicated_segment_has_one_row_however_large_it_is) {
    struct cushim_mem_extent extent = {0};
    size_t n_bytes = ((size_t)3 << 30) + 1;
    struct cushim_mem_segment *segment = cushim_mem_segment_create(&meta, base, n_bytes, true);
    ck_assert_uint_eq(segment->n_rows, 1);
    cushim_mem_segment_enter(segment, 0, segment->n_pages, &extent);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, base), &extent);
    ck_assert_ptr_eq(cushim_mem_segment_extent(segment, base + n_bytes - 1), &extent);
}
END_TEST

START_TEST(a_descriptor_that_went_back_is_the_next_one) {
    struct cushim_mem_segment *first = cushim_mem_segment_create(&meta, base, 2 << 20, false);
    cushim_mem_segment_destroy(&meta, first);
    struct cushim_mem_segment *second = cushim_mem_segment_create(&meta, base, 2 << 20, false);
    ck_assert_ptr_eq(first, second);
    ck_assert_ptr_null(cushim_mem_segment_extent(second, base));
}
END_TEST

SUITE() {
    return suite_run(
        "segment",
        (const TTest *[]){an_inner_address_finds_the_extent_that_begins_before_it,
                          a_segment_without_extents_and_an_address_behind_it_find_nothing,
                          an_address_behind_the_last_page_finds_nothing_of_the_pages_before_it,
                          a_dedicated_segment_has_one_row_however_large_it_is,
                          a_descriptor_that_went_back_is_the_next_one, NULL});
}
