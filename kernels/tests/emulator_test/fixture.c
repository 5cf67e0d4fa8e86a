#include "kernels/tests/emulator_test/fixture.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void use_context(void) {
    CUcontext context;
    ck_cuda(cuInit(0));
    ck_cuda(cuDevicePrimaryCtxRetain(&context, 0));
    ck_cuda(cuCtxSetCurrent(context));
}

void *fixture_memory(size_t n_bytes) {
    CUdeviceptr address;
    use_context();
    ck_cuda(cuMemAlloc(&address, n_bytes));
    ck_cuda(cuMemsetD8(address, 0, n_bytes));
    ck_cuda(cuCtxSynchronize());
    return (void *)(uintptr_t)address;
}

CUlibrary fixture_library(void) {
    static const uint32_t fatbin[4] = {0xba55ed50, 16u << 16 | 1, 0, 0};
    CUlibrary library;
    use_context();
    ck_cuda(cuLibraryLoadData(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

void fixture_launch(const char *name, struct fixture_shape shape, void **params) {
    CUlaunchAttribute cluster = {
        .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        .value.clusterDim = {shape.cluster[0], shape.cluster[1], shape.cluster[2]}};
    CUlaunchConfig config = {.gridDimX = shape.grid[0],
                             .gridDimY = shape.grid[1],
                             .gridDimZ = shape.grid[2],
                             .blockDimX = shape.block[0],
                             .blockDimY = shape.block[1],
                             .blockDimZ = shape.block[2],
                             .sharedMemBytes = shape.shared_bytes,
                             .attrs = &cluster,
                             .numAttrs = 1};
    CUlibrary library = fixture_library();
    CUkernel kernel;
    ck_cuda(cuLibraryGetKernel(&kernel, library, name));
    ck_cuda(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 128 * 1024,
                                 kernel, 0));
    ck_cuda(
        cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, kernel, 0));
    ck_cuda(cuLaunchKernelEx(&config, (CUfunction)kernel, params, NULL));
    ck_cuda(cuCtxSynchronize());
    ck_cuda(cuLibraryUnload(library));
}

/* A driver does not survive a fork, so the child starts one. */
static void run_child(const char *kernel, struct fixture_shape shape, int number) {
    void *memory = fixture_memory(4096);
    fixture_launch(kernel, shape, (void *[]){number ? (void *)&number : &memory, &memory});
    _exit(EXIT_SUCCESS);
}

bool fixture_dies(char *text, size_t n_bytes, const char *kernel, struct fixture_shape shape,
                  int number) {
    int ends[2], status;
    ssize_t n, n_read = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        run_child(kernel, shape, number);
    }
    close(ends[1]);
    while ((n = read(ends[0], text + n_read, n_bytes - 1 - (size_t)n_read)) > 0)
        n_read += n;
    text[n_read] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
