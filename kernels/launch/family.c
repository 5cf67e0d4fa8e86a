#include "kernels/launch/family.h"

#include "companion/shared.h"

enum { DEFAULT_SHARED_BYTES = 48 * 1024 };

static uint64_t bit_of(int device) {
    return (uint64_t)1 << (device < 63 ? device : 63);
}

/*
 * The caller is not at fault if the fatbin has no code for the device or is newer than the driver.
 */
static enum cushim_status refuse(const char *what, const struct cushim_kernel_family *family,
                                 const char *entry, CUresult result) {
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
        result == CUDA_ERROR_INVALID_SOURCE || result == CUDA_ERROR_INVALID_IMAGE)
        return cushim_fail(what, CUSHIM_NOTSUPPORTED, "family=%s entry=%s result=%s", family->name,
                           entry, cushim_error_cu_name(result));
    return cushim_fail_cu(entry, result, "function=%s family=%s", what, family->name);
}

/* The caller holds the lock. */
static enum cushim_status load(const char *what, struct cushim_kernel_family *family) {
    CUlibrary library;
    if (family->library)
        return CUSHIM_OK;
    if (!CUSHIM_DRIVER(cuLibraryLoadData) || !CUSHIM_DRIVER(cuLibraryGetKernel) ||
        !CUSHIM_DRIVER(cuKernelSetAttribute))
        return cushim_fail_nosym(what, "cuLibraryLoadData");
    CUresult result =
        CUSHIM_DRIVER(cuLibraryLoadData)(&library, family->image, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_SUCCESS)
        return refuse(what, family, "cuLibraryLoadData", result);
    for (unsigned i = 0; i < family->n_kernels && result == CUDA_SUCCESS; i++) {
        if (family->kernels[i].name)
            result = CUSHIM_DRIVER(cuLibraryGetKernel)(&family->handles[i], library,
                                                       family->kernels[i].name);
    }
    if (result != CUDA_SUCCESS) {
        CUSHIM_DRIVER(cuLibraryUnload)(library);
        return refuse(what, family, "cuLibraryGetKernel", result);
    }
    family->library = library;
    return CUSHIM_OK;
}

/*
 * Raise the limits of kernels that are launched with much shared memory or in wide clusters, and
 * ask for L1.  A device with less memory gives what it has, and launchers take that into account.
 * The caller holds the lock.
 */
static enum cushim_status raise_limits(const char *what, const struct cushim_kernel_family *family,
                                       int device, const struct cushim_kernel_facts *facts) {
    for (unsigned i = 0; i < family->n_kernels; i++) {
        const struct cushim_kernel *kernel = &family->kernels[i];
        CUresult result = CUDA_SUCCESS;
        unsigned bytes =
            kernel->shared_bytes < facts->shared_bytes ? kernel->shared_bytes : facts->shared_bytes;
        if (bytes > DEFAULT_SHARED_BYTES)
            result =
                CUSHIM_DRIVER(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                    (int)bytes, family->handles[i], device);
        if (result == CUDA_SUCCESS && kernel->wants_l1)
            result = CUSHIM_DRIVER(cuKernelSetAttribute)(
                CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CU_SHAREDMEM_CARVEOUT_MAX_L1,
                family->handles[i], device);
        if (result == CUDA_SUCCESS && kernel->is_wide && facts->has_clusters)
            result = CUSHIM_DRIVER(cuKernelSetAttribute)(
                CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, family->handles[i], device);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE &&
            result != CUDA_ERROR_NOT_SUPPORTED)
            return refuse(what, family, "cuKernelSetAttribute", result);
    }
    return CUSHIM_OK;
}

enum cushim_status cushim_family_use(const char *what, struct cushim_kernel_family *family,
                                     int device, const struct cushim_kernel_facts *facts) {
    uint64_t bit = bit_of(device);
    if (__builtin_expect(atomic_load_explicit(&family->ready, memory_order_acquire) & bit, 1))
        return CUSHIM_OK;
    CUstreamCaptureMode mode = cushim_capture_relax();
    pthread_mutex_lock(&family->lock);
    enum cushim_status status = load(what, family);
    if (status == CUSHIM_OK)
        status = raise_limits(what, family, device, facts);
    if (status == CUSHIM_OK && device < 63)
        atomic_fetch_or_explicit(&family->ready, bit, memory_order_release);
    pthread_mutex_unlock(&family->lock);
    cushim_capture_back(mode);
    return status;
}
