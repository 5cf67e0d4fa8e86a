/* The driver's slots: each row of symbols.def is looked up once and stored in its slot. */
#include "companion/core/driver_slots.h"

#include <string.h>

#include "companion/core/driver.h"
#include "cuda/table.h"
#include "tests/unit/suite.h"

static unsigned n_asked;

/* An address that encodes the row. */
static void *number(const struct cushim_driver_symbol *row, const void *cookie) {
    (void)cookie;
    n_asked++;
    return (void *)(uintptr_t)row->abi;
}

static void *none(const struct cushim_driver_symbol *row, const void *cookie) {
    ck_assert_ptr_eq(cookie, &n_asked);
    ck_assert_ptr_nonnull(row->asked_as);
    return NULL;
}

#define NAME_OF(slot) ((const char *)(uintptr_t)atomic_load(&(slot)))

TEST(each_row_has_its_own_slot) {
    cushim_driver_slots_fill(number, NULL);
    ck_assert_uint_gt(n_asked, 300);
    ck_assert_str_eq(NAME_OF(CUSHIM_DRIVER(cuMemAlloc_v2)), "cuMemAlloc_v2");
    ck_assert_str_eq(NAME_OF(CUSHIM_DRIVER(cuGraphLaunch)), "cuGraphLaunch");
    ck_assert_str_eq(NAME_OF(CUSHIM_DRIVER(cuLibraryLoadData)), "cuLibraryLoadData");
    ck_assert_str_eq(cushim_driver_slots_find("cuLibraryLoadData"), "cuLibraryLoadData");
    ck_assert_ptr_null(cushim_driver_slots_find("cuNobody"));
}

TEST(the_upper_layers_use_the_same_functions) {
    cushim_driver_slots_fill(number, NULL);
    ck_assert_str_eq(NAME_OF(cushim_driver_cuda.cuMemAlloc_v2), "cuMemAlloc_v2");
    ck_assert_str_eq(NAME_OF(cushim_driver_cuda.cuEventQuery), "cuEventQuery");
}

TEST(a_function_that_the_driver_lacks_is_null_again) {
    cushim_driver_slots_fill(number, NULL);
    cushim_driver_slots_fill(none, &n_asked);
    ck_assert(!CUSHIM_DRIVER(cuMemAlloc_v2) && !CUSHIM_DRIVER(cuLibraryLoadData));
    ck_assert(!cushim_driver_cuda.cuMemAlloc_v2);
    ck_assert_ptr_null(cushim_driver_slots_find("cuMemAlloc_v2"));
}

SUITE() {
    return tests_run("driver_slots");
}
