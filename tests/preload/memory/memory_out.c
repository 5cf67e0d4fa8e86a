/*
 * Out of memory in any call that allocates: our idle memory goes back, and the call is made once
 * more.  Then the driver's answer stands (interposition.md C12).
 */
#include "tests/preload/fixture/fixture.h"

enum { PAGE = 2 * MIB };

static CUresult alloc_small(void) {
    CUdeviceptr address;
    return cuMemAlloc(&address, 1 * MIB);
}

static CUresult alloc_large(void) {
    CUdeviceptr address;
    return cuMemAlloc(&address, 40 * MIB);
}

static CUresult alloc_pitch(void) {
    CUdeviceptr address;
    size_t pitch;
    return cuMemAllocPitch(&address, &pitch, 1 * MIB, 40, 4);
}

static CUresult alloc_async(void) {
    CUdeviceptr address;
    return cuMemAllocAsync(&address, 40 * MIB, NULL);
}

static CUresult alloc_from_pool(void) {
    CUdeviceptr address;
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return cuMemAllocFromPoolAsync(&address, 40 * MIB, pool, NULL);
}

static CUresult create_physical(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return cuMemCreate(&handle, 40 * MIB, &properties, 0);
}

static CUresult create_array(void) {
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR shape = {4096, 2560, CU_AD_FORMAT_FLOAT, 1};
    return cuArrayCreate(&array, &shape);
}

static CUresult create_array_3d(void) {
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR shape = {1024, 1024, 10, CU_AD_FORMAT_FLOAT, 1, 0};
    return cuArray3DCreate(&array, &shape);
}

static CUresult create_mipmapped(void) {
    CUmipmappedArray array;
    CUDA_ARRAY3D_DESCRIPTOR shape = {2048, 2048, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    return cuMipmappedArrayCreate(&array, &shape, 2);
}

static CUresult load_module(void) {
    CUmodule module;
    return cuModuleLoadData(&module, SIM_MODULE_IMAGE);
}

static CUresult load_module_ex(void) {
    CUmodule module;
    return cuModuleLoadDataEx(&module, SIM_MODULE_IMAGE, 0, NULL, NULL);
}

static CUresult load_library(void) {
    CUlibrary library;
    return cuLibraryLoadData(&library, SIM_MODULE_IMAGE, NULL, NULL, 0, NULL, NULL, 0);
}

static CUresult create_context(void) {
    CUcontext context;
    return cuCtxCreate(&context, NULL, 0, 0);
}

static CUgraphExec exec;

static void make_graph(void) {
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphInstantiate(&exec, graph, 0));
}

static CUresult launch_graph(void) {
    if (!exec)
        make_graph();
    return cuGraphLaunch(exec, NULL);
}

static const struct {
    const char *name;
    CUresult (*run)(void);
} calls[] = {
    {"cuMemAllocPitch_v2", alloc_pitch},          {"cuMemAllocAsync", alloc_async},
    {"cuMemAllocFromPoolAsync", alloc_from_pool}, {"cuMemCreate", create_physical},
    {"cuArrayCreate_v2", create_array},           {"cuArray3DCreate_v2", create_array_3d},
    {"cuMipmappedArrayCreate", create_mipmapped}, {"cuModuleLoadData", load_module},
    {"cuModuleLoadDataEx", load_module_ex},       {"cuLibraryLoadData", load_library},
    {"cuCtxCreate_v4", create_context},           {"cuGraphLaunch", launch_graph},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

/* The call itself fails, once. */
static void fail_next(const char *name) {
    make_graph();
    sim_calls_reset();
    if (strcmp(name, "cuMemAllocFromPoolAsync") == 0)
        sim_fail_at(2, CUDA_ERROR_OUT_OF_MEMORY); /* after the question for the pool */
    else
        sim_fail_at(1, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_refused_call_is_tried_again_when_held_memory_went_back, .n = N_CALLS) {
    fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(1000)));
    bool holds = sim_live_bytes() > 0;
    ck_assert_int_eq(holds, fixture_is_preloaded());
    fail_next(calls[_i].name);
    ANSWERS(calls[_i].run(), holds ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert(sim_has_failed());
    ck_assert_uint_eq(sim_calls(calls[_i].name), holds ? 2 : 1);
}

TEST(with_nothing_held_the_drivers_answer_stands, .n = N_CALLS) {
    fixture_use_device(0);
    fail_next(calls[_i].name);
    ANSWERS(calls[_i].run(), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(sim_calls(calls[_i].name), 1);
    OK(calls[_i].run());
}

/* The device is full of memory that the program freed.  Any request can get it, as without
 * cushim. */
static void fill_and_free(void) {
    enum { MOST = 100 };
    CUdeviceptr blocks[MOST];
    int n = 0;
    fixture_use_device(0);
    while (n < MOST && cuMemAlloc(&blocks[n], 1536 * KIB) == CUDA_SUCCESS)
        n++;
    ck_assert_int_gt(n, 10);
    while (n)
        OK(cuMemFree(blocks[--n]));
}

TEST(memory_that_was_freed_can_be_had_by_any_call, .n = N_CALLS) {
    fill_and_free();
    OK(calls[_i].run());
}

TEST(memory_that_was_freed_can_be_had_by_any_size) {
    for (int i = 0; i < 2; i++) {
        fill_and_free();
        OK(alloc_large());
        OK(cuDevicePrimaryCtxReset(0));
        fill_and_free();
        OK(alloc_small());
        OK(cuDevicePrimaryCtxReset(0));
    }
}

TEST(memory_held_by_another_context_can_be_had) {
    CUcontext other;
    fill_and_free();
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(alloc_large());
    OK(alloc_small());
}

TEST(as_much_can_be_had_as_natively) {
    size_t free_bytes, total_bytes, n = 0;
    CUdeviceptr address;
    fixture_use_device(0);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    while (cuMemAlloc(&address, PAGE) == CUDA_SUCCESS)
        n++;
    ck_assert_uint_eq(n, free_bytes / PAGE);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    ck_assert_uint_eq(free_bytes, 0);
    ANSWERS(cuMemAlloc(&address, PAGE), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(address));
    OK(cuMemAlloc(&address, PAGE));
}

/* A variable of a module lies in a page that the driver shares among small allocations. */
TEST(what_the_pool_has_nothing_for_the_driver_serves_from_a_page_in_use) {
    CUmodule module;
    CUdeviceptr block;
    fixture_use_device(0);
    OK(cuModuleLoadData(&module, SIM_MODULE_IMAGE "\n.global counter 1000\n"));
    while (cuMemAlloc(&block, PAGE) == CUDA_SUCCESS)
        ;
    OK(cuMemAlloc(&block, 1000));
    OK(cuMemFree(block));
    OK(cuModuleUnload(module));
}

int main(void) {
    return fixture_run("memory_out");
}
