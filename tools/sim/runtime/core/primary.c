#include "primary.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct primary {
    _Atomic(CUcontext) context; /* the last handle the driver gave; written under lock */
    atomic_bool retained; /* false before the first use and after a reset; written under lock */
};

static struct primary primaries[SIMRT_DEVICES];
static atomic_int n_used; /* devices below this one may have been used; written under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int simrt_primary_stale(CUcontext context) {
    int n_devices = atomic_load_explicit(&n_used, memory_order_acquire);
    for (int device = 0; context && device < n_devices; device++) {
        if (atomic_load(&primaries[device].context) == context)
            return atomic_load(&primaries[device].retained) ? -1 : device;
    }
    return -1; /* a context of the program's own */
}

cudaError_t simrt_primary_check(int device) {
    int n_devices = 0;
    cudaError_t error = simrt_from_cu(simrt_legacy.cuDeviceGetCount(&n_devices));
    if (error == cudaSuccess && (device < 0 || device >= n_devices || device >= SIMRT_DEVICES))
        error = cudaErrorInvalidDevice;
    return error;
}

static cudaError_t retain(int device) {
    CUcontext context = NULL;
    CUdevice handle;
    CUresult result = simrt_legacy.cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS)
        result = simrt_legacy.cuDevicePrimaryCtxRetain(&context, handle);
    if (result != CUDA_SUCCESS)
        return simrt_from_cu(result);
    atomic_store(&primaries[device].context, context);
    atomic_store(&primaries[device].retained, true);
    if (device >= atomic_load(&n_used))
        atomic_store_explicit(&n_used, device + 1, memory_order_release);
    return cudaSuccess;
}

cudaError_t simrt_primary_get(int device, CUcontext *context) {
    cudaError_t error = simrt_primary_check(device);
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&primaries[device].retained))
        error = retain(device);
    *context = atomic_load(&primaries[device].context);
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t simrt_primary_use(int device) {
    CUcontext context = NULL;
    cudaError_t error = simrt_primary_get(device, &context);
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuCtxSetCurrent(context));
    return error;
}

cudaError_t simrt_primary_reset(int device) {
    cudaError_t error = simrt_primary_check(device);
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&lock);
    CUdevice handle;
    if (atomic_load(&primaries[device].retained)) {
        error = simrt_from_cu(simrt_legacy.cuDeviceGet(&handle, device));
        if (error == cudaSuccess)
            error = simrt_from_cu(simrt_legacy.cuDevicePrimaryCtxReset(handle));
        if (error == cudaSuccess)
            atomic_store(&primaries[device].retained, false);
    }
    pthread_mutex_unlock(&lock);
    return error;
}
