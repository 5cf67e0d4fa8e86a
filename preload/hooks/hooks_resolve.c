/*
 * The resolvers' own hooks: cuGetProcAddress in both ABIs (interposition.md B10),
 * cudaGetDriverEntryPoint (B15).
 *
 * The real resolver answers first and its verdict is kept: return code and status are always the
 * driver's.  Only a pointer that it gave may be replaced by one of ours (B11).
 */
#include "cuda/table.h"
#include "preload/resolve/lookup.h"

#include <stddef.h>
#include <string.h>

/* Does cuMemAlloc at 3020 lead to the exported cuMemAlloc_v2 (B14)?  Asked once. */
static void check_identity(struct cushim_cuda *cuda) {
    void *given = NULL, *exported = NULL;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    __typeof__(&cuMemAlloc_v2) slot = cuda->cuMemAlloc_v2;
    if (atomic_load(&cushim_page_calls.lookups.identity) != CUSHIM_IDENTITY_UNKNOWN)
        return;
    cushim_lookup_depth++;
    if (cuda->cuGetProcAddress_v2)
        result = cuda->cuGetProcAddress_v2("cuMemAlloc", &given, 3020, CU_GET_PROC_ADDRESS_DEFAULT,
                                           NULL);
    else if (cuda->cuGetProcAddress)
        result = cuda->cuGetProcAddress("cuMemAlloc", &given, 3020, CU_GET_PROC_ADDRESS_DEFAULT);
    cushim_lookup_depth--;
    if (result != CUDA_SUCCESS || !given || !slot)
        return;
    memcpy(&exported, &slot, sizeof exported);
    atomic_store(&cushim_page_calls.lookups.identity,
                 given == exported ? CUSHIM_IDENTITY_SAME : CUSHIM_IDENTITY_OTHER);
}

/* Replace a good answer; inside another look-up it stays as it is (B5). */
static void route(struct cushim_cuda *cuda, const char *symbol, void **pfn, int version,
                  cuuint64_t flags) {
    if (cushim_lookup_depth || !symbol || !pfn || !*pfn)
        return;
    check_identity(cuda);
    *pfn = cushim_route_answer(*pfn, symbol, version, flags);
}

CUSHIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                                        cuuint64_t flags) {
    struct cushim_cuda *cuda = cushim_driver();
    if (!cuda || !cuda->cuGetProcAddress)
        return CUDA_ERROR_NOT_INITIALIZED;
    cushim_lookup_depth++;
    CUresult result = cuda->cuGetProcAddress(symbol, pfn, cudaVersion, flags);
    cushim_lookup_depth--;
    if (result == CUDA_SUCCESS)
        route(cuda, symbol, pfn, cudaVersion, flags);
    return result;
}

CUSHIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                           cuuint64_t flags,
                                           CUdriverProcAddressQueryResult *symbolStatus) {
    struct cushim_cuda *cuda = cushim_driver();
    if (!cuda || !cuda->cuGetProcAddress_v2)
        return CUDA_ERROR_NOT_INITIALIZED;
    cushim_lookup_depth++;
    CUresult result = cuda->cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
    cushim_lookup_depth--;
    if (result == CUDA_SUCCESS)
        route(cuda, symbol, pfn, cudaVersion, flags);
    return result;
}

/*
 * Replace a good answer of the runtime.  The real call does not count as a look-up of this thread
 * for B5, because it may start the runtime, whose own look-ups must be routed.
 */
static void route_entry_point(const char *symbol, void **pfn, int version, cuuint64_t flags) {
    struct cushim_cuda *cuda = cushim_driver();
    if (cuda)
        route(cuda, symbol, pfn, version, flags);
}

/* The unversioned entry point asks for the version of the runtime itself. */
static int version_of(struct cushim_cudart *cudart) {
    int version = 0;
    if (!cudart->cudaRuntimeGetVersion || cudart->cudaRuntimeGetVersion(&version) != cudaSuccess)
        return 0;
    return version;
}

/* If compiled for per-thread default streams, "default" means the per-thread variants. */
static cuuint64_t per_thread_flags(unsigned long long flags) {
    return flags == cudaEnableDefault ? (cuuint64_t)cudaEnablePerThreadDefaultStream : flags;
}

/* The rest of a hook; the last argument, in parentheses, has the runtime's arguments. */
#define ENTRY_POINT(abi, version, flags, arguments)                                                \
    struct cushim_cudart *cudart = cushim_runtime(__builtin_return_address(0));                    \
    if (!cudart || !cudart->abi)                                                                   \
        return cudaErrorInitializationError;                                                       \
    cudaError_t result = cudart->abi arguments;                                                    \
    if (result == cudaSuccess)                                                                     \
        route_entry_point(symbol, funcPtr, version, flags);                                        \
    return result

CUSHIM_EXPORT cudaError_t
cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult *driverStatus) {
    ENTRY_POINT(cudaGetDriverEntryPoint, version_of(cudart), flags,
                (symbol, funcPtr, flags, driverStatus));
}

CUSHIM_EXPORT cudaError_t
cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                             enum cudaDriverEntryPointQueryResult *driverStatus) {
    ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, version_of(cudart), per_thread_flags(flags),
                (symbol, funcPtr, flags, driverStatus));
}

CUSHIM_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus) {
    ENTRY_POINT(cudaGetDriverEntryPointByVersion, (int)cudaVersion, flags,
                (symbol, funcPtr, cudaVersion, flags, driverStatus));
}

CUSHIM_EXPORT cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus) {
    ENTRY_POINT(cudaGetDriverEntryPointByVersion_ptsz, (int)cudaVersion, per_thread_flags(flags),
                (symbol, funcPtr, cudaVersion, flags, driverStatus));
}
