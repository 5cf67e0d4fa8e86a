/*
 * The resolvers' own hooks: cuGetProcAddress in both ABIs (interposition.md B10),
 * cudaGetDriverEntryPoint (B15).
 *
 * The real resolver answers first and its verdict is kept: return code and status are always the
 * driver's.  Only a pointer that it gave may be replaced by one of ours (B11).
 */
#include "preload/hooks/hook.h"
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

/* A hook of the driver's look-up, from what it takes and gives on. */
#define GET_PROC_ADDRESS(abi, parameters, arguments)                                               \
    CUSHIM_EXPORT CUresult abi parameters {                                                        \
        struct cushim_cuda *cuda = cushim_driver();                                                \
        if (!cuda || !cuda->abi)                                                                   \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        cushim_lookup_depth++;                                                                     \
        CUresult result = cuda->abi arguments;                                                     \
        cushim_lookup_depth--;                                                                     \
        if (result == CUDA_SUCCESS)                                                                \
            route(cuda, symbol, pfn, version, flags);                                              \
        return result;                                                                             \
    }

GET_PROC_ADDRESS(cuGetProcAddress,
                 TAKES(const char *symbol, void **pfn, int version, cuuint64_t flags),
                 (symbol, pfn, version, flags))
GET_PROC_ADDRESS(cuGetProcAddress_v2,
                 TAKES(const char *symbol, void **pfn, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *status),
                 (symbol, pfn, version, flags, status))

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

/* A hook of the runtime's look-up; `asked_version` and `asked_flags` are what it asks the driver
 * for. */
#define ENTRY_POINT(abi, parameters, arguments, asked_version, asked_flags)                        \
    CUSHIM_EXPORT cudaError_t abi parameters {                                                     \
        struct cushim_cudart *cudart = cushim_runtime(__builtin_return_address(0));                \
        if (!cudart || !cudart->abi)                                                               \
            return cudaErrorInitializationError;                                                   \
        cudaError_t result = cudart->abi arguments;                                                \
        if (result == cudaSuccess)                                                                 \
            route_entry_point(symbol, pfn, asked_version, asked_flags);                            \
        return result;                                                                             \
    }

/* The same with its variant for per-thread default streams. */
#define ENTRY_POINTS(abi, parameters, arguments, asked_version)                                    \
    ENTRY_POINT(abi, parameters, arguments, asked_version, flags)                                  \
    ENTRY_POINT(abi##_ptsz, parameters, arguments, asked_version, per_thread_flags(flags))

ENTRY_POINTS(cudaGetDriverEntryPoint,
             TAKES(const char *symbol, void **pfn, unsigned long long flags,
                   enum cudaDriverEntryPointQueryResult *status),
             (symbol, pfn, flags, status), version_of(cudart))
ENTRY_POINTS(cudaGetDriverEntryPointByVersion,
             TAKES(const char *symbol, void **pfn, unsigned version, unsigned long long flags,
                   enum cudaDriverEntryPointQueryResult *status),
             (symbol, pfn, version, flags, status), (int)version)
