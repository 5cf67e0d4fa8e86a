/* A device without memory behind its addresses: CUSHIM_SIM_UNBACKED. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

/* More blocks than the mappings that the system allows a process. */
TEST(an_unbacked_device_only_counts_pages) {
    enum { N = 70000 };
    static CUdeviceptr blocks[N];
    CUdeviceptr more;
    setenv("CUSHIM_SIM_UNBACKED", "1", 1);
    setenv("CUSHIM_SIM_MEMORY", "140G", 1);
    fixture_context();
    for (size_t i = 0; i < N; i++)
        blocks[i] = fixture_alloc(2 * MIB);
    for (size_t i = N; i > 0; i -= 2)
        ck_cuda(cuMemFree(blocks[i - 1]));
    ck_assert_uint_eq(sim_used_bytes(0), (size_t)N * MIB);
    ck_cuda_is(cuMemAlloc(&more, 140ull * 1024 * MIB - (size_t)N * MIB + 1),
               CUDA_ERROR_OUT_OF_MEMORY);
    ck_cuda(cuMemAlloc(&more, 140ull * 1024 * MIB - (size_t)N * MIB));
}

SUITE() {
    return tests_run("sim unbacked");
}
