#include "kernels/tests/launch/fixture.h"

static const struct cushim_kernel kernels[FIXTURE_N_KERNELS] = {
    [FIXTURE_STORE] = {.name = "fixture_store"},
    [FIXTURE_LARGE] = {.name = "fixture_large", .shared_bytes = 64 << 10, .is_wide = true},
};
const unsigned char cushim_fatbin_fixture[] = SIM_MODULE_IMAGE;
CUSHIM_KERNEL_FAMILY(fixture, kernels);

static void store(void **args) {
    *SIM_ARG(uint32_t *, 0) = SIM_ARG(uint32_t, 1);
}

SIM_KERNEL(fixture_store, uint32_t *, uint32_t) {
    (void)launch;
    store(args);
}

SIM_KERNEL(fixture_large, uint32_t *, uint32_t) {
    (void)launch;
    store(args);
}

static void reference(const void *args) {
    const struct fixture_args *store = args;
    *store->dst = store->value;
}

enum cushim_status fixture_store_by(enum fixture_kernel kernel,
                                    const struct cushim_kernel_shape *shape,
                                    struct fixture_args *args, CUstream stream) {
    struct cushim_kernel_call call;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, "fixture_store", &cushim_family_fixture, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, args, sizeof *args);
    void *params[] = {&args->dst, &args->value};
    return cushim_kernel_call_launch(&call, kernel, shape, params);
}

enum cushim_status fixture_store(uint32_t *dst, uint32_t value, CUstream stream) {
    struct fixture_args args = {dst, value};
    enum cushim_status status = fixture_store_by(
        FIXTURE_STORE, &(struct cushim_kernel_shape){.is_dependent = false}, &args, stream);
    args = (struct fixture_args){0}; /* both ways have their copy now */
    return status;
}

/* ---- the driver ---- */

#define CU(call) ck_assert_int_eq((call), CUDA_SUCCESS)

void fixture_context(int device) {
    CUcontext context;
    CU(SIM(cuInit)(0));
    CU(SIM(cuDevicePrimaryCtxRetain)(&context, device));
    CU(SIM(cuCtxSetCurrent)(context));
}

CUstream fixture_stream(void) {
    CUstream stream;
    CU(SIM(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

uint32_t *fixture_word(void) {
    CUdeviceptr word;
    CU(SIM(cuMemAlloc_v2)(&word, sizeof(uint32_t)));
    CU(SIM(cuMemsetD32_v2)(word, 0, 1));
    CU(SIM(cuCtxSynchronize)());
    return (uint32_t *)(uintptr_t)word; // NOLINT
}

uint32_t fixture_read(const uint32_t *word) {
    uint32_t value = 0;
    CU(SIM(cuCtxSynchronize)());
    CU(SIM(cuMemcpyDtoH_v2)(&value, (uintptr_t)word, sizeof value));
    return value;
}

CUgraphExec fixture_end_capture(CUstream stream) {
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    size_t n = 0;
    CU(SIM(cuStreamEndCapture)(stream, &graph));
    CU(SIM(cuGraphGetNodes)(graph, NULL, &n));
    ck_assert_uint_gt(n, 0);
    CU(SIM(cuGraphInstantiateWithFlags)(&executable, graph, 0));
    CU(SIM(cuGraphDestroy)(graph));
    return executable;
}

void fixture_replay(CUgraphExec executable, CUstream stream) {
    CU(SIM(cuGraphLaunch)(executable, stream));
    CU(SIM(cuStreamSynchronize)(stream));
}
