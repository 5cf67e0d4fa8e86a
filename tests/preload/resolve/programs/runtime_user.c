/* A program that uses the runtime: enough for it to make all its look-ups. */
#include <cuda_runtime_api.h>

int main(void) {
    void *p = NULL;
    return cudaMalloc(&p, 1 << 20) == cudaSuccess ? 0 : 1;
}
