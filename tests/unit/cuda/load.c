#include "cuda/load.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/table.h"
#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/suite.h"

static struct cushim_cuda cuda;
static unsigned n_asked;

static void *find_nothing(const char *name, void *cookie) {
    (void)name;
    (void)cookie;
    n_asked++;
    return NULL;
}

/* Any address will do, because nothing is called. */
static void *find_anything(const char *name, void *cookie) {
    (void)name;
    n_asked++;
    return cookie;
}

TEST(each_slot_gets_the_function_of_its_name) {
    const char *missing = "unset";
    ck_assert_int_eq(cushim_cuda_load(&cuda, fake_find, NULL, &missing), CUSHIM_OK);
    ck_assert_ptr_null(missing);
    fake_reset();
    fake_set_current(fake_context(0));
    CUdeviceptr address = 0;
    ck_assert_int_eq(cuda.cuMemAlloc_v2(&address, 512), CUDA_SUCCESS);
    ck_assert_int_eq(cuda.cuMemFree_v2(address), CUDA_SUCCESS);
    ck_assert_str_eq(fake_order(), "cuMemAlloc_v2(512) cuMemFree_v2(512)");
}

TEST(the_first_missing_required_name_is_reported_and_the_others_are_filled) {
    const char *missing = NULL;
    ck_assert_int_eq(cushim_cuda_load(&cuda, fake_find, "cuMemFree_v2", &missing), CUSHIM_NOSYM);
    ck_assert_str_eq(missing, "cuMemFree_v2");
    ck_assert(cuda.cuMemFree_v2 == NULL);
    ck_assert(cuda.cuMemAlloc_v2 != NULL && cuda.cuEventQuery != NULL);
    ck_assert_int_eq(cushim_cuda_load(&cuda, find_nothing, NULL, &missing), CUSHIM_NOSYM);
    ck_assert_str_eq(missing, "cuGetProcAddress");
    ck_assert_int_eq(cushim_cuda_load(&cuda, find_nothing, NULL, NULL), CUSHIM_NOSYM);
}

TEST(an_optional_name_may_be_missing) {
    const char *missing = "unset";
    ck_assert_int_eq(cushim_cuda_load(&cuda, fake_find, "cuCtxRecordEvent", &missing), CUSHIM_OK);
    ck_assert_ptr_null(missing);
    ck_assert(cuda.cuCtxRecordEvent == NULL);
}

TEST(filling_again_keeps_nothing_of_an_earlier_library) {
    static const struct cushim_cuda empty;
    cushim_cuda_load(&cuda, fake_find, NULL, NULL);
    ck_assert_int_eq(cushim_cuda_load(&cuda, fake_find, "cuCtxRecordEvent", NULL), CUSHIM_OK);
    ck_assert(cuda.cuCtxRecordEvent == NULL && cuda.cuMemAlloc_v2 != NULL);
    ck_assert_int_eq(cushim_cuda_load(&cuda, find_nothing, NULL, NULL), CUSHIM_NOSYM);
    ck_assert_int_eq(memcmp(&empty, &cuda, sizeof cuda), 0);
}

TEST(a_created_table_is_empty) {
    struct cushim_cuda *created = cushim_cuda_create();
    ck_assert_ptr_nonnull(created);
    ck_assert(created->cuMemAlloc_v2 == NULL);
    ck_assert_int_eq(cushim_cuda_load(created, fake_find, NULL, NULL), CUSHIM_OK);
    ck_assert(created->cuMemAlloc_v2 != NULL);
    free(created);
}

TEST(missing_names_are_reported_without_a_table) {
    ck_assert_ptr_null(cushim_cuda_missing(fake_find, NULL));
    ck_assert_ptr_null(cushim_cuda_missing(fake_find, "cuCtxRecordEvent"));
    ck_assert_str_eq(cushim_cuda_missing(fake_find, "cuMemFree_v2"), "cuMemFree_v2");
    ck_assert_str_eq(cushim_cuda_missing(find_nothing, NULL), "cuGetProcAddress");
}

TEST(each_slot_is_looked_up_once_per_table) {
    static struct cushim_cudart cudart;
    n_asked = 0;
    ck_assert_int_eq(cushim_cuda_load(&cuda, find_anything, &n_asked, NULL), CUSHIM_OK);
    ck_assert_uint_eq(n_asked, sizeof cuda / sizeof(void *));
    n_asked = 0;
    ck_assert_int_eq(cushim_cudart_load(&cudart, find_anything, &n_asked), CUSHIM_OK);
    ck_assert_uint_eq(n_asked, sizeof cudart / sizeof(void *));
    ck_assert(cudart.cudaMalloc != NULL);
}

SUITE() {
    return tests_run("load");
}
