/*
 * A server that stores each answer and never frees one: leaky REQUESTS
 *
 * docs/guide/finding-leaks.md finds the line.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult result = (call);                                                                  \
        if (result != CUDA_SUCCESS) {                                                              \
            fprintf(stderr, "%s: error %d\n", #call, (int)result);                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { INPUT_BYTES = 4 << 20, ANSWER_BYTES = 500000 };

static CUdeviceptr remember(void) {
    CUdeviceptr answer;
    TRY(cuMemAlloc(&answer, ANSWER_BYTES));
    return answer;
}

static void serve(void) {
    CUdeviceptr input;
    TRY(cuMemAlloc(&input, INPUT_BYTES));
    TRY(cuMemsetD8(remember(), 1, ANSWER_BYTES));
    TRY(cuMemFree(input));
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    int n_requests = argc > 1 ? atoi(argv[1]) : 100;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    for (int i = 0; i < n_requests; i++)
        serve();
    printf("%d requests served\n", n_requests);
    return 0;
}
