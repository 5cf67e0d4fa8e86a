/*
 * The demo adds vectors in a loop that allocates, copies, adds, copies back and frees each time, as
 * programs do that ignore the cost of cudaMalloc and cudaFree.
 *
 *   vecadd [--size ELEMENTS] [--rounds N] [--time]
 */
#include "kernel.h"
#include "program.h"

enum { N_THREADS = 256 };

KERNEL(vecadd, float *, sum, const float *, a, const float *, b, size_t, n) {
    if (i < n)
        sum[i] = a[i] + b[i];
}

static void add_once(float *sum, const float *a, const float *b, size_t n) {
    size_t n_bytes = n * sizeof(float);
    float *device_sum, *device_a, *device_b;
    TRY(cudaMalloc((void **)&device_a, n_bytes));
    TRY(cudaMalloc((void **)&device_b, n_bytes));
    TRY(cudaMalloc((void **)&device_sum, n_bytes));
    TRY(cudaMemcpy(device_a, a, n_bytes, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(device_b, b, n_bytes, cudaMemcpyHostToDevice));
    TRY(LAUNCH(vecadd, BLOCKS(n, N_THREADS), N_THREADS, 0, device_sum, device_a, device_b, n));
    TRY(cudaMemcpy(sum, device_sum, n_bytes, cudaMemcpyDeviceToHost));
    TRY(cudaFree(device_a));
    TRY(cudaFree(device_b));
    TRY(cudaFree(device_sum));
}

int main(int argc, char **argv) {
    size_t n = program_option(argc, argv, "--size", 1000);
    size_t n_rounds = program_option(argc, argv, "--rounds", 2000);
    float *a = (float *)program_allocate(n * sizeof(float));
    float *b = (float *)program_allocate(n * sizeof(float));
    float *sum = (float *)program_allocate(n * sizeof(float));
    unsigned long long checksum = CHECKSUM;

    TRY(cudaFree(0)); /* creates the context, which is not timed */
    double start = program_seconds();
    for (size_t round = 0; round < n_rounds; round++) {
        for (size_t i = 0; i < n; i++) {
            a[i] = (float)(i % 1000);
            b[i] = (float)(round % 1000);
        }
        add_once(sum, a, b, n);
        for (size_t i = 0; i < n; i++)
            MUST(sum[i] == a[i] + b[i]);
        checksum = program_checksum(checksum, sum, n < 64 ? n * sizeof(float) : 256);
    }
    double seconds = program_seconds() - start;

    printf("vecadd: %zu x %zu, checksum %016llx\n", n_rounds, n, checksum);
    if (program_flag(argc, argv, "--time"))
        printf("vecadd: %.3f s, %.2f us a round\n", seconds, 1e6 * seconds / (double)n_rounds);
    free(a);
    free(b);
    free(sum);
    return 0;
}
