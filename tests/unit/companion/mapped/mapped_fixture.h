/* The fake Vulkan, the raw driver, and the check for leftovers, for the suites of mapped memory. */
#pragma once

#include "cushim/context.h"
#include "cushim/library.h"
#include "cushim/mapped.h"
#include "tests/unit/companion/mapped/fake_vulkan.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

#define ck_ok(expr)         ck_is((expr), CUSHIM_OK)
#define ck_is(expr, status) ck_assert_msg((expr) == (status), "%s: %s", #expr, cushim_last_error())
#define ck_cu(expr)         ck_assert_int_eq((expr), CUDA_SUCCESS)
#define ck_said(part)                                                                              \
    ck_assert_msg(strstr(cushim_last_error(), (part)) != NULL, "text: %s", cushim_last_error())

static inline struct fake_vulkan *fake(void) {
    fake_vulkan_fn *state;
    void *library = dlopen(getenv("CUSHIM_LIBVULKAN"), RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(library);
    void *address = dlsym(library, "fake_vulkan");
    memcpy(&state, &address, sizeof address);
    return state();
}

static inline struct cushim_mapper *open_mapper(unsigned flags) {
    struct cushim_mapper *mapper;
    ck_ok(cushim_mapper_open_device(0, flags, &mapper));
    return mapper;
}

static inline struct cushim_mapped *alloc(struct cushim_mapper *mapper, size_t bytes,
                                          unsigned flags) {
    struct cushim_mapped *mapped;
    ck_ok(cushim_mapped_alloc(mapper, bytes, flags, &mapped));
    return mapped;
}

static inline char *host_of(struct cushim_mapped *mapped) {
    void *host;
    ck_ok(cushim_mapped_host(mapped, &host));
    return host;
}

static inline CUdeviceptr device_of(struct cushim_mapped *mapped) {
    cushim_devptr device;
    ck_ok(cushim_mapped_device(mapped, &device));
    return device;
}

/* Bytes as the device sees them, read by the raw driver in the primary context. */
static inline void read_device(void *dst, CUdeviceptr src, size_t n_bytes) {
    CUcontext primary, before = sim_current();
    ck_cu(SIM(cuDevicePrimaryCtxRetain)(&primary, 0));
    ck_cu(SIM(cuCtxSetCurrent)(primary));
    ck_cu(SIM(cuMemcpyDtoH_v2)(dst, src, n_bytes));
    ck_cu(SIM(cuCtxSetCurrent)(before));
    ck_cu(SIM(cuDevicePrimaryCtxRelease_v2)(0));
}

static inline char device_byte(struct cushim_mapped *mapped, size_t at) {
    char byte;
    read_device(&byte, device_of(mapped) + at, 1);
    return byte;
}

static inline void set_device(CUdeviceptr dst, unsigned char value, size_t n_bytes) {
    CUcontext primary, before = sim_current();
    ck_cu(SIM(cuDevicePrimaryCtxRetain)(&primary, 0));
    ck_cu(SIM(cuCtxSetCurrent)(primary));
    ck_cu(SIM(cuMemsetD8_v2)(dst, value, n_bytes));
    ck_cu(SIM(cuCtxSynchronize)()); /* because a set does not wait */
    ck_cu(SIM(cuCtxSetCurrent)(before));
    ck_cu(SIM(cuDevicePrimaryCtxRelease_v2)(0));
}

/* Check that no object of Vulkan or CUDA is left and that no rule was broken. */
static inline void check_nothing_left(void) {
    const struct fake_vulkan *vulkan = fake();
    ck_assert_int_eq(vulkan->n_memories, 0);
    ck_assert_int_eq(vulkan->n_mapped, 0);
    ck_assert_int_eq(vulkan->n_logical, 0);
    ck_assert_int_eq(vulkan->n_instances, 0);
    ck_assert_uint_eq(vulkan->n_misuses, 0);
    ck_assert_uint_eq(SIM(sim_live_allocations)(), 0);
}
