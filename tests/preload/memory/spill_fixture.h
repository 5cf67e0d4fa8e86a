/* Helpers of the suites of CUSHIM_SPILL, on a device of 64 MiB that is larger by 128 MiB. */
#pragma once

#include "tests/preload/fixture/fixture.h"

enum { DEVICE = 64 * MIB, SPILL = 128 * MIB, SUM = DEVICE + SPILL, BLOCK = 40 * MIB };

static inline size_t free_bytes(void) {
    size_t n_bytes, all_bytes;
    OK(cuMemGetInfo(&n_bytes, &all_bytes));
    ck_assert_uint_eq(all_bytes, SUM);
    return n_bytes;
}

/* So much lies in host memory, if cushim is there. */
static inline void expect_spilled(size_t n_bytes) {
    ck_assert_uint_eq(sim_used_bytes(SIM_OF_HOST), fixture_is_preloaded() ? n_bytes : 0);
}

static inline CUdeviceptr fill_device(void) {
    CUdeviceptr first = fixture_alloc(60 * MIB);
    expect_spilled(0);
    return first;
}

static inline CUdeviceptr spilled(size_t n_bytes) {
    fill_device();
    CUdeviceptr address = fixture_alloc(n_bytes);
    expect_spilled(BLOCK);
    return address;
}

static inline CUmemAllocationProp on_device(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                 .allocFlags = {.gpuDirectRDMACapable = 1}}; /* as frameworks ask */
}
