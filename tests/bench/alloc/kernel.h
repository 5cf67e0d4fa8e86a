/* A kernel in PTX, which the driver compiles, so that the benches are host C and need no nvcc. */
#pragma once

#include <cuda_runtime.h>
#include <stdbool.h>

/* The software device's runtime lacks both. */
extern __typeof__(cudaLibraryLoadData) cudaLibraryLoadData __attribute__((weak));
extern __typeof__(cudaLibraryGetKernel) cudaLibraryGetKernel __attribute__((weak));

/* NULL if the device takes no PTX.  The library stays loaded. */
static inline cudaKernel_t kernel_load(const char *ptx, const char *name) {
    cudaLibrary_t library;
    cudaKernel_t kernel = NULL;
    if (!cudaLibraryLoadData || !cudaLibraryGetKernel ||
        cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0) ||
        cudaLibraryGetKernel(&kernel, library, name)) {
        (void)cudaGetLastError();
        return NULL;
    }
    return kernel;
}
