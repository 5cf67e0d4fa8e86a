/* The library that dlopen_local opens: only it is linked to the runtime and has a kernel. */
#include "kernel.h"
#include "program.h"

KERNEL(raise_byte, unsigned char *, bytes, size_t, at) {
    if (i == 0)
        bytes[at]++;
}

#ifdef __cplusplus
extern "C"
#endif
    __attribute__((visibility("default"))) size_t
    part_work(size_t n_rounds);

size_t part_work(size_t n_rounds) {
    static unsigned char host[50000];
    size_t n_right = 0;
    for (size_t round = 0; round < n_rounds; round++) {
        size_t n_bytes = 1 + round * 997 % sizeof host;
        void *block;
        TRY(cudaMalloc(&block, n_bytes));
        TRY(cudaMemset(block, (int)(round & 0xff), n_bytes));
        TRY(LAUNCH(raise_byte, 1, 1, 0, (unsigned char *)block, n_bytes - 1));
        TRY(cudaMemcpy(host, block, n_bytes, cudaMemcpyDeviceToHost));
        TRY(cudaFree(block));
        n_right += host[n_bytes - 1] == (unsigned char)(round + 1);
    }
    return n_right;
}
