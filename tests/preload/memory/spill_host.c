/* CUSHIM_SPILL is more than the host has: a quarter of what is free there is left alone. */
#include <inttypes.h>
#include <stdio.h>

#include "tests/preload/fixture/fixture.h"

static size_t available_bytes(void) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    ck_assert_ptr_nonnull(file);
    while (!kib && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %zu", &kib) != 1)
            kib = 0;
    }
    fclose(file);
    return kib << 10;
}

/* Other processes take and give meanwhile, so the bound is loose; less may be left in a group. */
TEST(a_quarter_of_the_free_host_memory_is_left_alone) {
    size_t n_bytes, all_bytes;
    CUdeviceptr address;
    fixture_use_device(0);
    OK(cuMemGetInfo(&n_bytes, &all_bytes));
    if (fixture_is_preloaded()) {
        ck_assert_uint_ge(all_bytes, (size_t)64 << 40);
        ck_assert_uint_le(n_bytes, available_bytes() / 20 * 17);
    }
    ANSWERS(cuMemAlloc(&address, available_bytes() / 20 * 17), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&address, 80 * MIB));
    ck_assert_uint_eq(sim_used_bytes(SIM_OF_HOST), fixture_is_preloaded() ? 80 * MIB : 0);
}

int main(void) {
    return fixture_run("spill_host");
}
