/*
 * The driver API, linked to libcuda: the counterparts of streams, managed and errors, and memory
 * that one API allocates and the other frees.
 *
 *   driver_api [--size BYTES] [--rounds N]
 */
#include "program.h"

#include <cuda.h>

#define TRY_CU(call) check_cu((call), #call, __LINE__)

static const char *name_of(CUresult result) {
    const char *name = NULL;
    cuGetErrorName(result, &name);
    return name ? name : "unknown";
}

static void check_cu(CUresult result, const char *what, int line) {
    if (result != CUDA_SUCCESS)
        program_fail(name_of(result), what, __FILE__, line);
}

static void answer_cu(const char *what, CUresult result, CUresult measured) {
    printf("%s: %s\n", what, name_of(result));
    if (result != measured)
        program_fail(name_of(measured), what, "expected", 0);
}

static void copies(CUstream stream, size_t n_bytes, unsigned char value) {
    CUdeviceptr first, second, managed;
    unsigned char *pinned;
    CUevent done;
    TRY_CU(cuMemAlloc(&first, n_bytes));
    TRY_CU(cuMemAlloc(&second, n_bytes));
    TRY_CU(cuMemAllocManaged(&managed, n_bytes, CU_MEM_ATTACH_GLOBAL));
    TRY_CU(cuMemHostAlloc((void **)&pinned, n_bytes, 0));
    TRY_CU(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    memset(pinned, value, n_bytes);

    TRY_CU(cuMemcpyHtoDAsync(first, pinned, n_bytes, stream));
    TRY_CU(cuMemcpyDtoDAsync(second, first, n_bytes, stream));
    TRY_CU(cuMemcpyAsync(managed, second, n_bytes, stream));
    TRY_CU(cuMemsetD8Async(first, (unsigned char)(value + 1), n_bytes, stream));
    TRY_CU(cuMemFree(second));
    TRY_CU(cuMemcpyDtoHAsync(pinned, first, n_bytes, stream));
    TRY_CU(cuEventRecord(done, stream));
    TRY_CU(cuEventSynchronize(done));
    for (size_t i = 0; i < n_bytes; i++) {
        MUST(pinned[i] == (unsigned char)(value + 1));
        MUST(((unsigned char *)managed)[i] == value);
    }
    TRY_CU(cuEventDestroy(done));
    TRY_CU(cuMemFree(first));
    TRY_CU(cuMemFree(managed));
    TRY_CU(cuMemFreeHost(pinned));
}

/* Every revision of allocation and free to which a program may be linked. */
static void kinds(CUstream stream) {
    CUdeviceptr pitched, ordered;
    size_t pitch;
    void *pinned;
    unsigned word = 0;
    TRY_CU(cuMemAllocPitch(&pitched, &pitch, 1000, 20, 4));
    TRY_CU(cuMemsetD2D8(pitched, pitch, 7, 1000, 20));
    TRY_CU(cuCtxSynchronize()); /* because the stream that frees it does not wait for the set */
    TRY_CU(cuMemAllocHost(&pinned, 1000));
    TRY_CU(cuMemAllocAsync(&ordered, 1000, stream));
    TRY_CU(cuMemsetD32Async(ordered, 0xabcdef01u, 250, stream));
    TRY_CU(cuMemcpyDtoHAsync(pinned, ordered, 1000, stream));
    TRY_CU(cuMemFreeAsync(ordered, stream));
    TRY_CU(cuMemFreeAsync(pitched, stream));
    TRY_CU(cuStreamSynchronize(stream));
    memcpy(&word, (char *)pinned + 996, sizeof word);
    MUST(word == 0xabcdef01u);
    TRY_CU(cuMemFreeHost(pinned));
}

/* Allocated by the driver API and freed by the runtime, and the other way round. */
static void both_ways(size_t n_bytes) {
    CUdeviceptr mine;
    void *theirs;
    for (int round = 0; round < 20; round++) {
        TRY_CU(cuMemAlloc(&mine, n_bytes));
        TRY(cudaMalloc(&theirs, n_bytes));
        TRY(cudaMemcpy(theirs, (void *)mine, n_bytes, cudaMemcpyDeviceToDevice));
        TRY(cudaFree((void *)mine));
        TRY_CU(cuMemFree((CUdeviceptr)theirs));
    }
}

static void refusals(size_t n_bytes) {
    CUdeviceptr block, base;
    size_t size = 0;
    unsigned type = 0;
    char *host = (char *)program_allocate(n_bytes + 1);
    answer_cu("alloc of 0 bytes", cuMemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
    answer_cu("free of 0", cuMemFree(0), CUDA_SUCCESS);
    TRY_CU(cuMemAlloc(&block, n_bytes));
    answer_cu("free of an interior pointer", cuMemFree(block + 8), CUDA_ERROR_INVALID_VALUE);
    answer_cu("one byte too many", cuMemcpyHtoD(block, host, n_bytes + 1),
              CUDA_ERROR_INVALID_VALUE);
    answer_cu("set of one too many", cuMemsetD8(block, 0, n_bytes + 1), CUDA_ERROR_INVALID_VALUE);
    answer_cu("range of a live pointer", cuMemGetAddressRange(&base, &size, block + 8),
              CUDA_SUCCESS);
    MUST(base <= block && base + size >= block + n_bytes);
    answer_cu("type of a live pointer",
              cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block), CUDA_SUCCESS);
    MUST(type == CU_MEMORYTYPE_DEVICE);
    TRY_CU(cuMemFree(block));
    answer_cu("second free", cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    answer_cu("copy from a freed block", cuMemcpyDtoH(host, block, n_bytes),
              CUDA_ERROR_INVALID_VALUE);
    answer_cu("type of a freed pointer",
              cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
              CUDA_ERROR_INVALID_VALUE);
    free(host);
}

int main(int argc, char **argv) {
    size_t n_bytes = program_option(argc, argv, "--size", 10000);
    size_t n_rounds = program_option(argc, argv, "--rounds", 50);
    CUdevice device;
    CUcontext context;
    CUstream stream;
    TRY_CU(cuInit(0));
    TRY_CU(cuDeviceGet(&device, 0));
    TRY_CU(cuDevicePrimaryCtxRetain(&context, device));
    TRY_CU(cuCtxSetCurrent(context));
    TRY_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t round = 0; round < n_rounds; round++)
        copies(stream, n_bytes + round, (unsigned char)round);
    kinds(stream);
    refusals(n_bytes);
    both_ways(n_bytes);
    TRY_CU(cuStreamDestroy(stream));
    TRY_CU(cuDevicePrimaryCtxRelease(device));
    printf("driver_api: %zu rounds of %zu bytes right\n", n_rounds, n_bytes);
    return 0;
}
