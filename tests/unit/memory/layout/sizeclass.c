#include "memory/layout/sizeclass.h"

#include "tests/unit/suite.h"

TEST(classes_grow_with_the_request) {
    unsigned last = 0;
    for (size_t n_bytes = 1; n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES; n_bytes++) {
        unsigned class_index = cushim_mem_sizeclass_of(n_bytes);
        if (class_index < last || class_index > last + 1)
            ck_abort_msg("%zu bytes", n_bytes);
        last = class_index;
    }
    ck_assert_uint_eq(cushim_mem_sizeclass_of(1), 0);
    ck_assert_uint_eq(last, CUSHIM_MEM_N_CLASSES - 1);
}

TEST(a_block_holds_its_request_and_wastes_at_most_an_eighth) {
    for (size_t n_bytes = 1; n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES; n_bytes++) {
        size_t block_bytes = cushim_mem_sizeclass_bytes(cushim_mem_sizeclass_of(n_bytes));
        if (block_bytes < n_bytes)
            ck_abort_msg("%zu bytes in a block of %zu", n_bytes, block_bytes);
        size_t waste_bytes = block_bytes - n_bytes;
        /* below 4 KiB the grain decides; the driver's granularity is 512 too */
        if (n_bytes > 4096 ? waste_bytes * 8 > block_bytes : waste_bytes >= CUSHIM_MEM_GRAIN_BYTES)
            ck_abort_msg("%zu bytes waste %zu", n_bytes, waste_bytes);
    }
}

TEST(an_exact_size_maps_to_itself_and_one_more_to_the_next) {
    for (unsigned i = 0; i < CUSHIM_MEM_N_CLASSES; i++) {
        size_t block_bytes = cushim_mem_sizeclass_bytes(i);
        ck_assert_uint_eq(cushim_mem_sizeclass_of(block_bytes), i);
        ck_assert_uint_eq(block_bytes % CUSHIM_MEM_GRAIN_BYTES, 0);
        if (i + 1 < CUSHIM_MEM_N_CLASSES)
            ck_assert_uint_eq(cushim_mem_sizeclass_of(block_bytes + 1), i + 1);
    }
    ck_assert_uint_eq(cushim_mem_sizeclass_bytes(CUSHIM_MEM_N_CLASSES - 1),
                      CUSHIM_MEM_SLAB_LIMIT_BYTES);
}

TEST(steps_are_512_bytes_to_4_KiB_then_eight_per_doubling) {
    for (unsigned i = 0; i < 8; i++)
        ck_assert_uint_eq(cushim_mem_sizeclass_bytes(i), (i + 1) * 512);
    for (unsigned i = 8; i < 8 + 5 * 8; i++) { /* to 128 KiB */
        size_t start_bytes = (size_t)4096 << (i - 8) / 8;
        ck_assert_uint_eq(cushim_mem_sizeclass_bytes(i),
                          start_bytes + start_bytes / 8 * ((i - 8) % 8 + 1));
    }
}

TEST(above_128_KiB_rounding_costs_no_block_in_2_MiB) {
    enum { PAGE = 2 << 20 };
    for (size_t n_bytes = (128 << 10) + 512; n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES;
         n_bytes += 512) {
        size_t block_bytes = cushim_mem_sizeclass_bytes(cushim_mem_sizeclass_of(n_bytes));
        if (PAGE / block_bytes < PAGE / n_bytes)
            ck_abort_msg("%zu bytes: %zu blocks, not %zu", n_bytes, PAGE / block_bytes,
                         PAGE / n_bytes);
    }
}

/* True of every scheme: of(n) is the smallest class that fits. */
static void check_scheme(enum cushim_mem_scheme scheme, unsigned n_classes) {
    cushim_mem_sizeclass_choose(scheme);
    ck_assert_uint_eq(cushim_mem_sizeclass_count(), n_classes);
    size_t last_bytes = 0;
    for (unsigned i = 0; i < n_classes; i++) {
        size_t block_bytes = cushim_mem_sizeclass_bytes(i);
        ck_assert_uint_eq(block_bytes % CUSHIM_MEM_GRAIN_BYTES, 0);
        ck_assert_uint_eq(cushim_mem_sizeclass_of(last_bytes + 1), i);
        ck_assert_uint_eq(cushim_mem_sizeclass_of(block_bytes), i);
        last_bytes = block_bytes;
    }
    ck_assert_uint_eq(last_bytes, CUSHIM_MEM_SLAB_LIMIT_BYTES);
}

TEST(each_scheme_serves_each_size_from_its_smallest_class_that_fits) {
    check_scheme(CUSHIM_MEM_FINE, CUSHIM_MEM_N_CLASSES);
    check_scheme(CUSHIM_MEM_POW2, 12);
    check_scheme(CUSHIM_MEM_EXACT, CUSHIM_MEM_MOST_CLASSES);
}

TEST(the_schemes_of_powers_and_of_single_steps_have_these_classes) {
    cushim_mem_sizeclass_choose(CUSHIM_MEM_POW2);
    for (unsigned i = 0; i < 12; i++)
        ck_assert_uint_eq(cushim_mem_sizeclass_bytes(i), (size_t)512 << i);
    cushim_mem_sizeclass_choose(CUSHIM_MEM_EXACT);
    for (unsigned i = 0; i < CUSHIM_MEM_MOST_CLASSES; i++)
        ck_assert_uint_eq(cushim_mem_sizeclass_bytes(i), (size_t)512 * (i + 1));
}

TEST(grains_are_rounded_up) {
    ck_assert_uint_eq(cushim_mem_grains_of(1), 1);
    ck_assert_uint_eq(cushim_mem_grains_of(512), 1);
    ck_assert_uint_eq(cushim_mem_grains_of(513), 2);
    ck_assert_uint_eq(cushim_mem_grains_of((size_t)1 << 43), (size_t)1 << 34);
}

SUITE() {
    cushim_mem_sizeclass_choose(CUSHIM_MEM_FINE);
    return tests_run("sizeclass");
}
