/*
 * A mistake that no call reports: a kernel scales one float more than the block holds.
 *
 *   cc -rdynamic -o overrun overrun.c -I/usr/local/cuda/include -lcuda
 *   cushim run --check ./overrun kernels.ptx
 *
 * This is a plain program of the driver API, without cushim.  Alone, it damages whatever lies after
 * the block.  With the check a guard lies there, and the free reports on standard error which block
 * was overrun and where it was allocated (by name with -rdynamic).  README.md says how to run it
 * without a GPU.  It prints:
 *
 *   1000 floats scaled
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult answer = (call);                                                                  \
        const char *why = "";                                                                      \
        if (answer != CUDA_SUCCESS) {                                                              \
            cuGetErrorString(answer, &why);                                                        \
            fprintf(stderr, "%s: %s\n", #call, why);                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { N = 1000, BLOCK = 256 };

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction scale;
    CUdeviceptr data;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    TRY(cuModuleLoad(&module, argc > 1 ? argv[1] : "kernels.ptx"));
    TRY(cuModuleGetFunction(&scale, module, "scale"));

    TRY(cuMemAlloc(&data, N * sizeof(float)));
    TRY(cuMemsetD32(data, 0, N));
    float by = 2.5f;
    unsigned n = N + 1; /* the mistake */
    void *args[] = {&data, &by, &n};
    TRY(cuLaunchKernel(scale, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, args, NULL));
    TRY(cuMemFree(data));
    printf("%d floats scaled\n", N);
    return 0;
}
