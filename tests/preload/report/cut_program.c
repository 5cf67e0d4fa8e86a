/*
 * A program whose files are cut while it runs: cut_program N_THREADS.
 *
 * It says "handled" if SIGBUS has a handler before any call of CUDA.  Its threads allocate, wait
 * for a line on standard input, and go on; the last line says whether all memory kept its contents.
 */
#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_KEPT = 200, N_TURNS = 3000, MOST_THREADS = 16 };

static CUcontext context;
static atomic_bool is_wrong;
static pthread_barrier_t barrier; /* before the cut, and after it */

static size_t bytes_of(unsigned i) {
    return 1000 + 997 * (size_t)i + (i % 50 ? 0 : 2 << 20);
}

static void check(bool is_well) {
    if (!is_well)
        atomic_store(&is_wrong, true);
}

static void allocate(CUdeviceptr *block, unsigned i) {
    check(cuMemAlloc(block, bytes_of(i)) == CUDA_SUCCESS &&
          cuMemsetD8(*block, (unsigned char)i, 100) == CUDA_SUCCESS);
}

static void give(CUdeviceptr block, unsigned i) {
    unsigned char bytes[100] = {0};
    check(cuMemcpyDtoH(bytes, block, sizeof bytes) == CUDA_SUCCESS);
    for (size_t k = 0; k < sizeof bytes; k++)
        check(bytes[k] == (unsigned char)i);
    check(cuMemFree(block) == CUDA_SUCCESS);
}

static void *run(void *unused) {
    CUdeviceptr kept[N_KEPT], block;
    cuCtxSetCurrent(context);
    for (unsigned i = 0; i < N_KEPT; i++)
        allocate(&kept[i], i);
    for (unsigned i = 0; i < N_KEPT; i += 2)
        give(kept[i], i);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < N_KEPT; i += 2)
        allocate(&kept[i], i);
    for (unsigned i = 0; i < N_TURNS; i++) {
        allocate(&block, i % N_KEPT);
        give(block, i % N_KEPT);
    }
    for (unsigned i = 0; i < N_KEPT; i++)
        give(kept[i], i);
    return unused;
}

static bool has_handler(void) {
    struct sigaction now;
    sigaction(SIGBUS, NULL, &now);
    return now.sa_flags & SA_SIGINFO || now.sa_handler != SIG_DFL;
}

int main(int n_arguments, char *arguments[]) {
    pthread_t threads[MOST_THREADS];
    char line[8];
    unsigned n = n_arguments > 1 ? (unsigned)atoi(arguments[1]) : 1;
    CUdevice device;
    if (has_handler()) {
        puts("handled");
        return 0;
    }
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device))
        return 2;
    pthread_barrier_init(&barrier, NULL, n + 1);
    for (unsigned i = 0; i < n && i < MOST_THREADS; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    pthread_barrier_wait(&barrier);
    puts("ready");
    fflush(stdout);
    bool is_cut = fgets(line, sizeof line, stdin) != NULL;
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < n && i < MOST_THREADS; i++)
        pthread_join(threads[i], NULL);
    cuDevicePrimaryCtxRelease(device);
    puts(is_cut && !is_wrong ? "ended well" : "wrong");
    return 0;
}
