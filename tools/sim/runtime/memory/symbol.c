/*
 * Device variables by the address of their shadow on the host.  A variable gets zeroed device
 * memory at its first use, because its initial value is in device code, which is not read here.
 */
#include "symbol.h"

#include "tools/sim/runtime/core/registry.h"
#include "tools/sim/runtime/core/thread.h"

static cudaError_t locate(const void *symbol, CUdeviceptr *address, size_t *n_bytes) {
    cudaError_t error = simrt_enter();
    return error == cudaSuccess ? simrt_registry_variable(symbol, address, n_bytes) : error;
}

cudaError_t simrt_symbol_part(const void *symbol, size_t offset, size_t count, void **part) {
    CUdeviceptr address = 0;
    size_t n_bytes = 0;
    cudaError_t error = locate(symbol, &address, &n_bytes);
    if (error == cudaSuccess && (offset > n_bytes || count > n_bytes - offset))
        error = cudaErrorInvalidValue;
    *part = (char *)address + offset;
    return error;
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol) {
    size_t n_bytes = 0;
    CUdeviceptr address = 0;
    cudaError_t error = locate(symbol, &address, &n_bytes);
    if (error == cudaSuccess)
        *devPtr = (void *)address;
    return simrt_leave(error);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol) {
    size_t n_bytes = 0;
    CUdeviceptr address = 0;
    cudaError_t error = locate(symbol, &address, &n_bytes);
    if (error == cudaSuccess)
        *size = n_bytes;
    return simrt_leave(error);
}

/* Copies of a part of a variable, each with its variant for per-thread default streams. */
#define COPY(abi, parameters, call)                                                                \
    cudaError_t abi parameters {                                                                   \
        void *part = NULL;                                                                         \
        cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);                       \
        return error == cudaSuccess ? call : simrt_leave(error);                                   \
    }
#define COPIES(abi, suffix, parameters, copy, arguments)                                           \
    COPY(abi, parameters, copy arguments)                                                          \
    COPY(abi##suffix, parameters, copy##suffix arguments)

COPIES(cudaMemcpyToSymbol, _ptds,
       TAKES(const void *symbol, const void *src, size_t count, size_t offset,
             enum cudaMemcpyKind kind),
       cudaMemcpy, (part, src, count, kind))
COPIES(cudaMemcpyToSymbolAsync, _ptsz,
       TAKES(const void *symbol, const void *src, size_t count, size_t offset,
             enum cudaMemcpyKind kind, cudaStream_t stream),
       cudaMemcpyAsync, (part, src, count, kind, stream))
COPIES(cudaMemcpyFromSymbol, _ptds,
       TAKES(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
       cudaMemcpy, (dst, part, count, kind))
COPIES(cudaMemcpyFromSymbolAsync, _ptsz,
       TAKES(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
             cudaStream_t stream),
       cudaMemcpyAsync, (dst, part, count, kind, stream))
