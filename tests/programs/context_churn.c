/*
 * Contexts of the driver API are created and destroyed with live memory and used through both APIs;
 * memory is freed while another context is current; pointers are freed after their context was
 * destroyed.
 *
 *   context_churn [--rounds N]
 */
#include "program.h"

#include <cuda.h>

enum { N_BLOCKS = 10, N_BYTES = 20000 };

#define TRY_CU(call) MUST((call) == CUDA_SUCCESS)

static void fill_and_read(unsigned char value) {
    unsigned char host[N_BYTES];
    CUdeviceptr block;
    TRY_CU(cuMemAlloc(&block, N_BYTES));
    TRY_CU(cuMemsetD8(block, value, N_BYTES));
    TRY_CU(cuMemcpyDtoH(host, block, N_BYTES));
    TRY(cudaFree((void *)block));
    for (size_t i = 0; i < N_BYTES; i++)
        MUST(host[i] == value);
}

static void churn_once(CUdevice device, unsigned char value) {
    CUcontext first, second, popped;
    CUdeviceptr blocks[N_BLOCKS];
    CUctxCreateParams *no_params = NULL;
    TRY_CU(cuCtxCreate(&first, no_params, 0, device));
    for (int i = 0; i < N_BLOCKS; i++)
        TRY_CU(cuMemAlloc(&blocks[i], N_BYTES + (size_t)i));
    fill_and_read(value);

    /* Some of the first context's memory is freed in the second one. */
    TRY_CU(cuCtxCreate(&second, no_params, 0, device));
    TRY_CU(cuMemFree(blocks[0]));
    TRY(cudaFree((void *)blocks[1]));
    fill_and_read((unsigned char)(value + 1));
    TRY_CU(cuCtxDestroy(second));

    /* The first context is destroyed with the rest. */
    TRY_CU(cuCtxPushCurrent(first));
    fill_and_read((unsigned char)(value + 2));
    TRY_CU(cuCtxPopCurrent(&popped));
    TRY_CU(cuCtxDestroy(first));
    TRY(cudaSetDevice(0));
    MUST(cuMemFree(blocks[2]) == CUDA_ERROR_INVALID_VALUE);
    fill_and_read((unsigned char)(value + 3));
}

int main(int argc, char **argv) {
    size_t n_rounds = program_option(argc, argv, "--rounds", 20);
    CUdevice device;
    CUcontext primary = NULL;
    void *kept;
    TRY_CU(cuInit(0));
    TRY_CU(cuDeviceGet(&device, 0));
    TRY(cudaSetDevice(0));
    TRY(cudaMalloc(&kept, N_BYTES));
    TRY_CU(cuCtxGetCurrent(&primary));
    for (size_t round = 0; round < n_rounds; round++)
        churn_once(device, (unsigned char)(round * 4));

    /* Retain and release: the context is inactive only after its last user, the runtime, releases
     * it. */
    TRY_CU(cuDevicePrimaryCtxRetain(&primary, device));
    TRY_CU(cuDevicePrimaryCtxRelease(device));
    TRY(cudaMemset(kept, 1, N_BYTES));
    TRY(cudaFree(kept));
    printf("context_churn: %zu x 2 contexts\n", n_rounds);
    return 0;
}
