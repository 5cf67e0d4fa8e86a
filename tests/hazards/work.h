/*
 * The work that hazard programs queue, the same on a GPU (nvcc) and on the software device (gcc).
 *
 *   fill   words[i] = tag + i          check   counts the words that differ
 *   gate   ends when the host opens it
 *   linger keeps its stream for a while: microseconds on a GPU, turns on the software device
 *
 * Launched as LAUNCH(name, n_blocks, n_threads, stream, ...).
 */
#pragma once

#include "tests/programs/kernel.h"
#include "tests/programs/program.h"

#include <dlfcn.h>

enum { N_WORK_THREADS = 256 };

KERNEL(fill, unsigned *, words, size_t, n, unsigned, tag) {
    if (i < n)
        words[i] = tag + (unsigned)i;
}

KERNEL(check, const unsigned *, words, size_t, n, unsigned, tag, unsigned *, n_wrong) {
    if (i < n && words[i] != tag + (unsigned)i)
        COUNT(n_wrong);
}

#ifdef __CUDACC__

static __device__ void gate_thread(size_t i, const unsigned *is_open) {
    (void)i;
    while (*(const volatile unsigned *)is_open == 0) {
    }
}

static __device__ void linger_thread(size_t i, unsigned n) {
    unsigned long long start, now;
    (void)i;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < n * 1000ull);
}

#else

/* A spinning kernel reads once and asks for another turn: see sim.h. */
SIM_KERNEL(gate, const unsigned *) {
    launch->turn->again = !__atomic_load_n(SIM_ARG(const unsigned *, 0), __ATOMIC_ACQUIRE);
}

SIM_KERNEL(linger, unsigned) {
    unsigned *n_turns = &SIM_ARG(unsigned, 0);
    launch->turn->again = *n_turns > 0;
    *n_turns -= *n_turns > 0;
}

#endif

KERNEL_LAUNCHER(gate, (const unsigned *is_open), (is_open), (&is_open))
KERNEL_LAUNCHER(linger, (unsigned n), (n), (&n))

static inline void work_fill(unsigned *words, size_t n, unsigned tag, cudaStream_t stream) {
    TRY(LAUNCH(fill, BLOCKS(n, N_WORK_THREADS), N_WORK_THREADS, stream, words, n, tag));
}

static inline void work_check(const unsigned *words, size_t n, unsigned tag, unsigned *n_wrong,
                              cudaStream_t stream) {
    TRY(LAUNCH(check, BLOCKS(n, N_WORK_THREADS), N_WORK_THREADS, stream, words, n, tag, n_wrong));
}

/* The same on the host. */
static inline void host_fill(unsigned *words, size_t n, unsigned tag) {
    for (size_t i = 0; i < n; i++)
        words[i] = tag + (unsigned)i;
}

static inline unsigned host_check(const unsigned *words, size_t n, unsigned tag) {
    unsigned n_wrong = 0;
    for (size_t i = 0; i < n; i++)
        n_wrong += words[i] != tag + (unsigned)i;
    return n_wrong;
}

/* The host opens and closes it, and a gate reads it. */
static inline void gate_set(unsigned *is_open, unsigned value) {
    __atomic_store_n(is_open, value, __ATOMIC_RELEASE);
}

static inline unsigned *gate_create(void) {
    unsigned *is_open;
    TRY(cudaHostAlloc((void **)&is_open, sizeof *is_open, cudaHostAllocMapped));
    gate_set(is_open, 1);
    return is_open;
}

/*
 * Call it before the first CUDA call. It loads kernels early, because none can be loaded while
 * another spins, and gives streams separate hardware queues.
 */
static inline void work_prepare(void) {
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

/*
 * A function of the software device (tools/sim/sim.h), or NULL for a GPU's driver. It is looked up
 * in the driver's library, because the runtime opens the driver privately.
 */
static inline void *device_control(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver ? dlsym(driver, name) : NULL;
}

/* Restart the random choices of the software device; false if there is none. */
static inline int device_seed(unsigned long seed) {
    void *symbol = device_control("sim_seed");
    void (*sim_seed_it)(unsigned long);
    memcpy(&sim_seed_it, &symbol, sizeof symbol);
    if (symbol)
        sim_seed_it(seed);
    return symbol != NULL;
}

enum { STREAM_LEGACY, STREAM_PER_THREAD, STREAM_BLOCKING, STREAM_NON_BLOCKING, N_STREAM_KINDS };

static inline cudaStream_t stream_create(int kind) {
    cudaStream_t stream = kind == STREAM_LEGACY ? cudaStreamLegacy : cudaStreamPerThread;
    if (kind == STREAM_BLOCKING)
        TRY(cudaStreamCreate(&stream));
    else if (kind == STREAM_NON_BLOCKING)
        TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}
