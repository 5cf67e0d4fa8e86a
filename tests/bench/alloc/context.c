/*
 * A CUDA program that only starts, for startup.c.
 *
 *   context loaded    load the runtime library, with all its look-ups in the driver
 *   context init      and call cuInit
 *   context           and create a context by cudaFree(0)
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
