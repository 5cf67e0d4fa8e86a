/*
 * A CUDA program that does nothing but start, for startup.c.
 *
 *   context loaded    start the runtime library: all its look-ups in the driver
 *   context init      and cuInit
 *   context           and a context: cudaFree(0)
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *depth = argc > 1 ? argv[1] : "context";
    int answer, n;
    if (!strcmp(depth, "loaded"))
        answer = cudaDriverGetVersion(&n);
    else if (!strcmp(depth, "init"))
        answer = cudaGetDeviceCount(&n);
    else
        answer = cudaFree(0);
    if (answer)
        fprintf(stderr, "%s: failed with %d\n", depth, answer);
    return answer != 0;
}
