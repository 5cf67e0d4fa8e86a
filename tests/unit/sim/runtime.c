/*
 * The software runtime has the names of NVIDIA's runtimes of CUDA 12 and 13, and the functions that
 * forward to the driver reach the right driver call.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define RT_OK(call)            ck_assert_int_eq((call), cudaSuccess)
#define RT_ANSWERS(call, code) ck_assert_int_eq((call), (code))

/* The headers that declare them belong to other packages. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
void **__cudaRegisterFatBinary(void *fat_binary);
void __cudaRegisterFunction(void **binary, const char *stub, char *device_stub, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size);
void __cudaRegisterVar(void **binary, char *shadow, char *device_address, const char *name,
                       int external, size_t n_bytes, int constant, int global);

static char stub_of_add, shadow[64];

SIM_KERNEL(add, int *, int) {
    (void)launch;
    *SIM_ARG(int *, 0) += SIM_ARG(int, 1);
}

/* Registers kernels as nvcc's start-up code does. */
static void register_program(void) {
    static char nothing;
    void **binary = __cudaRegisterFatBinary(&nothing);
    __cudaRegisterFunction(binary, &stub_of_add, &stub_of_add, "add", -1, NULL, NULL, NULL, NULL,
                           NULL);
    __cudaRegisterVar(binary, shadow, shadow, "shadow", 0, sizeof shadow, 0, 0);
}

static int *managed_int(void) {
    int *number;
    RT_OK(cudaMallocManaged((void **)&number, sizeof *number, cudaMemAttachGlobal));
    *number = 0;
    return number;
}

/* ---- names ---- */

static void check_names(const char *library, const char *list) {
    char path[512], line[128];
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    snprintf(path, sizeof path, "%s/%s", TEST_NAMES, list);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    int n = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#')
            continue;
        ck_assert_msg(dlsym(handle, line) != NULL, "%s lacks %s", library, line);
        n++;
    }
    fclose(file);
    ck_assert_int_gt(n, 350);
}

TEST(every_name_of_CUDA_13_is_there) {
    check_names("libcudart.so.13", "libcudart-13.5.txt");
}

TEST(every_name_of_CUDA_12_is_there) {
    check_names("libcudart.so.12", "libcudart-12.9.txt");
}

struct row {
    const char *name, *call;
};

static const struct row rows[] = {
#define THIN(name, parameters, call, arguments) {#name, #call},
#define PER_THREAD(name, parameters, call, arguments)                                              \
    {#name, #call}, {#name "_ptsz", #call "_ptsz"},
#define REFUSED(name)
#define LATER(name)
#include "tools/sim/runtime/core/names.def"
#undef THIN
#undef PER_THREAD
#undef REFUSED
#undef LATER
};

static const char *const refused[] = {
#define THIN(name, parameters, call, arguments)
#define PER_THREAD(name, parameters, call, arguments)
#define REFUSED(name) #name,
#define LATER(name)
#include "tools/sim/runtime/core/names.def"
#undef REFUSED
#undef LATER
};

static const char *const later[] = {
#define REFUSED(name)
#define LATER(name) #name,
#include "tools/sim/runtime/core/names.def"
#undef THIN
#undef PER_THREAD
#undef REFUSED
#undef LATER
};

enum { N_ROWS = sizeof rows / sizeof *rows, N_REFUSED = sizeof refused / sizeof *refused };

/* Call it with zero in every argument: the driver refuses the call but counts it. */
static cudaError_t call_empty(const char *name) {
    typedef cudaError_t any_fn(void *, void *, void *, void *, void *, void *, void *, void *,
                               void *, void *);
    any_fn *function;
    void *address = dlsym(RTLD_DEFAULT, name);
    ck_assert_msg(address != NULL, "%s", name);
    memcpy(&function, &address, sizeof function);
    return function(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
}

/* A per-thread name goes to the driver's per-thread entry point, which is counted separately. */
TEST(each_name_reaches_the_driver_call_of_its_row) {
    RT_OK(cudaFree(NULL));
    for (int i = 0; i < N_ROWS; i++) {
        sim_calls_reset();
        call_empty(rows[i].name);
        ck_assert_msg(sim_calls(rows[i].call) == 1, "%s does not call %s", rows[i].name,
                      rows[i].call);
    }
}

TEST(missing_features_are_not_supported) {
    for (size_t i = 0; i < N_REFUSED; i++)
        ck_assert_msg(call_empty(refused[i]) == cudaErrorNotSupported, "%s", refused[i]);
    RT_ANSWERS(cudaGetLastError(), cudaErrorNotSupported);
}

TEST(functions_of_a_later_driver_need_a_newer_one) {
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        ck_assert_msg(call_empty(later[i]) == cudaErrorCallRequiresNewerDriver, "%s", later[i]);
    RT_ANSWERS(cudaGetLastError(), cudaErrorCallRequiresNewerDriver);
}

/* ---- graphs, node by node ---- */

static struct cudaKernelNodeParams add_params(int **target, int *value, void *args[2]) {
    args[0] = target;
    args[1] = value;
    return (struct cudaKernelNodeParams){
        .func = &stub_of_add, .gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .kernelParams = args};
}

static cudaGraphExec_t run_graph(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    RT_OK(cudaGraphInstantiate(&exec, graph, 0));
    RT_OK(cudaGraphLaunch(exec, NULL));
    RT_OK(cudaDeviceSynchronize());
    return exec;
}

TEST(a_graph_of_kernels_copies_and_sets_is_built_node_by_node) {
    cudaGraph_t graph;
    cudaGraphNode_t set, kernel, copy, to_symbol, from_symbol;
    int *number = managed_int(), value = 7, copied = 0, seen = 0, source = 99;
    void *args[2];
    register_program();
    struct cudaMemsetParams zero = {
        .dst = number, .value = 1, .elementSize = 4, .width = 1, .height = 1, .pitch = 4};
    struct cudaKernelNodeParams params = add_params(&number, &value, args);
    RT_OK(cudaGraphCreate(&graph, 0));
    RT_OK(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &zero));
    RT_OK(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &params));
    RT_OK(
        cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, &copied, number, 4, cudaMemcpyDefault));
    RT_OK(cudaGraphAddMemcpyNodeToSymbol(&to_symbol, graph, &copy, 1, shadow, &source, 4, 8,
                                         cudaMemcpyHostToDevice));
    RT_OK(cudaGraphAddMemcpyNodeFromSymbol(&from_symbol, graph, &to_symbol, 1, &seen, shadow, 4, 8,
                                           cudaMemcpyDeviceToHost));
    cudaGraphExec_t exec = run_graph(graph);
    ck_assert_int_eq(copied, 8);
    ck_assert_int_eq(seen, 99);

    value = 20;
    RT_OK(cudaGraphExecKernelNodeSetParams(exec, kernel, &params));
    zero.value = 2;
    RT_OK(cudaGraphExecMemsetNodeSetParams(exec, set, &zero));
    RT_OK(cudaGraphLaunch(exec, NULL));
    RT_OK(cudaDeviceSynchronize());
    ck_assert_int_eq(copied, 22);

    value = 30;
    RT_OK(cudaGraphKernelNodeSetParams(kernel, &params));
    run_graph(graph);
    ck_assert_int_eq(copied, 31);
    RT_ANSWERS(cudaGraphAddMemcpyNodeToSymbol(&to_symbol, graph, NULL, 0, shadow, &source, 4, 62,
                                              cudaMemcpyHostToDevice),
               cudaErrorInvalidValue);
}

TEST(a_node_of_any_kind_is_added_and_set) {
    cudaGraph_t graph, child;
    cudaGraphNode_t node, inner;
    int *number = managed_int(), value = 5;
    void *args[] = {&number, &value};
    register_program();
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeKernel};
    params.kernel.func = &stub_of_add;
    params.kernel.gridDim = params.kernel.blockDim = (dim3){1, 1, 1};
    params.kernel.kernelParams = args;
    RT_OK(cudaGraphCreate(&graph, 0));
    RT_OK(cudaGraphCreate(&child, 0));
    RT_OK(cudaGraphAddNode(&inner, child, NULL, NULL, 0, &params));
    struct cudaGraphNodeParams of_child = {.type = cudaGraphNodeTypeGraph, .graph.graph = child};
    RT_OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &of_child));
    RT_OK(cudaGraphAddNode(&node, graph, &node, NULL, 1, &params));
    cudaGraphExec_t exec = run_graph(graph);
    ck_assert_int_eq(*number, 10);
    value = 1;
    RT_OK(cudaGraphExecNodeSetParams(exec, node, &params));
    RT_OK(cudaGraphLaunch(exec, NULL));
    RT_OK(cudaDeviceSynchronize());
    ck_assert_int_eq(*number, 16);
    params.kernel.func = &node;
    RT_ANSWERS(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params),
               cudaErrorInvalidDeviceFunction);
}

/* The sum that a conditional node makes, whose body i adds 10^i. */
static int run_conditional(enum cudaGraphConditionalNodeType type, unsigned n_bodies,
                           unsigned value, unsigned flags) {
    cudaGraph_t graph;
    cudaGraphNode_t node, inner;
    cudaGraphConditionalHandle condition;
    int *number = managed_int(), added = 1;
    void *args[2];
    register_program();
    struct cudaKernelNodeParams add = add_params(&number, &added, args);
    RT_OK(cudaGraphCreate(&graph, 0));
    RT_OK(cudaGraphConditionalHandleCreate(&condition, graph, value, flags));
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeConditional};
    params.conditional.handle = condition;
    params.conditional.type = type;
    params.conditional.size = n_bodies;
    RT_OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    for (unsigned i = 0; i < n_bodies; i++, added *= 10)
        RT_OK(cudaGraphAddKernelNode(&inner, params.conditional.phGraph_out[i], NULL, 0, &add));
    RT_OK(cudaGraphExecDestroy(run_graph(graph)));
    RT_ANSWERS(cudaGraphDestroy(params.conditional.phGraph_out[0]), cudaErrorInvalidValue);
    cudaGraph_t copy;
    RT_OK(cudaGraphClone(&copy, graph));
    RT_OK(cudaGraphDestroy(graph));
    int once = *number;
    RT_OK(cudaGraphExecDestroy(run_graph(copy)));
    RT_OK(cudaGraphDestroy(copy));
    ck_assert_int_eq(*number, 2 * once);
    return once;
}

TEST(a_condition_chooses_the_body_by_its_default) {
    const unsigned set = cudaGraphCondAssignDefault;
    ck_assert_int_eq(run_conditional(cudaGraphCondTypeIf, 1, 1, set), 1);
    ck_assert_int_eq(run_conditional(cudaGraphCondTypeIf, 1, 0, set), 0);
    ck_assert_int_eq(run_conditional(cudaGraphCondTypeIf, 1, 1, 0), 0);
    ck_assert_int_eq(run_conditional(cudaGraphCondTypeIf, 2, 0, set), 10);
    ck_assert_int_eq(run_conditional(cudaGraphCondTypeWhile, 1, 3, set), 1);
    ck_assert_int_eq(run_conditional(cudaGraphCondTypeSwitch, 3, 2, set), 100);
    ck_assert_int_eq(run_conditional(cudaGraphCondTypeSwitch, 3, 3, set), 0);
    cudaGraph_t graph;
    cudaGraphNode_t node;
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeConditional};
    RT_OK(cudaGraphCreate(&graph, 0));
    params.conditional.size = 1; /* no handle */
    RT_ANSWERS(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params), cudaErrorInvalidValue);
}

/* ---- libraries and variables ---- */

TEST(a_library_has_the_kernels_and_variables_of_its_image) {
    const char *image = SIM_MODULE_IMAGE "\n.entry add 8 4\n.entry other 8\n.global box 16\n";
    cudaLibrary_t library, all;
    cudaKernel_t add, list[2] = {NULL, NULL};
    unsigned n = 0;
    int *number = managed_int(), value = 3;
    void *args[] = {&number, &value}, *found;
    const dim3 one = {1, 1, 1};
    RT_OK(cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    RT_OK(cudaLibraryGetKernelCount(&n, library));
    ck_assert_uint_eq(n, 2);
    RT_OK(cudaLibraryEnumerateKernels(list, 2, library));
    RT_OK(cudaLibraryGetKernel(&add, library, "add"));
    ck_assert_ptr_eq(add, list[0]);
    ck_assert_ptr_nonnull(list[1]);
    RT_ANSWERS(cudaLibraryGetKernel(&add, library, "absent"), cudaErrorSymbolNotFound);
    RT_ANSWERS(cudaLibraryGetUnifiedFunction(&found, library, "add"), cudaErrorSymbolNotFound);
    RT_OK(cudaKernelSetAttributeForDevice(list[0], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          60000, 0));
    RT_ANSWERS(cudaKernelSetAttributeForDevice(list[0], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               1 << 30, 0),
               cudaErrorInvalidValue);
    RT_OK(cudaLaunchKernel(list[0], one, one, args, 60000, NULL));
    RT_OK(cudaLaunchCooperativeKernel(list[0], one, one, args, 0, NULL));
    RT_OK(cudaDeviceSynchronize());
    ck_assert_int_eq(*number, 6);
    RT_OK(cudaLibraryLoadData(&all, SIM_MODULE_IMAGE, NULL, NULL, 0, NULL, NULL, 0));
    RT_ANSWERS(cudaLibraryGetKernelCount(&n, all), cudaErrorNotSupported);
    RT_OK(cudaLibraryUnload(library));
    RT_ANSWERS(cudaLibraryUnload(library), cudaErrorInvalidResourceHandle);
}

TEST(a_variable_is_copied_in_all_forms) {
    cudaStream_t stream;
    int number = 17, seen = 0;
    size_t offset = 0, n_bytes = 0;
    register_program();
    RT_OK(cudaStreamCreate(&stream));
    RT_OK(cudaMemcpyToSymbolAsync(shadow, &number, 4, 60, cudaMemcpyHostToDevice, stream));
    RT_OK(cudaMemcpyFromSymbolAsync(&seen, shadow, 4, 60, cudaMemcpyDeviceToHost, stream));
    RT_OK(cudaStreamSynchronize(stream));
    ck_assert_int_eq(seen, 17);
    RT_ANSWERS(cudaMemcpyToSymbolAsync(shadow, &number, 4, 61, cudaMemcpyHostToDevice, stream),
               cudaErrorInvalidValue);
    RT_OK(cudaFuncGetParamInfo(&stub_of_add, 1, &offset, &n_bytes));
    ck_assert_uint_eq(offset, 8);
    ck_assert_uint_eq(n_bytes, 4);
    RT_ANSWERS(cudaFuncGetParamInfo(&stub_of_add, 2, &offset, &n_bytes), cudaErrorInvalidValue);
}

TEST(settings_are_taken_and_refused) {
    uint64_t value = 0;
    RT_OK(cudaProfilerStart());
    RT_OK(cudaProfilerStop());
    RT_OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value));
    RT_ANSWERS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &value),
               cudaErrorInvalidValue);
    value = 1;
    RT_ANSWERS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value),
               cudaErrorInvalidValue);
    RT_ANSWERS(cudaGetExportTable(NULL, NULL), cudaErrorSymbolNotFound);
    const cudaError_t kept = cudaGetLastError();
    ck_assert_int_eq(kept, cudaErrorSymbolNotFound);
}

TEST(a_pool_is_exported_and_imported) {
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .handleTypes = cudaMemHandleTypePosixFileDescriptor,
                                     .location = {.type = cudaMemLocationTypeDevice}};
    struct cudaMemPoolPtrExportData data;
    cudaMemPool_t pool, imported;
    unsigned char byte = 0, *block, *seen;
    int fd;
    RT_OK(cudaMemPoolCreate(&pool, &props));
    RT_OK(cudaMallocFromPoolAsync((void **)&block, 1000, pool, NULL));
    RT_OK(cudaMemset(block, 3, 1000));
    RT_OK(cudaMemPoolExportToShareableHandle(&fd, pool, props.handleTypes, 0));
    RT_OK(cudaMemPoolExportPointer(&data, block));
    RT_OK(cudaMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd, props.handleTypes,
                                               0));
    RT_OK(cudaMemPoolImportPointer((void **)&seen, imported, &data));
    RT_OK(cudaMemcpy(&byte, seen + 999, 1, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(byte, 3);
    RT_OK(cudaFree(seen));
    RT_OK(cudaFreeAsync(block, NULL));
    RT_OK(cudaMemPoolDestroy(imported));
    RT_OK(cudaMemPoolDestroy(pool));
}

SUITE() {
    return tests_run("runtime");
}
