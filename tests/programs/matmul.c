/*
 * A matrix product with one thread per element, checked against the host.
 *
 *   matmul [--size N] [--rounds N]
 */
#include "kernel.h"
#include "program.h"

enum { N_THREADS = 128 };

KERNEL(matmul, float *, c, const float *, a, const float *, b, size_t, n) {
    if (i < n * n) {
        size_t row = i / n, column = i % n;
        float sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += a[row * n + k] * b[k * n + column];
        c[i] = sum;
    }
}

/* Small whole numbers, so that every sum is exact in any order. */
static void fill(float *matrix, size_t n, unsigned long long seed) {
    for (size_t i = 0; i < n * n; i++)
        matrix[i] = (float)(program_random(&seed) % 8);
}

static void check(const float *c, const float *a, const float *b, size_t n) {
    for (size_t row = 0; row < n; row++) {
        for (size_t column = 0; column < n; column++) {
            float sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += a[row * n + k] * b[k * n + column];
            MUST(c[row * n + column] == sum);
        }
    }
}

int main(int argc, char **argv) {
    size_t n = program_option(argc, argv, "--size", 64);
    size_t n_rounds = program_option(argc, argv, "--rounds", 10);
    size_t n_bytes = n * n * sizeof(float);
    float *a = (float *)program_allocate(n_bytes);
    float *b = (float *)program_allocate(n_bytes);
    float *c = (float *)program_allocate(n_bytes);
    unsigned long long checksum = CHECKSUM;

    for (size_t round = 0; round < n_rounds; round++) {
        float *device_a, *device_b, *device_c;
        fill(a, n, 2 * round);
        fill(b, n, 2 * round + 1);
        TRY(cudaMalloc((void **)&device_a, n_bytes));
        TRY(cudaMalloc((void **)&device_b, n_bytes));
        TRY(cudaMalloc((void **)&device_c, n_bytes));
        TRY(cudaMemcpy(device_a, a, n_bytes, cudaMemcpyHostToDevice));
        TRY(cudaMemcpy(device_b, b, n_bytes, cudaMemcpyDefault));
        TRY(LAUNCH(matmul, BLOCKS(n * n, N_THREADS), N_THREADS, 0, device_c, device_a, device_b,
                   n));
        TRY(cudaMemcpy(c, device_c, n_bytes, cudaMemcpyDeviceToHost));
        TRY(cudaFree(device_b));
        TRY(cudaFree(device_a));
        TRY(cudaFree(device_c));
        check(c, a, b, n);
        checksum = program_checksum(checksum, c, n_bytes);
    }
    printf("matmul: %zu x %zu, checksum %016llx\n", n_rounds, n, checksum);
    free(a);
    free(b);
    free(c);
    return 0;
}
