/*
 * A kernel writes to an invalid address; the program prints the results of later calls. A free is
 * one of the calls that report the fault.
 *
 *   fault [free|malloc|sync]     the first call after the fault
 */
#include "program.h"

__global__ void write_nowhere(unsigned *place) {
    *place = 1;
}

static void print(const char *what, cudaError_t answer) {
    printf("fault: %s: %s\n", what, cudaGetErrorName(answer));
}

int main(int argc, char **argv) {
    const char *first = argc > 1 ? argv[1] : "free";
    void *block, *other = NULL;
    TRY(cudaMalloc(&block, 100000));
    TRY(cudaDeviceSynchronize());
    write_nowhere<<<1, 1>>>((unsigned *)16);
    if (strcmp(first, "malloc") == 0) {
        struct timespec pause = {0, 50000000}; /* the fault has happened but was not reported yet */
        nanosleep(&pause, NULL);
        print("malloc", cudaMalloc(&other, 100000));
    } else if (strcmp(first, "sync") == 0) {
        print("synchronize", cudaDeviceSynchronize());
    }
    print("free", cudaFree(block));
    print("last error", cudaGetLastError());
    print("last error again", cudaGetLastError());
    print("malloc after it", cudaMalloc(&other, 100000));
    print("large malloc after it", cudaMalloc(&other, (size_t)600 << 20));
    print("free again", cudaFree(block));
    print("synchronize after it", cudaDeviceSynchronize());
    print("reset", cudaDeviceReset());
    print("malloc in a new context", cudaMalloc(&other, 100000));
    print("free in a new context", cudaFree(other));
    return 0;
}
