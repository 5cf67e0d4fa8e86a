/* Versions, and the driver's entry points passed on to the program. */
#include "thread.h"

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion) {
    if (!runtimeVersion)
        return simrt_leave(cudaErrorInvalidValue);
    *runtimeVersion = SIMRT_VERSION;
    return cudaSuccess;
}

/* Without a driver its version is 0, and that is no error. */
cudaError_t cudaDriverGetVersion(int *driverVersion) {
    if (!driverVersion)
        return simrt_leave(cudaErrorInvalidValue);
    *driverVersion = 0;
    if (simrt_driver_load() == cudaErrorInsufficientDriver)
        return cudaSuccess;
    return simrt_leave(simrt_from_cu(simrt_legacy.cuDriverGetVersion(driverVersion)));
}

static cudaError_t look_up(const char *symbol, void **address, unsigned version,
                           unsigned long long flags,
                           enum cudaDriverEntryPointQueryResult *verdict) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    cudaError_t error = simrt_driver_load();
    if (error == cudaSuccess && (!symbol || !address))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_from_cu(
            simrt_legacy.cuGetProcAddress_v2(symbol, address, (int)version, flags, &status));
    /* For a caller that asks for the verdict, a name that the driver lacks is an answer, not a
     * failure. */
    if (verdict && (error == cudaSuccess || error == cudaErrorSymbolNotFound)) {
        *verdict = (enum cudaDriverEntryPointQueryResult)status;
        error = cudaSuccess;
    }
    return simrt_leave(error);
}

/* The flag that a per-thread variant means, unless the program gave one. */
static unsigned long long per_thread_flags(unsigned long long flags) {
    return flags == cudaEnableDefault ? cudaEnablePerThreadDefaultStream : flags;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus) {
    return look_up(symbol, funcPtr, SIMRT_VERSION, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
                                         unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus) {
    return look_up(symbol, funcPtr, SIMRT_VERSION, per_thread_flags(flags), driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus) {
    return look_up(symbol, funcPtr, cudaVersion, flags, driverStatus);
}

cudaError_t
cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                      unsigned long long flags,
                                      enum cudaDriverEntryPointQueryResult *driverStatus) {
    return look_up(symbol, funcPtr, cudaVersion, per_thread_flags(flags), driverStatus);
}

/* Tables between NVIDIA's own libraries: there are none here. */
cudaError_t cudaGetExportTable(const void **ppExportTable, const cudaUUID_t *pExportTableId) {
    (void)ppExportTable, (void)pExportTableId;
    return simrt_leave(cudaErrorSymbolNotFound);
}
