/*
 * A program that does what its standard input says, a word and a number of MiB a line, and answers
 * each with a line.  `alloc`, `async`, `managed` and `mapped` take memory, `export` asks for a
 * handle of what was mapped last, `free` gives the last one back, `told` says what is free and what
 * there is, and `wait` synchronises.  `renew` takes memory and resets the context.  `churn` takes
 * and gives back until the program is killed, and `crowd` does so in threads, each with a few
 * blocks, until the next line.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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
    static CUmemGenericAllocationHandle handle;
    int shared;
    CUdeviceptr *block = &blocks[n_blocks];
    if (strcmp(word, "alloc") == 0)
        return cuMemAlloc(block, n_bytes);
    if (strcmp(word, "async") == 0)
        return cuMemAllocAsync(block, n_bytes, NULL);
    if (strcmp(word, "managed") == 0)
        return cuMemAllocManaged(block, n_bytes, CU_MEM_ATTACH_GLOBAL);
    if (strcmp(word, "export") == 0)
        return cuMemExportToShareableHandle(&shared, handle,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
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

enum { THREADS = 4, KEPT = 16 };
static atomic_bool is_crowd_over;
static pthread_t threads[THREADS];
static int n_threads;

static void *crowd(void *context) {
    CUdeviceptr kept[KEPT] = {0};
    unsigned random = 1 + (unsigned)n_threads;
    cuCtxSetCurrent(context);
    while (!atomic_load(&is_crowd_over)) {
        random = random * 1103515245u + 12345u;
        CUdeviceptr *block = &kept[random >> 16 & (KEPT - 1)];
        unsigned shift = random >> 20 & 15, is_large = (random >> 24) % 64 == 0;
        if (*block)
            cuMemFree(*block);
        if (cuMemAlloc(block, is_large ? 3 * MIB : 1u << shift) != CUDA_SUCCESS)
            *block = 0;
    }
    for (int i = 0; i < KEPT; i++) {
        if (kept[i])
            cuMemFree(kept[i]);
    }
    return NULL;
}

static void begin_crowd(void) {
    CUcontext context;
    cuCtxGetCurrent(&context);
    atomic_store(&is_crowd_over, false);
    while (n_threads < THREADS && !pthread_create(&threads[n_threads], NULL, crowd, context))
        n_threads++;
}

static void end_crowd(void) {
    atomic_store(&is_crowd_over, true);
    while (n_threads)
        pthread_join(threads[--n_threads], NULL);
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
    } else if (strcmp(word, "crowd") == 0) {
        begin_crowd();
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
        end_crowd();
        answer(word, n_mib);
        fflush(stdout);
    }
    end_crowd();
    return 0;
}
