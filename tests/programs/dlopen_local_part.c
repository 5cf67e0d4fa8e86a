/* The library that dlopen_local opens: it alone is linked to the runtime. */
#include "program.h"

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
        TRY(cudaMemcpy(host, block, n_bytes, cudaMemcpyDeviceToHost));
        TRY(cudaFree(block));
        n_right += host[n_bytes - 1] == (unsigned char)round;
    }
    return n_right;
}
