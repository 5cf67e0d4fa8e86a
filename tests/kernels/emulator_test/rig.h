/* Launches of the emulator's own kernels, which end before the call returns. */
#ifndef CUSHIM_EMULATOR_TEST_RIG_H
#define CUSHIM_EMULATOR_TEST_RIG_H

#include <check.h>
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define ck_cuda(expr)            ck_assert_int_eq((expr), CUDA_SUCCESS)
#define ck_cuda_is(expr, result) ck_assert_int_eq((expr), (result))

struct rig_shape {
    unsigned grid[3], block[3], cluster[3];
    unsigned shared_bytes;
};

/* Along x alone. */
#define RIG_SHAPE(n_blocks, n_threads)                                                             \
    {                                                                                              \
        .grid = {n_blocks, 1, 1}, .block = {n_threads, 1, 1}, .cluster = { 1, 1, 1 }               \
    }
#define RIG_GRID(n_blocks, n_threads) ((struct rig_shape)RIG_SHAPE(n_blocks, n_threads))

/* Device memory of zeros, which the host may read and write here. */
void *rig_memory(size_t n_bytes);

/* A fatbin, loaded; nothing of it is looked at but its first bytes. */
CUlibrary rig_library(void);

void rig_launch(const char *kernel, struct rig_shape shape, void **params);
#define rig_run(kernel, shape, ...) rig_launch(kernel, shape, (void *[]){__VA_ARGS__})

/*
 * Whether a process ends by abort() in the launch, and what it said.  The kernel's parameters are
 * `number`, if it is not 0, and device memory of 4096 bytes, twice.
 */
bool rig_dies(char *text, size_t n_bytes, const char *kernel, struct rig_shape shape, int number);

#endif
