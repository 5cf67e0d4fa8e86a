/*
 * A program that does what its standard input says, a word and a number of MiB a line, and answers
 * each with a line.  `alloc`, `async`, `managed` and `mapped` take memory, `free` gives the last
 * one back, `told` says what is free and what there is, and `wait` synchronises.  `renew` takes
 * memory and resets the context.  `churn` takes and gives back until the program is killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

enum { MIB = 1 << 20, MOST = 4096 };

static CUdeviceptr blocks[MOST];
static int n_blocks;

static CUresult take(const char *word, size_t n_bytes) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr *block = &blocks[n_blocks];
    if (strcmp(word, "alloc") == 0)
        return cuMemAlloc(block, n_bytes);
    if (strcmp(word, "async") == 0)
        return cuMemAllocAsync(block, n_bytes, NULL);
    if (strcmp(word, "managed") == 0)
        return cuMemAllocManaged(block, n_bytes, CU_MEM_ATTACH_GLOBAL);
    return cuMemCreate(&handle, n_bytes, &properties, 0);
}

static void churn(size_t n_bytes) {
    CUdeviceptr block;
    for (size_t i = 0;; i++) {
        if (cuMemAlloc(&block, 1 + i % n_bytes) == CUDA_SUCCESS)
            cuMemFree(block);
        if (i % 3 == 0 && cuMemAllocAsync(&block, 1 + i % n_bytes, NULL) == CUDA_SUCCESS)
            cuMemFreeAsync(block, NULL);
    }
}

static void answer(const char *word, size_t n_mib) {
    size_t n_free, n_total;
    if (strcmp(word, "free") == 0) {
        cuMemFree(blocks[--n_blocks]);
        puts("done");
    } else if (strcmp(word, "told") == 0) {
        cuMemGetInfo(&n_free, &n_total);
        printf("%zu of %zu\n", n_free / MIB, n_total / MIB);
    } else if (strcmp(word, "wait") == 0) {
        cuCtxSynchronize();
        puts("done");
    } else if (strcmp(word, "renew") == 0) {
        CUcontext context;
        cuMemAlloc(&blocks[0], n_mib * MIB);
        cuDevicePrimaryCtxReset(0);
        cuDevicePrimaryCtxRetain(&context, 0);
        cuCtxSetCurrent(context);
        puts("done");
    } else if (strcmp(word, "churn") == 0) {
        puts("done");
        fflush(stdout);
        churn(n_mib * MIB);
    } else if (take(word, n_mib * MIB) == CUDA_SUCCESS) {
        n_blocks++;
        puts("had");
    } else {
        puts("refused");
    }
}

int main(void) {
    char line[64], word[16];
    CUcontext context;
    CUdevice device;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return 90;
    while (fgets(line, sizeof line, stdin)) {
        unsigned long n_mib = 0;
        if (sscanf(line, "%15s %lu", word, &n_mib) < 1 || n_blocks == MOST)
            return 91;
        answer(word, n_mib);
        fflush(stdout);
    }
    return 0;
}
