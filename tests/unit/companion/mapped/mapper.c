/* Opening mappers: which loader and device they look for, what may be missing, and the choice of
 * memory. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/companion/mapped/mapped_fixture.h"

static void check_refused(enum cushim_status status, const char *part) {
    struct cushim_mapper *mapper = (struct cushim_mapper *)1;
    ck_is(cushim_mapper_open_device(0, 0, &mapper), status);
    ck_assert_ptr_null(mapper);
    ck_said("failed: ");
    ck_said(part);
}

TEST(without_a_loader_the_error_names_the_library) {
    setenv("CUSHIM_LIBVULKAN", "/nowhere/libvulkan.so.1", 1);
    check_refused(CUSHIM_NOTSUPPORTED,
                  "no Vulkan loader: CUSHIM_LIBVULKAN=/nowhere/libvulkan.so.1: ");
    ck_assert_ptr_null(strstr(cushim_last_error(), "libvulkan.so.1: /nowhere"));
    setenv("CUSHIM_LIBVULKAN", "libvulkan.so.1", 1);
    check_refused(CUSHIM_NOTSUPPORTED, "libvulkan.so.1: not an absolute path");
    ck_assert_int_eq(cushim_has(CUSHIM_FEATURE_VULKAN), 0);
    unsetenv("CUSHIM_LIBVULKAN");
    if (!dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL))
        check_refused(CUSHIM_NOTSUPPORTED, "no Vulkan loader: libvulkan.so.1: ");
}

TEST(a_loader_that_everyone_may_write_is_not_loaded) {
    char path[] = "/tmp/cushim-vulkan-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(fchmod(fd, 0666), 0);
    setenv("CUSHIM_LIBVULKAN", path, 1);
    check_refused(CUSHIM_NOTSUPPORTED, "file is writable by everybody");
    close(fd);
    unlink(path);
}

TEST(a_failed_search_is_repeated) {
    char right[4096];
    snprintf(right, sizeof right, "%s", getenv("CUSHIM_LIBVULKAN"));
    setenv("CUSHIM_LIBVULKAN", "/nowhere/libvulkan.so.1", 1);
    check_refused(CUSHIM_NOTSUPPORTED, "/nowhere/");
    setenv("CUSHIM_LIBVULKAN", right, 1);
    ck_assert_int_eq(cushim_has(CUSHIM_FEATURE_VULKAN), 1);
    ck_ok(cushim_mapper_close(open_mapper(0)));
    check_nothing_left();
}

TEST(a_missing_feature_of_vulkan_is_named) {
    static const char *const functions[] = {"vkCreateInstance", "vkGetPhysicalDeviceProperties2",
                                            "vkGetDeviceProcAddr", "vkGetMemoryFdKHR"};
    struct fake_vulkan *vulkan = fake();
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        vulkan->missing = functions[i];
        check_refused(CUSHIM_NOTSUPPORTED, functions[i]);
        check_nothing_left();
    }
    vulkan->missing = NULL;
    vulkan->version = VK_API_VERSION_1_0;
    check_refused(CUSHIM_NOTSUPPORTED, "Vulkan 1.0 is older than 1.1");
    vulkan->version = VK_API_VERSION_1_1;
    vulkan->has_fd = 0;
    check_refused(CUSHIM_NOTSUPPORTED, "device=0 has no VK_KHR_external_memory_fd");
    vulkan->has_fd = 1;
    vulkan->fail_at = 2;
    vulkan->fail_result = VK_ERROR_INCOMPATIBLE_DRIVER;
    check_refused(CUSHIM_NOTSUPPORTED, "vkCreateInstance failed: CUSHIM_NOTSUPPORTED");
    ck_said("result=VK_ERROR_INCOMPATIBLE_DRIVER no Vulkan driver");
    check_nothing_left();
}

TEST(a_device_that_vulkan_does_not_see_is_named_by_its_uuid) {
    struct fake_vulkan *vulkan = fake();
    vulkan->uuid_change = 1;
    check_refused(CUSHIM_NOTSUPPORTED, "device=0: none of 2 Vulkan devices has the UUID "
                                       "63757368696d2d736f66747761726500");
    vulkan->uuid_change = 0;
    vulkan->n_devices = 0;
    check_refused(CUSHIM_NOTSUPPORTED, "none of 0 Vulkan devices");
    vulkan->n_devices = 1;
    struct cushim_mapper *mapper;
    ck_is(cushim_mapper_open_device(1, 0, &mapper), CUSHIM_NOTSUPPORTED);
    vulkan->n_devices = 2;
    ck_ok(cushim_mapper_open_device(1, 0, &mapper));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(a_result_without_a_name_is_a_vulkan_failure) {
    fake()->fail_at = 2;
    fake()->fail_result = (VkResult)-1000999000;
    check_refused(CUSHIM_VULKAN, "vkCreateInstance failed: CUSHIM_VULKAN: ");
    ck_said("result=-1000999000");
}

TEST(coherent_memory_is_preferred_and_can_be_required) {
    struct cushim_mapper *mapper;
    int yes = 0;
    struct cushim_mapped *mapped = alloc(open_mapper(0), 1, 0);
    ck_ok(cushim_mapped_coherent(mapped, &yes));
    ck_assert_int_eq(yes, 1);
    fake()->types[3] = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    ck_is(cushim_mapper_open_device(1, CUSHIM_MAPPER_FLAG_COHERENT, &mapper), CUSHIM_NOTSUPPORTED);
    ck_said("HOST_VISIBLE and HOST_COHERENT");
    unsigned both = CUSHIM_MAPPER_FLAG_COHERENT | CUSHIM_MAPPER_FLAG_NON_COHERENT;
    ck_is(cushim_mapper_open_device(1, both, &mapper), CUSHIM_NOTSUPPORTED);
    ck_ok(cushim_mapper_open_device(1, 0, &mapper));
    mapped = alloc(mapper, 1, 0);
    ck_ok(cushim_mapped_coherent(mapped, &yes));
    ck_assert_int_eq(yes, 0);
}

TEST(without_host_visible_device_memory_there_is_no_mapper) {
    fake()->n_types = 2;
    check_refused(CUSHIM_NOTSUPPORTED, "no memory type of 2 is DEVICE_LOCAL and HOST_VISIBLE");
    check_nothing_left();
}

TEST(invalid_flags_and_devices_are_refused) {
    struct cushim_mapper *mapper;
    ck_is(cushim_mapper_open_device(0, 8, &mapper), CUSHIM_INVALID);
    ck_is(cushim_mapper_open(NULL, 0, NULL), CUSHIM_INVALID);
    ck_is(cushim_mapper_open((struct cushim_context *)0x1234, 0, &mapper), CUSHIM_BADHANDLE);
    ck_is(cushim_mapper_open_device(2, 0, &mapper), CUSHIM_BADDEVICE);
    ck_said("cuDeviceGetUuid failed: CUDA_ERROR_INVALID_DEVICE");
    ck_is(cushim_mapper_open_device(-2, 0, &mapper), CUSHIM_BADDEVICE);
    ck_assert_uint_eq(fake()->n_created, 0);
}

TEST(the_current_context_is_used_if_requested) {
    struct cushim_mapper *mapper;
    CUcontext context, owner = NULL;
    ck_is(cushim_mapper_open(NULL, CUSHIM_MAPPER_FLAG_CURRENT, &mapper), CUSHIM_NOCONTEXT);
    ck_said("cuCtxGetDevice failed: CUDA_ERROR_INVALID_CONTEXT");
    ck_is(cushim_mapper_open_device(0, CUSHIM_MAPPER_FLAG_CURRENT, &mapper), CUSHIM_NOCONTEXT);
    ck_cu(SIM(cuCtxCreate_v2)(&context, 0, 1));
    ck_ok(cushim_mapper_open_device(0, CUSHIM_MAPPER_FLAG_CURRENT, &mapper));
    struct cushim_mapped *mapped = alloc(mapper, 1, 0);
    ck_cu(SIM(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, device_of(mapped)));
    ck_assert_ptr_eq(owner, context);
    ck_ok(cushim_mapped_free(mapped));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(mappers_of_one_device_share_one_instance) {
    struct cushim_mapper *a = open_mapper(0), *b = open_mapper(CUSHIM_MAPPER_FLAG_NON_COHERENT), *c;
    ck_ok(cushim_mapper_open(NULL, 0, &c));
    ck_assert_uint_eq(fake()->n_created, 1);
    ck_ok(cushim_mapper_close(a));
    ck_ok(cushim_mapper_close(c));
    ck_assert_int_eq(fake()->n_logical, 1);
    ck_ok(cushim_mapper_close(b));
    check_nothing_left();
    ck_ok(cushim_mapper_close(open_mapper(0)));
    ck_assert_uint_eq(fake()->n_created, 2);
    check_nothing_left();
}

TEST(the_budget_is_the_drivers_or_the_unused_part_of_the_heap) {
    size_t n_free, n_total;
    for (int i = 0; i < 2; i++) {
        fake()->has_budget = i;
        struct cushim_mapper *mapper = open_mapper(0);
        struct cushim_mapped *mapped = alloc(mapper, 1 << 20, 0);
        ck_ok(cushim_mapper_budget(mapper, &n_free, &n_total));
        ck_assert_uint_eq(n_total, 64 << 20);
        ck_assert_uint_eq(n_free, i ? (32 << 20) - (1 << 20) : (64 << 20) - (1 << 20));
        ck_ok(cushim_mapped_free(mapped));
        ck_ok(cushim_mapper_budget(mapper, &n_free, &n_total));
        ck_assert_uint_eq(n_free, i ? 32 << 20 : 64 << 20);
        ck_ok(cushim_mapper_close(mapper));
    }
    check_nothing_left();
}

TEST(without_cuda_there_is_no_mapper) {
    struct cushim_mapper *mapper;
    char from[] = "abc", to[4];
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_is(cushim_mapper_open_device(0, 0, &mapper), CUSHIM_NOCUDA);
    ck_is(cushim_mapper_open(NULL, 1, &mapper), CUSHIM_NOCUDA);
    ck_ok(cushim_mapped_copy_in(to, from, 4));
    ck_assert_str_eq(to, "abc");
}

SUITE() {
    return tests_run("mapper");
}
