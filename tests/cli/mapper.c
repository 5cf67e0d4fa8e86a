/*
 * A program that asks for mapped memory as frameworks do: mapped.py knows how much, and which
 * function asks.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 2 << 20, N_STEPS = 50, N_WEIGHTS = 4, N_ACTIVATIONS = 8, N_LEAKED = 3 };

static void must(CUresult answer) {
    if (answer != CUDA_SUCCESS)
        abort();
}

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAccessDesc for_all = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

struct piece {
    CUdeviceptr address;
    size_t n_bytes;
    CUmemGenericAllocationHandle handle;
};

/* As JAX's platform allocator. */
static struct piece step_takes(size_t n_bytes) {
    struct piece piece = {.n_bytes = n_bytes};
    must(cuMemAddressReserve(&piece.address, n_bytes, 0, 0, 0));
    must(cuMemCreate(&piece.handle, n_bytes, &on_device, 0));
    must(cuMemMap(piece.address, n_bytes, 0, piece.handle, 0));
    must(cuMemSetAccess(piece.address, n_bytes, &for_all, 1));
    return piece;
}

static void step_gives(const struct piece *piece) {
    must(cuMemUnmap(piece->address, piece->n_bytes));
    must(cuMemRelease(piece->handle));
    must(cuMemAddressFree(piece->address, piece->n_bytes));
}

/* As llama.cpp's pool: the handle is gone before the memory is used. */
static void weights_take(CUdeviceptr address) {
    CUmemGenericAllocationHandle handle;
    must(cuMemCreate(&handle, PAGE, &on_device, 0));
    must(cuMemMap(address, PAGE, 0, handle, 0));
    must(cuMemRelease(handle));
    must(cuMemSetAccess(address, PAGE, &for_all, 1));
}

static void leaker_takes(void) {
    CUmemGenericAllocationHandle handle;
    must(cuMemCreate(&handle, PAGE, &on_device, 0));
}

static CUarray texture_takes(void) {
    CUarray array;
    const CUDA_ARRAY_DESCRIPTOR shape = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
    must(cuArrayCreate(&array, &shape));
    return array;
}

/* ---- one request too many, of each kind ---- */

static CUresult ask_mapped(size_t n_bytes) {
    CUmemGenericAllocationHandle handle;
    return cuMemCreate(&handle, n_bytes, &on_device, 0);
}

static CUresult ask_async(size_t n_bytes) {
    CUdeviceptr address;
    return cuMemAllocAsync(&address, n_bytes, NULL);
}

static CUresult ask_pool(size_t n_bytes) {
    CUdeviceptr address;
    CUmemoryPool pool;
    must(cuDeviceGetDefaultMemPool(&pool, 0));
    return cuMemAllocFromPoolAsync(&address, n_bytes, pool, NULL);
}

static CUresult ask_array(size_t n_bytes) {
    CUarray array;
    const CUDA_ARRAY_DESCRIPTOR shape = {n_bytes / 4096, 1024, CU_AD_FORMAT_FLOAT, 1};
    return cuArrayCreate(&array, &shape);
}

static CUresult ask_levels(size_t n_bytes) {
    CUmipmappedArray array;
    const CUDA_ARRAY3D_DESCRIPTOR shape = {n_bytes / 4096, 1024, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    return cuMipmappedArrayCreate(&array, &shape, 1);
}

static CUresult ask_pitch(size_t n_bytes) {
    CUdeviceptr address;
    size_t pitch_bytes;
    return cuMemAllocPitch(&address, &pitch_bytes, 4096, n_bytes / 4096, 4);
}

static CUresult ask_managed(size_t n_bytes) {
    CUdeviceptr address;
    return cuMemAllocManaged(&address, n_bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult ask_plain(size_t n_bytes) {
    CUdeviceptr address;
    return cuMemAlloc(&address, n_bytes);
}

/* What is asked for without a number of bytes; the driver finds no memory for the next call. */
static void fail_next(void) {
    void (*fail_at)(unsigned long, CUresult) = NULL;
    *(void **)&fail_at = dlsym(RTLD_DEFAULT, "sim_fail_at");
    fail_at(1, CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult ask_context(size_t n_bytes) {
    CUcontext context;
    (void)n_bytes;
    fail_next();
    return cuCtxCreate(&context, NULL, 0, 0);
}

static CUresult ask_module(size_t n_bytes) {
    CUmodule module;
    (void)n_bytes;
    fail_next();
    return cuModuleLoadData(&module, ".version 8.0\n.entry put(.param .u64 p)\n{ ret; }");
}

static CUresult ask_graph(size_t n_bytes) {
    CUgraph graph;
    CUgraphExec exec;
    (void)n_bytes;
    must(cuGraphCreate(&graph, 0));
    must(cuGraphInstantiate(&exec, graph, 0));
    fail_next();
    return cuGraphLaunch(exec, NULL);
}

static const struct {
    const char *name;
    CUresult (*ask)(size_t n_bytes);
} kinds[] = {{"mapped", ask_mapped},   {"async", ask_async},   {"pool", ask_pool},
             {"array", ask_array},     {"levels", ask_levels}, {"pitch", ask_pitch},
             {"managed", ask_managed}, {"plain", ask_plain},   {"context", ask_context},
             {"module", ask_module},   {"launch", ask_graph}};

/* Some memory of each kind, and then a request for more than is left; or that request alone; or
 * after both one for less. */
static int run_out(const char *name, const char *how) {
    CUdeviceptr address;
    if (strcmp(how, "alone") != 0) {
        must(cuMemAlloc(&address, PAGE));
        must(cuMemAllocAsync(&address, 3 * PAGE, NULL));
        step_takes(4 * PAGE);
        texture_takes();
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) != 0)
            continue;
        if (kinds[i].ask((size_t)48 << 20) != CUDA_ERROR_OUT_OF_MEMORY)
            return 4;
        if (strcmp(how, "probe") == 0)
            must(kinds[i].ask((size_t)32 << 20));
        return 3;
    }
    return 5;
}

int main(int n_arguments, char **arguments) {
    CUcontext context;
    CUdeviceptr workspace, weights;
    struct piece pieces[N_ACTIVATIONS];
    must(cuInit(0));
    must(cuDevicePrimaryCtxRetain(&context, 0));
    must(cuCtxSetCurrent(context));
    if (n_arguments > 1)
        return run_out(arguments[1], n_arguments > 2 ? arguments[2] : "");
    must(cuMemAlloc(&workspace, PAGE));
    must(cuMemAddressReserve(&weights, N_WEIGHTS * (size_t)PAGE, 0, 0, 0));
    for (size_t i = 0; i < N_WEIGHTS; i++)
        weights_take(weights + i * PAGE);
    CUarray texture = texture_takes();
    for (int step = 0; step < N_STEPS; step++) {
        for (size_t i = 0; i < N_ACTIVATIONS; i++)
            pieces[i] = step_takes((i + 1) * PAGE);
        for (int i = 0; i < N_ACTIVATIONS; i++)
            step_gives(&pieces[i]);
        if (step % (N_STEPS / N_LEAKED) == 1 && step / (N_STEPS / N_LEAKED) < N_LEAKED)
            leaker_takes();
    }
    must(cuArrayDestroy(texture));
    must(cuMemUnmap(weights, PAGE)); /* the first of them */
    must(cuMemFree(workspace));
    return 0;
}
