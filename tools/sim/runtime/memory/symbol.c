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

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                               enum cudaMemcpyKind kind) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy(part, src, count, kind) : simrt_leave(error);
}

cudaError_t cudaMemcpyToSymbol_ptds(const void *symbol, const void *src, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy_ptds(part, src, count, kind) : simrt_leave(error);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync(part, src, count, kind, stream)
                                : simrt_leave(error);
}

cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void *symbol, const void *src, size_t count,
                                         size_t offset, enum cudaMemcpyKind kind,
                                         cudaStream_t stream) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync_ptsz(part, src, count, kind, stream)
                                : simrt_leave(error);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy(dst, part, count, kind) : simrt_leave(error);
}

cudaError_t cudaMemcpyFromSymbol_ptds(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy_ptds(dst, part, count, kind) : simrt_leave(error);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync(dst, part, count, kind, stream)
                                : simrt_leave(error);
}

cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void *dst, const void *symbol, size_t count,
                                           size_t offset, enum cudaMemcpyKind kind,
                                           cudaStream_t stream) {
    void *part = NULL;
    cudaError_t error = simrt_symbol_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync_ptsz(dst, part, count, kind, stream)
                                : simrt_leave(error);
}
