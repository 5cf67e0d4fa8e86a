/* Launches of the emulator's own kernels, which end before the call returns. */
#ifndef CUSHIM_EMULATOR_TEST_FIXTURE_H
#define CUSHIM_EMULATOR_TEST_FIXTURE_H

#include <check.h>
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define ck_cuda(expr)            ck_assert_int_eq((expr), CUDA_SUCCESS)
#define ck_cuda_is(expr, result) ck_assert_int_eq((expr), (result))

struct fixture_shape {
    unsigned grid[3], block[3], cluster[3];
    unsigned shared_bytes;
};

/* Only along x. */
#define FIXTURE_SHAPE(n_blocks, n_threads)                                                         \
    {                                                                                              \
        .grid = {n_blocks, 1, 1}, .block = {n_threads, 1, 1}, .cluster = { 1, 1, 1 }               \
    }
#define FIXTURE_GRID(n_blocks, n_threads) ((struct fixture_shape)FIXTURE_SHAPE(n_blocks, n_threads))

/* Device memory of zeros, which the host may read and write here. */
void *fixture_memory(size_t n_bytes);

/* A loaded fatbin, of which only the first bytes are read. */
CUlibrary fixture_library(void);

void fixture_launch(const char *kernel, struct fixture_shape shape, void **params);
#define fixture_run(kernel, shape, ...) fixture_launch(kernel, shape, (void *[]){__VA_ARGS__})

/*
 * Whether a process ends by abort() in the launch, and its message.  The kernel's parameters are
 * `number`, if it is not 0, and device memory of 4096 bytes, twice.
 */
bool fixture_dies(char *text, size_t n_bytes, const char *kernel, struct fixture_shape shape,
                  int number);

#endif
