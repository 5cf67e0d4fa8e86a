/*
 * What a launch wants of a kernel: shared memory, clusters; and fatbins of a program that has their
 * kernels, as this one.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <string.h>

extern const int sim_fatbin_kernels;
const int sim_fatbin_kernels = 1;

enum { KIB = 1024 };

static struct sim_launch seen; /* by the last launch */

SIM_KERNEL(look) {
    (void)args;
    seen = *launch;
}

static CUresult launch(CUfunction function, unsigned n_blocks, unsigned cluster, unsigned n_bytes) {
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = 1},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {cluster, 1, 1}}};
    CUlaunchConfig config = {.gridDimX = n_blocks,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = n_bytes,
                             .attrs = attributes,
                             .numAttrs = cluster ? 2 : 1};
    memset(&seen, 0, sizeof seen);
    CUresult result = cuLaunchKernelEx(&config, function, NULL, NULL);
    ck_cuda(cuCtxSynchronize());
    return result;
}

START_TEST(a_kernel_gets_more_shared_memory_than_48_kib_when_its_limit_is_raised) {
    int limit;
    fixture_context();
    CUfunction look = fixture_kernel("look");
    ck_cuda(launch(look, 1, 0, 48 * KIB));
    ck_assert_uint_eq(seen.shared_bytes, 48 * KIB);
    ck_cuda_is(launch(look, 1, 0, 48 * KIB + 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(seen.grid[0], 0);
    ck_cuda(cuFuncSetAttribute(look, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 * KIB));
    ck_cuda(cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, look));
    ck_assert_int_eq(limit, 100 * KIB);
    ck_cuda(launch(look, 1, 0, 100 * KIB));
    ck_cuda_is(launch(look, 1, 0, 100 * KIB + 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * KIB,
                                 (CUkernel)look, 0));
    ck_cuda(launch(look, 1, 0, 227 * KIB));
    ck_cuda_is(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * KIB + 1,
                                    (CUkernel)look, 0),
               CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_kernel_sees_the_cluster_that_it_was_launched_in) {
    fixture_context();
    CUfunction look = fixture_kernel("look");
    ck_cuda(launch(look, 12, 0, 0));
    ck_assert_uint_eq(seen.grid[0], 12);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(seen.cluster[i], 1);
    ck_cuda(launch(look, 12, 4, 0));
    ck_assert_uint_eq(seen.cluster[0], 4);
    ck_assert_uint_eq(seen.cluster[1], 1);
    ck_cuda_is(launch(look, 10, 4, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(more_than_8_blocks_are_a_cluster_where_the_kernel_allows_it) {
    fixture_context();
    CUfunction look = fixture_kernel("look");
    ck_cuda(launch(look, 16, 8, 0));
    ck_cuda_is(launch(look, 16, 16, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    ck_cuda(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
                                 (CUkernel)look, 0));
    ck_cuda(launch(look, 16, 16, 0));
    ck_assert_uint_eq(seen.cluster[0], 16);
    ck_cuda_is(launch(look, 32, 32, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}
END_TEST

START_TEST(a_captured_launch_keeps_its_cluster) {
    CUgraph graph;
    CUgraphExec exec;
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {2, 1, 1}};
    fixture_context();
    CUlaunchConfig config = {.gridDimX = 4,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = fixture_stream(CU_STREAM_NON_BLOCKING),
                             .attrs = &cluster,
                             .numAttrs = 1};
    ck_cuda(cuStreamBeginCapture(config.hStream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ck_cuda(cuLaunchKernelEx(&config, fixture_kernel("look"), NULL, NULL));
    ck_cuda(cuStreamEndCapture(config.hStream, &graph));
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    ck_cuda(cuGraphLaunch(exec, config.hStream));
    ck_cuda(cuStreamSynchronize(config.hStream));
    ck_assert_uint_eq(seen.grid[0], 4);
    ck_assert_uint_eq(seen.cluster[0], 2);
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuGraphDestroy(graph));
}
END_TEST

START_TEST(a_fatbin_loads_where_the_program_has_its_kernels) {
    static const uint32_t fatbin[] = {0xba55ed50, 16u << 16 | 1, 0, 0};
    static const uint32_t elf[] = {0x464c457f, 0, 0, 0};
    CUlibrary library;
    CUmodule module;
    CUkernel kernel;
    CUfunction function;
    fixture_context();
    ck_cuda(cuLibraryLoadData(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0));
    ck_cuda(cuLibraryGetKernel(&kernel, library, "look"));
    ck_cuda(launch((CUfunction)kernel, 2, 0, 0));
    ck_assert_uint_eq(seen.grid[0], 2);
    ck_cuda_is(cuLibraryGetKernel(&kernel, library, "nobody"), CUDA_ERROR_NOT_FOUND);
    ck_cuda(cuLibraryUnload(library));
    ck_cuda(cuModuleLoadData(&module, fatbin));
    ck_cuda(cuModuleGetFunction(&function, module, "look"));
    ck_cuda(cuModuleUnload(module));
    ck_cuda_is(cuModuleLoadData(&module, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
}
END_TEST

static int attribute(CUdevice_attribute attribute) {
    int value;
    ck_cuda(cuDeviceGetAttribute(&value, attribute, 0));
    return value;
}

START_TEST(a_device_of_12_0_has_less_shared_memory_and_narrower_clusters) {
    setenv("CUSHIM_SIM_CAPABILITY", "120", 1);
    fixture_context();
    CUfunction look = fixture_kernel("look");
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 12);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 0);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), 1);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 99 * KIB);
    ck_cuda_is(
        cuFuncSetAttribute(look, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 99 * KIB + 1),
        CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuFuncSetAttribute(look, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 99 * KIB));
    ck_cuda(cuFuncSetAttribute(look, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    ck_cuda(launch(look, 16, 8, 99 * KIB));
    ck_cuda_is(launch(look, 16, 16, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}
END_TEST

START_TEST(a_device_of_8_7_has_the_figures_of_8_6_and_no_clusters) {
    setenv("CUSHIM_SIM_CAPABILITY", "87", 1);
    fixture_context();
    CUfunction look = fixture_kernel("look");
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 7);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), 0);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 82);
    ck_cuda(launch(look, 4, 1, 0));
    ck_cuda_is(launch(look, 4, 2, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}
END_TEST

SUITE() {
    return suite_run(
        "launch",
        (const TTest *[]){a_kernel_gets_more_shared_memory_than_48_kib_when_its_limit_is_raised,
                          a_kernel_sees_the_cluster_that_it_was_launched_in,
                          more_than_8_blocks_are_a_cluster_where_the_kernel_allows_it,
                          a_captured_launch_keeps_its_cluster,
                          a_device_of_12_0_has_less_shared_memory_and_narrower_clusters,
                          a_device_of_8_7_has_the_figures_of_8_6_and_no_clusters,
                          a_fatbin_loads_where_the_program_has_its_kernels, NULL});
}
