#include "cushim/device.h"

#include "cushim/context.h"
#include "cushim/library.h"
#include "cushim/memory.h"
#include "cushim/pool.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"

TEST(capability_and_attributes_agree) {
    int n, major, minor, value, yes = 1;
    ck_assert_int_eq(cushim_device_count(&n), CUSHIM_OK);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(cushim_device_capability(0, &major, &minor), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_attribute(0, 75, &value), CUSHIM_OK);
    ck_assert_int_eq(value, major);
    ck_assert_int_eq(cushim_device_attribute(0, 76, &value), CUSHIM_OK);
    ck_assert_int_eq(value, minor);
    ck_assert_int_eq(cushim_device_attribute(0, 83, &value), CUSHIM_OK);
    ck_assert(value == 0 || value == 1);
    ck_assert_int_eq(cushim_device_managed(999, &yes), CUSHIM_BADDEVICE);
    ck_assert_int_eq(yes, 0);
    ck_assert_int_eq(cushim_device_attribute(0, 99999, &value), CUSHIM_INVALID);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "cuDeviceGetAttribute(99999) failed: "
                                                      "CUDA_ERROR_INVALID_VALUE"));
    ck_assert_int_eq(cushim_last_cuda_code(), 1);
    ck_assert_ptr_null(sim_current());
}

TEST(a_short_buffer_is_refused_with_the_needed_size) {
    char text[64] = "x", again[64];
    unsigned char id[16];
    int dev;
    ck_assert_int_eq(cushim_device_pci(1, text, 2), CUSHIM_INVALID);
    ck_assert_str_eq(text, "");
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "need="));
    ck_assert_int_eq(cushim_device_pci(1, text, sizeof text), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_by_pci(text, &dev), CUSHIM_OK);
    ck_assert_int_eq(dev, 1);
    ck_assert_int_eq(cushim_device_name(1, again, sizeof again), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_uuid(1, id), CUSHIM_OK);
}

TEST(set_makes_the_primary_context_current_unless_the_stack_has_another) {
    struct cushim_context *context;
    int dev;
    ck_assert_int_eq(cushim_device_set(2), CUSHIM_BADDEVICE);
    ck_assert_int_eq(cushim_device_set(1), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_current(&dev), CUSHIM_OK);
    ck_assert_int_eq(dev, 1);
    CUcontext primary = sim_current();
    ck_assert_ptr_nonnull(primary);
    ck_assert_int_eq(cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &context), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_set(1), CUSHIM_STATE);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), primary);
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
}

TEST(a_primary_context_that_ends_is_not_left_current) {
    struct cushim_context *primary;
    cushim_devptr ptr;
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
        ck_assert_int_eq(cushim_context_primary(0, &primary), CUSHIM_OK);
        ck_assert_int_eq(cushim_context_destroy(primary), CUSHIM_OK);
        ck_assert_ptr_null(sim_current());
        ck_assert_int_eq(cushim_memory_alloc(NULL, 1000, &ptr), CUSHIM_OK);
        ck_assert_int_eq(cushim_memory_free(ptr), CUSHIM_OK);
    }
}

TEST(a_primary_context_that_others_retain_stays_current) {
    struct cushim_context *primary;
    CUcontext handle;
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRetain)(&handle, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_primary(0, &primary), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(primary), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), handle);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRelease_v2)(0), CUDA_SUCCESS);
}

TEST(peers_are_queried_and_enabled_once_or_more) {
    int yes;
    ck_assert_int_eq(cushim_device_peer(0, 1, &yes), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_peer_enable(0, 0), CUSHIM_INVALID);
    ck_assert_int_eq(yes, 1);
    ck_assert_int_eq(cushim_device_peer_enable(0, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_peer_enable(0, 1), CUSHIM_OK);
    ck_assert_ptr_null(sim_current());
}

TEST(defaults_given_as_a_share_are_of_the_device) {
    struct cushim_pool_options options;
    size_t bytes;
    setenv("CUSHIM_LIMIT", "50%", 1);
    setenv("CUSHIM_KEEP", "25%", 1);
    cushim_pool_options_default(&options);
    ck_assert_int_eq(cushim_device_memory(0, &bytes), CUSHIM_OK);
    ck_assert_uint_eq(options.cap_live_bytes, bytes / 2);
    ck_assert_uint_eq(options.keep_bytes, bytes / 4);
}

TEST(without_a_device_a_share_is_no_limit) {
    struct cushim_pool_options options;
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    setenv("CUSHIM_LIMIT", "50%", 1);
    cushim_pool_options_default(&options);
    ck_assert_uint_eq(options.cap_live_bytes, 0);
}

SUITE() {
    return tests_run("device");
}
