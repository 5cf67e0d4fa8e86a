/*
 * Most of the device is allocated and freed, and is then available to all: other allocators of this
 * process and another process can take as much as was freed, and a kernel that never ends blocks no
 * allocation.
 *
 *   sharing            prints how much each got
 *   sharing --child    another process: takes its share and reports it by its exit status
 */
#include "program.h"

#include <cuda.h>
#include <spawn.h>
#include <sys/wait.h>
#include <vector>

extern char **environ;

enum { USED_PCT = 60, MORE_PCT = 70 };
static const size_t MIB = (size_t)1 << 20;

__global__ void wait_for_host(const volatile unsigned *is_open) {
    while (*is_open == 0) {
    }
}

static size_t device_share(unsigned pct) {
    size_t n_free, n_total;
    TRY(cudaMemGetInfo(&n_free, &n_total));
    return n_total / 100 * pct / (2 * MIB) * (2 * MIB);
}

static void use_and_free(size_t block_bytes) {
    size_t share = device_share(USED_PCT);
    std::vector<void *> blocks;
    if (block_bytes == 0)
        block_bytes = share;
    for (size_t n_bytes = 0; n_bytes + block_bytes <= share; n_bytes += block_bytes) {
        void *block;
        TRY(cudaMalloc(&block, block_bytes));
        TRY(cudaMemset(block, 1, 4096));
        blocks.push_back(block);
    }
    for (void *block : blocks)
        TRY(cudaFree(block));
}

static cudaError_t take_plain(size_t n_bytes) {
    void *block;
    cudaError_t error = cudaMalloc(&block, n_bytes);
    if (error == cudaSuccess)
        TRY(cudaFree(block));
    return error;
}

static cudaError_t take_async(size_t n_bytes) {
    void *block;
    cudaMemPool_t pool;
    cudaError_t error = cudaMallocAsync(&block, n_bytes, 0);
    if (error == cudaSuccess)
        TRY(cudaFreeAsync(block, 0));
    TRY(cudaDeviceSynchronize());
    TRY(cudaDeviceGetDefaultMemPool(&pool, 0));
    TRY(cudaMemPoolTrimTo(pool, 0));
    return error;
}

static cudaError_t take_managed(size_t n_bytes) {
    void *block;
    cudaError_t error = cudaMallocManaged(&block, n_bytes);
    if (error == cudaSuccess)
        TRY(cudaFree(block));
    return error;
}

static cudaError_t take_physical(size_t n_bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (cuMemCreate(&handle, n_bytes, &properties, 0) != CUDA_SUCCESS)
        return cudaErrorMemoryAllocation;
    MUST(cuMemRelease(handle) == CUDA_SUCCESS);
    return cudaSuccess;
}

static cudaError_t take_arrays(size_t n_bytes) {
    enum { SIDE = 8192, ARRAY_BYTES = SIDE * SIDE * 16 }; /* 1 GiB each */
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
    std::vector<cudaArray_t> arrays;
    cudaError_t error = cudaSuccess;
    for (size_t n = 0; n + ARRAY_BYTES <= n_bytes && error == cudaSuccess; n += ARRAY_BYTES) {
        cudaArray_t array;
        error = cudaMallocArray(&array, &format, SIDE, SIDE);
        if (error == cudaSuccess)
            arrays.push_back(array);
    }
    for (cudaArray_t array : arrays)
        TRY(cudaFreeArray(array));
    return error;
}

static cudaError_t take_in_child(size_t) {
    char name[] = "sharing", word[] = "--child", *words[] = {name, word, NULL};
    pid_t child;
    int status = 1;
    MUST(posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) == 0);
    MUST(waitpid(child, &status, 0) == child);
    return status == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* A wait for this kernel never ends. */
static cudaError_t take_beside_a_kernel(size_t) {
    unsigned *is_open;
    cudaStream_t stream;
    void *block;
    TRY(cudaMallocHost((void **)&is_open, sizeof *is_open));
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *(volatile unsigned *)is_open = 0;
    wait_for_host<<<1, 1, 0, stream>>>(is_open);
    cudaError_t error = cudaMalloc(&block, device_share(MORE_PCT));
    *(volatile unsigned *)is_open = 1;
    TRY(cudaStreamSynchronize(stream));
    if (error == cudaSuccess)
        TRY(cudaFree(block));
    TRY(cudaFreeHost(is_open));
    TRY(cudaStreamDestroy(stream));
    return error;
}

static const struct {
    const char *name;
    cudaError_t (*take)(size_t n_bytes);
} takers[] = {
    {"cudaMalloc", take_plain},
    {"cudaMallocAsync", take_async},
    {"cudaMallocManaged", take_managed},
    {"cuMemCreate", take_physical},
    {"cudaMallocArray", take_arrays},
    {"another process", take_in_child},
    {"70 % beside a kernel", take_beside_a_kernel},
};

int main(int argc, char **argv) {
    static const size_t sizes[] = {40 * MIB, 1024 * MIB, 0}; /* 0: one block */
    int n_refused = 0;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (program_flag(argc, argv, "--child"))
        return take_plain(device_share(USED_PCT)) != cudaSuccess;
    TRY(cudaFree(NULL));
    for (size_t block_bytes : sizes) {
        for (const auto &taker : takers) {
            use_and_free(block_bytes);
            cudaError_t error = taker.take(device_share(USED_PCT));
            cudaGetLastError();
            printf("sharing: blocks of %zu MiB, then %s: %s\n", block_bytes / MIB, taker.name,
                   cudaGetErrorName(error));
            fflush(stdout);
            n_refused += error != cudaSuccess;
        }
    }
    return n_refused != 0;
}
