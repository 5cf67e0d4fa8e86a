/*
 * Errors of CUDA: invalid frees, copies and sets beyond a block, use after free, too much memory;
 * and the last error after each.
 */
#include "answer.h"

static void frees(void) {
    char *block = NULL, *host = (char *)program_allocate(4096);
    answer_is("malloc of 0 bytes", cudaMalloc((void **)&block, 0), cudaSuccess);
    printf("  gives %s\n", block ? "a pointer" : "NULL");
    MUST(block == NULL);
    answer_is("free of NULL", cudaFree(NULL), cudaSuccess);
    answer("malloc to NULL", cudaMalloc(NULL, 100));

    TRY(cudaMalloc((void **)&block, 5000));
    answer_is("free of an interior pointer", cudaFree(block + 512), cudaErrorInvalidValue);
    answer_is("free of the last byte", cudaFree(block + 4999), cudaErrorInvalidValue);
    answer("free of device memory as pinned", cudaFreeHost(block));
    answer_is("first free", cudaFree(block), cudaSuccess);
    answer_is("second free", cudaFree(block), cudaErrorInvalidValue);
    answer("free of malloc's memory", cudaFree(host));
    answer("free of malloc's memory as pinned", cudaFreeHost(host));
    free(host);

    TRY(cudaMallocHost((void **)&block, 5000));
    answer("free of pinned memory as device memory", cudaFree(block));
    answer("free of an interior pinned pointer", cudaFreeHost(block + 64));
    answer("free of pinned memory", cudaFreeHost(block));
    answer("second free of pinned memory", cudaFreeHost(block));

    TRY(cudaMallocManaged((void **)&block, 5000, cudaMemAttachGlobal));
    answer("free of an interior managed pointer", cudaFree(block + 64));
    answer_is("free of managed memory", cudaFree(block), cudaSuccess);
    answer("second free of managed memory", cudaFree(block));
    answer("managed memory of 0 bytes", cudaMallocManaged((void **)&block, 0, cudaMemAttachGlobal));
}

static void overruns(size_t n_bytes) {
    char *block, *other, *host = (char *)program_allocate(n_bytes + 4096);
    TRY(cudaMalloc((void **)&block, n_bytes));
    TRY(cudaMalloc((void **)&other, n_bytes));
    printf("block of %zu bytes\n", n_bytes);
    answer_is("copy in, whole", cudaMemcpy(block, host, n_bytes, cudaMemcpyHostToDevice),
              cudaSuccess);
    answer_is("copy in, one byte more",
              cudaMemcpy(block, host, n_bytes + 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    answer_is("copy in at 1, whole", cudaMemcpy(block + 1, host, n_bytes, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    answer_is("copy out, one byte more",
              cudaMemcpy(host, block, n_bytes + 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    answer_is("copy within, one byte more",
              cudaMemcpy(block, other, n_bytes + 1, cudaMemcpyDeviceToDevice),
              cudaErrorInvalidValue);
    answer_is("set, whole", cudaMemset(block, 1, n_bytes), cudaSuccess);
    answer_is("set, one byte more", cudaMemset(block, 1, n_bytes + 1), cudaErrorInvalidValue);
    TRY(cudaFree(block));
    TRY(cudaFree(other));
    free(host);
}

static void after_free(size_t n_bytes) {
    char *block, *neighbour, *host = (char *)program_allocate(n_bytes);
    TRY(cudaMalloc((void **)&block, n_bytes));
    TRY(cudaMalloc((void **)&neighbour, n_bytes));
    printf("block of %zu bytes\n", n_bytes);
    printf("live pointer: %s, inside it: %s\n", answer_type(block), answer_type(block + 100));
    TRY(cudaFree(block));
    printf("freed pointer: %s, inside it: %s\n", answer_type(block), answer_type(block + 100));
    printf("pointer of malloc: %s\n", answer_type(host));
    answer_is("copy into a freed block", cudaMemcpy(block, host, n_bytes, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    answer_is("copy out of a freed block", cudaMemcpy(host, block, n_bytes, cudaMemcpyDeviceToHost),
              cudaErrorInvalidValue);
    answer_is("set of a freed block", cudaMemset(block, 1, n_bytes), cudaErrorInvalidValue);
    TRY(cudaFree(neighbour));
    free(host);
}

static void out_of_memory(void) {
    void *block = NULL, *small = NULL;
    size_t n_free, n_total;
    TRY(cudaMemGetInfo(&n_free, &n_total));
    MUST(n_free > 0 && n_free <= n_total);
    cudaError_t error = cudaMalloc(&block, n_total * 2);
    printf("twice the device: %s\n", cudaGetErrorName(error));
    MUST(error == cudaErrorMemoryAllocation);
    TRY(cudaMalloc(&small, 1000));
    TRY(cudaFree(small));
    printf("peek, after successes: %s\n", cudaGetErrorName(cudaPeekAtLastError()));
    MUST(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
    answer_is("last error", cudaGetLastError(), cudaErrorMemoryAllocation);
    answer_is("last error again", cudaGetLastError(), cudaSuccess);
    answer("nearly all of the address space", cudaMalloc(&block, ~(size_t)0 - 4096));
}

int main(void) {
    TRY(cudaFree(0));
    frees();
    overruns(1000);
    overruns(100000);
    overruns(3u << 20);
    after_free(1000);
    after_free(3u << 20);
    out_of_memory();
    answer_is("in the end", cudaDeviceSynchronize(), cudaSuccess);
    return 0;
}
