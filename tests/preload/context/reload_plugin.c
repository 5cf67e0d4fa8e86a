/* A plugin that is linked to the runtime (RUNTIME) or to the driver, and brings it along. */
#include <stdint.h>

#define PLUGIN __attribute__((visibility("default")))

enum { ROUNDS = 100, BYTES = 5000 };

PLUGIN int plugin_use(void);

#ifdef RUNTIME

#include <cuda_runtime_api.h>

int plugin_use(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *block = NULL;
        cudaError_t error = cudaFree(NULL); /* only the runtime answers it */
        if (error == cudaSuccess)
            error = cudaMalloc(&block, BYTES);
        if (error == cudaSuccess)
            error = cudaMemset(block, 1, BYTES);
        if (error == cudaSuccess)
            error = cudaFree(block);
        if (error != cudaSuccess)
            return (int)error;
    }
    return 0;
}

#else

#include <cuda.h>

PLUGIN int plugin_keep(uint64_t *block);
PLUGIN int plugin_free(uint64_t block);

/* The context is not released, because it goes with the driver. */
static CUresult enter(void) {
    CUcontext context = NULL;
    CUresult answer = cuInit(0);
    if (answer == CUDA_SUCCESS)
        answer = cuDevicePrimaryCtxRetain(&context, 0);
    return answer == CUDA_SUCCESS ? cuCtxSetCurrent(context) : answer;
}

int plugin_keep(uint64_t *block) {
    CUdeviceptr address = 0;
    CUresult answer = enter();
    if (answer == CUDA_SUCCESS)
        answer = cuMemAlloc(&address, BYTES);
    if (answer == CUDA_SUCCESS)
        answer = cuMemsetD8(address, 1, BYTES);
    *block = address;
    return (int)answer;
}

int plugin_free(uint64_t block) {
    return (int)cuMemFree(block);
}

int plugin_use(void) {
    uint64_t block;
    int answer = 0;
    for (int i = 0; i < ROUNDS && !answer; i++) {
        answer = plugin_keep(&block);
        if (!answer)
            answer = plugin_free(block);
    }
    return answer;
}

#endif
