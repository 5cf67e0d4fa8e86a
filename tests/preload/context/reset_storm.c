/*
 * Threads allocate and free while other threads reset the device.  Calls fail, and pointers are
 * freed that went with their context, but nothing worse happens.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/preload/fixture/fixture.h"

enum { N_THREADS = 6, N_RESETS = 150, PINNED_BYTES = 5000, MOST_BYTES = 100000 };

static atomic_bool is_over;

static void *use_runtime(void *number) {
    unsigned seed = (unsigned)(uintptr_t)number;
    void *memory;
    while (!atomic_load(&is_over)) {
        if (cudaMalloc(&memory, 1 + (size_t)rand_r(&seed) % MOST_BYTES) == cudaSuccess) {
            cudaMemset(memory, 1, 1);
            cudaFree(memory);
        }
        if (cudaMallocHost(&memory, PINNED_BYTES) == cudaSuccess)
            cudaFreeHost(memory);
        cudaGetLastError();
    }
    return NULL;
}

static void *use_driver(void *number) {
    unsigned seed = (unsigned)(uintptr_t)number;
    CUcontext context;
    CUdeviceptr block;
    void *pinned;
    while (!atomic_load(&is_over)) {
        if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
            cuCtxSetCurrent(context) != CUDA_SUCCESS)
            continue;
        if (cuMemAlloc(&block, 1 + (size_t)rand_r(&seed) % MOST_BYTES) == CUDA_SUCCESS)
            cuMemFree(block);
        if (cuMemHostAlloc(&pinned, PINNED_BYTES, 0) == CUDA_SUCCESS)
            cuMemFreeHost(pinned);
        cuDevicePrimaryCtxRelease(0);
    }
    return NULL;
}

static void reset_runtime(void) {
    cudaDeviceReset();
}

static void reset_driver(void) {
    cuDevicePrimaryCtxReset(0);
}

/* Run the threads, and reset in this one. */
static void storm(void *(*use)(void *number), void (*reset)(void)) {
    pthread_t threads[N_THREADS];
    atomic_store(&is_over, false);
    for (uintptr_t i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use, (void *)(i + 1)), 0);
    for (int i = 0; i < N_RESETS; i++) {
        reset();
        usleep(1000);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

/* Memory works as if nothing had happened. */
static void check_memory(void) {
    void *memory, *pinned;
    ck_assert_int_eq(cudaDeviceReset(), cudaSuccess);
    ck_assert_int_eq(cudaMalloc(&memory, MOST_BYTES), cudaSuccess);
    ck_assert_int_eq(cudaMallocHost(&pinned, PINNED_BYTES), cudaSuccess);
    for (int i = 0; i < PINNED_BYTES; i++)
        ck_assert_int_eq(((char *)pinned)[i], 0);
    ck_assert_int_eq(cudaFreeHost(pinned), cudaSuccess);
    ck_assert_int_eq(cudaFree(memory), cudaSuccess);
}

TEST(a_reset_under_threads_of_the_runtime_harms_nobody) {
    storm(use_runtime, reset_runtime);
    check_memory();
}

TEST(a_reset_under_threads_of_the_driver_harms_nobody) {
    ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
    storm(use_driver, reset_driver);
    check_memory();
}

int main(void) {
    return fixture_run("reset_storm");
}
