/* A build without Vulkan's headers: every function exists and reports what is missing. */
#include "cushim/library.h"
#include "cushim/mapped.h"
#include "tests/unit/suite.h"

#include <string.h>

TEST(a_library_built_without_vulkan_says_so) {
    struct cushim_mapper *mapper = (struct cushim_mapper *)1;
    ck_assert_int_eq(cushim_mapper_open_device(0, 0, &mapper), CUSHIM_NOTSUPPORTED);
    ck_assert_ptr_null(mapper);
    ck_assert_ptr_nonnull(
        strstr(cushim_last_error(), "device=0: this libcushim was built without Vulkan"));
    ck_assert_int_eq(cushim_mapper_open(NULL, 0, &mapper), CUSHIM_NOTSUPPORTED);
    ck_assert_int_eq(cushim_has(CUSHIM_FEATURE_VULKAN), 0);
    ck_assert_int_eq(cushim_mapper_close(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_mapped_free((struct cushim_mapped *)0x1234), CUSHIM_BADHANDLE);
}

TEST(copies_need_no_vulkan) {
    char from[200], to[200];
    memset(from, 3, sizeof from);
    ck_assert_int_eq(cushim_mapped_copy_in(to, from, sizeof to), CUSHIM_OK);
    ck_assert_mem_eq(to, from, sizeof to);
}

int main(void) {
    return tests_run("mapper none");
}
