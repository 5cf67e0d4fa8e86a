/*
 * Devices and the primary context of the current one.
 *
 * cudaSetDevice makes the context at once, as since CUDA 12; every other entry makes it when first
 * needed.  If a program makes a context of its own current, this runtime uses that context's
 * device.
 */
#include "primary.h"
#include "thread.h"

cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDeviceGetCount(count));
    if (error == cudaSuccess && *count == 0)
        error = cudaErrorNoDevice;
    return simrt_leave(error);
}

cudaError_t cudaGetDevice(int *device) {
    CUcontext current = NULL;
    CUdevice of_current = 0;
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess && !device)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return simrt_leave(error);
    *device = simrt_thread.device;
    if (simrt_legacy.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current &&
        simrt_primary_stale(current) < 0 &&
        simrt_legacy.cuCtxGetDevice(&of_current) == CUDA_SUCCESS)
        *device = of_current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess)
        error = simrt_primary_check(device);
    if (error == cudaSuccess) {
        simrt_thread.device = device;
        error = simrt_primary_use(device);
    }
    return simrt_leave(error);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
    CUcontext context = NULL;
    (void)deviceFlags, (void)flags;
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess)
        error = simrt_primary_get(device, &context);
    return simrt_leave(error);
}

/* Do not make a context only to destroy it. */
cudaError_t cudaDeviceReset(void) {
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = simrt_primary_reset(device);
    return simrt_leave(error);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    CUdevice handle;
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDeviceGet(&handle, simrt_thread.device));
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDevicePrimaryCtxSetFlags_v2(
            handle, flags & ~(unsigned)cudaDeviceMapHost));
    return simrt_leave(error);
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
    CUdevice handle;
    int active = 0;
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDeviceGet(&handle, simrt_thread.device));
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuDevicePrimaryCtxGetState(handle, flags, &active));
    return simrt_leave(error);
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice) {
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess)
        error = simrt_primary_check(device);
    if (error == cudaSuccess)
        error = simrt_primary_check(peerDevice);
    if (error == cudaSuccess)
        error =
            simrt_from_cu(simrt_legacy.cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
    return simrt_leave(error);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
    CUcontext peer = NULL;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_primary_get(peerDevice, &peer);
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuCtxEnablePeerAccess(peer, flags));
    return simrt_leave(error);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
    CUcontext peer = NULL;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_primary_get(peerDevice, &peer);
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuCtxDisablePeerAccess(peer));
    return simrt_leave(error);
}

/* All devices are of one kind, so the first fits as well as any. */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop) {
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess && (!device || !prop))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *device = 0;
    return simrt_leave(error);
}

/* Devices are shared, so no other one is ever tried: the list is only checked. */
cudaError_t cudaSetValidDevices(int *device_arr, int len) {
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess && (len < 0 || (len > 0 && !device_arr)))
        error = cudaErrorInvalidValue;
    for (int i = 0; error == cudaSuccess && i < len; i++)
        error = simrt_primary_check(device_arr[i]);
    return simrt_leave(error);
}
