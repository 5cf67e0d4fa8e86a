/*
 * Shared memory and clusters of launches, and fatbins of a program that has their kernels, as this
 * one does.
 */
#define CUDA_ENABLE_DEPRECATED /* calls from before CUDA 4 */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <string.h>

extern const int sim_fatbin_kernels;
const int sim_fatbin_kernels = 1;

enum { KIB = 1024 };

static struct sim_launch seen; /* set by the last launch */

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

TEST(a_kernel_gets_more_shared_memory_than_48_kib_when_its_limit_is_raised) {
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

TEST(a_kernel_sees_the_cluster_that_it_was_launched_in) {
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

TEST(more_than_8_blocks_are_a_cluster_if_the_kernel_allows_it) {
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

TEST(a_captured_launch_keeps_its_cluster) {
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

TEST(a_fatbin_loads_if_the_program_has_its_kernels) {
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

static int attribute(CUdevice_attribute attribute) {
    int value;
    ck_cuda(cuDeviceGetAttribute(&value, attribute, 0));
    return value;
}

TEST(a_device_of_12_0_has_less_shared_memory_and_narrower_clusters) {
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

TEST(a_device_of_8_7_has_the_figures_of_8_6_and_no_clusters) {
    setenv("CUSHIM_SIM_CAPABILITY", "87", 1);
    fixture_context();
    CUfunction look = fixture_kernel("look");
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 7);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), 0);
    ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 82);
    ck_cuda(launch(look, 4, 1, 0));
    ck_cuda_is(launch(look, 4, 2, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

static int shown_first; /* set by the last launch of `show` */
static float shown_last;
static uint64_t shown_block;

SIM_KERNEL(show, int, uint64_t, float) {
    seen = *launch;
    shown_first = *(const int *)args[0];
    memcpy(&shown_block, args[1], sizeof shown_block);
    shown_last = *(const float *)args[2];
}

/* As PyCUDA launches. */
TEST(a_launch_uses_the_settings_of_its_function) {
    CUstream stream;
    fixture_context();
    CUfunction show = fixture_kernel("show");
    CUdeviceptr block = 0;
    ck_cuda(cuMemAlloc_v2(&block, 64));
    ck_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ck_cuda_is(cuLaunch(show), CUDA_ERROR_INVALID_VALUE); /* it has no settings yet */
    ck_cuda(cuFuncSetBlockShape(show, 32, 4, 2));
    ck_cuda(cuFuncSetSharedSize(show, 100));
    ck_cuda(cuParamSeti(show, 0, 7));
    ck_cuda(cuParamSetv(show, 8, &block, sizeof block));
    ck_cuda(cuParamSetf(show, 16, 1.5F));
    ck_cuda_is(cuLaunch(show), CUDA_ERROR_INVALID_VALUE); /* its parameters have no size */
    ck_cuda(cuParamSetSize(show, 20));
    ck_cuda(cuLaunch(show));
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(seen.grid[0] * seen.grid[1] * seen.grid[2], 1);
    ck_assert_uint_eq(seen.block[0], 32);
    ck_assert_uint_eq(seen.block[1], 4);
    ck_assert_uint_eq(seen.block[2], 2);
    ck_assert_uint_eq(seen.shared_bytes, 100);
    ck_assert_int_eq(shown_first, 7);
    ck_assert_uint_eq(shown_block, block);
    ck_assert(shown_last > 1.4F && shown_last < 1.6F);
    ck_cuda(cuParamSeti(show, 0, 8));
    ck_cuda(cuLaunchGrid(show, 5, 3));
    ck_cuda(cuParamSeti(show, 0, 9)); /* the launch already has its copy */
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(seen.grid[0] * 10 + seen.grid[1], 53);
    ck_assert_int_eq(shown_first, 8);
    ck_cuda(cuLaunchGridAsync(show, 2, 1, stream));
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_int_eq(shown_first, 9);
}

TEST(impossible_settings_are_refused_when_they_are_made) {
    fixture_context();
    CUfunction show = fixture_kernel("show");
    char bytes[8] = "";
    ck_cuda_is(cuFuncSetBlockShape(show, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuFuncSetBlockShape(NULL, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    ck_cuda_is(cuParamSetSize(show, 4097), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuParamSeti(show, -4, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuParamSeti(show, 4093, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuParamSetv(show, 0, NULL, 8), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuParamSetv(show, 8, bytes, 4096), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuLaunchGrid(show, 0, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuLaunchGrid(show, 1, -1), CUDA_ERROR_INVALID_VALUE);
}

SUITE() {
    return tests_run("launch");
}
