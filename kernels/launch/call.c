#include "kernels/launch/call.h"

#include "companion/shared.h"
#include "kernels/launch/settings.h"

static atomic_int n_devices;
static atomic_int is_simulated; /* 1 or -1; 0 before the first use */

/*
 * The device of the current context, or the first device if there is none, as in the CUDA runtime.
 */
static CUresult ask_current(int *device) {
    CUcontext current;
    CUresult result = CUSHIM_DRIVER(cuCtxGetCurrent)(&current);
    return result == CUDA_SUCCESS && current ? CUSHIM_DRIVER(cuCtxGetDevice)(device) : result;
}

/*
 * Find the device of a stream by its context.  Asked for the device of a capturing stream, the
 * driver ends the capture.  It may name no context for the stream of a green context.
 */
static CUresult ask_stream(CUstream stream, int *device) {
    CUcontext context = NULL;
    if (CUSHIM_DRIVER(cuStreamGetDevice) && !cushim_capture_has(stream))
        return CUSHIM_DRIVER(cuStreamGetDevice)(stream, device);
    if (CUSHIM_DRIVER(cuStreamGetCtx) &&
        CUSHIM_DRIVER(cuStreamGetCtx)(stream, &context) == CUDA_SUCCESS && context)
        return cushim_context_ask_device(context, device);
    return ask_current(device);
}

/* The device of a stream.  Special streams use that of the current context. */
static enum cushim_status find_device(const char *what, CUstream stream, int *device) {
    bool is_special = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    CUresult result;
    int n = atomic_load_explicit(&n_devices, memory_order_relaxed);
    if (!n) {
        result = CUSHIM_DRIVER(cuDeviceGetCount)(&n);
        if (result != CUDA_SUCCESS)
            return cushim_fail_cu("cuDeviceGetCount", result, "function=%s", what);
        atomic_store_explicit(&n_devices, n, memory_order_relaxed);
    }
    *device = 0;
    if (n == 1)
        return CUSHIM_OK; /* without a context the launch itself fails */
    result = is_special ? ask_current(device) : ask_stream(stream, device);
    return result == CUDA_SUCCESS ? CUSHIM_OK
                                  : cushim_fail_cu("asking for the device of a stream", result,
                                                   "function=%s stream=%p", what, (void *)stream);
}

/* The path that the device, the code in the library and the environment allow. */
static int path_of(int capability, int forced) {
    static const int paths[] = {90, 89, 80, 75};
    int most = capability < CUSHIM_KERNELS_NEWEST ? capability : CUSHIM_KERNELS_NEWEST;
    if (forced && forced < most)
        most = forced;
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (most >= paths[i])
            return paths[i];
    }
    return 0;
}

/* The software device runs the references, unless the environment asks for a path. */
static bool is_on_cpu(const struct cushim_kernel_settings *settings) {
    if (settings->has_arch)
        return settings->is_cpu;
    int is = atomic_load_explicit(&is_simulated, memory_order_relaxed);
    if (!is) {
        is = cushim_driver_find("cushim_sim_version") ? 1 : -1;
        atomic_store_explicit(&is_simulated, is, memory_order_relaxed);
    }
    return is > 0;
}

enum cushim_status cushim_kernel_call_begin(struct cushim_kernel_call *call, const char *what,
                                            struct cushim_kernel_family *family,
                                            struct CUstream_st *stream) {
    const struct cushim_kernel_settings *settings = cushim_kernel_settings();
    *call = (struct cushim_kernel_call){.what = what, .family = family, .stream = stream};
    CUSHIM_TRY(cushim_driver_use(what));
    if (settings->wrong)
        return cushim_fail(what, CUSHIM_INVALID,
                           "CUSHIM_KERNEL_ARCH=%s is none of 75, 80, 89, 90, cpu", settings->wrong);
    call->is_cpu = is_on_cpu(settings);
    if (call->is_cpu)
        return CUSHIM_OK;
    CUSHIM_TRY(find_device(what, stream, &call->device));
    CUSHIM_TRY(cushim_kernel_facts_of(what, call->device, &call->facts));
    int capability = call->facts->capability;
    call->arch = path_of(capability, settings->arch);
    if (!call->arch)
        return cushim_fail(what, CUSHIM_NOTSUPPORTED, "device=%d is of %d.%d, before 7.5",
                           call->device, capability / 10, capability % 10);
#ifdef CUSHIM_KERNELS_OF_90 /* the driver compiles code for an older device without them */
    call->has_wgmma = capability == 90 && call->arch == 90;
#endif
    call->has_clusters = call->arch == 90 && call->facts->has_clusters;
    call->has_pdl = call->arch == 90 && settings->has_pdl;
    call->n_sms = call->facts->n_sms;
    return cushim_family_use(what, family, call->device, call->facts);
}

/* ---- launching ---- */

enum { MOST_ATTRIBUTES = 2 };

static unsigned at_least_1(unsigned n) {
    return n ? n : 1;
}

static void fill(CUlaunchConfig *config, CUlaunchAttribute attributes[MOST_ATTRIBUTES],
                 const struct cushim_kernel_call *call, const struct cushim_kernel_shape *shape) {
    *config = (CUlaunchConfig){.gridDimX = at_least_1(shape->grid[0]),
                               .gridDimY = at_least_1(shape->grid[1]),
                               .gridDimZ = at_least_1(shape->grid[2]),
                               .blockDimX = at_least_1(shape->block[0]),
                               .blockDimY = at_least_1(shape->block[1]),
                               .blockDimZ = at_least_1(shape->block[2]),
                               .sharedMemBytes = shape->shared_bytes,
                               .hStream = call->stream,
                               .attrs = attributes};
    if (shape->cluster)
        attributes[config->numAttrs++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                .value.clusterDim = {shape->cluster, 1, 1}};
    if (shape->is_dependent && call->has_pdl)
        attributes[config->numAttrs++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                .value.programmaticStreamSerializationAllowed = 1};
}

static enum cushim_status fail_launch(const struct cushim_kernel_call *call, const char *entry,
                                      unsigned kernel, const CUlaunchConfig *config,
                                      CUresult result) {
    return cushim_fail_cu(entry, result,
                          "function=%s device=%d kernel=%s grid=%u,%u,%u block=%u,%u,%u "
                          "shared_bytes=%u",
                          call->what, call->device, call->family->kernels[kernel].name,
                          config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                          config->blockDimY, config->blockDimZ, config->sharedMemBytes);
}

enum cushim_status cushim_kernel_call_launch(const struct cushim_kernel_call *call, unsigned kernel,
                                             const struct cushim_kernel_shape *shape,
                                             void **params) {
    CUlaunchAttribute attributes[MOST_ATTRIBUTES];
    CUlaunchConfig config;
    CUfunction function = (CUfunction)call->family->handles[kernel];
    CUresult result;
    fill(&config, attributes, call, shape);
    if (config.numAttrs)
        result = CUSHIM_DRIVER(cuLaunchKernelEx)(&config, function, params, NULL);
    else
        result = CUSHIM_DRIVER(cuLaunchKernel)(
            function, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX,
            config.blockDimY, config.blockDimZ, config.sharedMemBytes, call->stream, params, NULL);
    return result == CUDA_SUCCESS
               ? CUSHIM_OK
               : fail_launch(call, config.numAttrs ? "cuLaunchKernelEx" : "cuLaunchKernel", kernel,
                             &config, result);
}

enum cushim_status cushim_kernel_call_clusters(const struct cushim_kernel_call *call,
                                               unsigned kernel,
                                               const struct cushim_kernel_shape *shape,
                                               int *n_clusters) {
    CUlaunchAttribute attributes[MOST_ATTRIBUTES];
    CUlaunchConfig config;
    *n_clusters = 0;
    if (!CUSHIM_DRIVER(cuOccupancyMaxActiveClusters))
        return CUSHIM_OK;
    fill(&config, attributes, call, shape);
    CUresult result = CUSHIM_DRIVER(cuOccupancyMaxActiveClusters)(
        n_clusters, (CUfunction)call->family->handles[kernel], &config);
    if (result == CUDA_ERROR_INVALID_CLUSTER_SIZE) { /* the cluster is larger than the device
                                                        allows */
        *n_clusters = 0;
        return CUSHIM_OK;
    }
    return result == CUDA_SUCCESS
               ? CUSHIM_OK
               : fail_launch(call, "cuOccupancyMaxActiveClusters", kernel, &config, result);
}

enum cushim_status cushim_kernel_call_has_clusters(const struct cushim_kernel_call *call,
                                                   unsigned kernel,
                                                   const struct cushim_kernel_shape *shape,
                                                   bool *has) {
    struct cushim_kernel_clusters *known = &call->family->clusters[kernel];
    unsigned width = shape->cluster > CUSHIM_PORTABLE_CLUSTER;
    uint64_t bit = (uint64_t)1 << call->device;
    int n_clusters;
    if (!(atomic_load_explicit(&known->asked[width], memory_order_acquire) & bit)) {
        CUSHIM_TRY(cushim_kernel_call_clusters(call, kernel, shape, &n_clusters));
        if (n_clusters > 0)
            atomic_fetch_or_explicit(&known->had[width], bit, memory_order_relaxed);
        atomic_fetch_or_explicit(&known->asked[width], bit, memory_order_release);
    }
    *has = atomic_load_explicit(&known->had[width], memory_order_relaxed) & bit;
    return CUSHIM_OK;
}
