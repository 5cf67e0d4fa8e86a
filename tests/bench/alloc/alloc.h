/*
 * The allocator benchmark: what an allocator is, what a workload is, and what both are told.
 *
 * A process runs one allocator, so that no other holds memory beside it.  `cushim` is no allocator
 * here: it is `malloc` under the preload, which rounds.py runs by turns with the others.
 */
#ifndef CUSHIM_TESTS_BENCH_ALLOC_H
#define CUSHIM_TESTS_BENCH_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime.h>

struct allocator {
    const char *name;
    bool is_host; /* its memory is the host's */
    /* obtain and release: 0 or the error of CUDA; any thread, any block */
    int (*obtain)(void **block, size_t n_bytes);
    int (*release)(void *block, size_t n_bytes);
    /* NULL, or waits for what the calling thread has queued: stream-ordered calls are paid there */
    int (*settle)(void);
};

enum { SETTLE_EVERY = 64 }; /* pairs */

struct settings {
    const struct allocator *allocator;
    const char *sizes;   /* "512,64K,1M"; NULL: the workload's own */
    const char *threads; /* "1,4,16"; NULL: the workload's own */
    const char *trace;   /* a recorded trace, or NULL */
    unsigned time_ms;    /* about, of one case */
    bool is_tiny;        /* counts and sizes of a trial, not of a measurement */
};

/* The allocator of that name, ready, or NULL; `why` says why.  `library`: of the peers, or NULL. */
const struct allocator *allocator_open(const char *name, const char *library, const char **why);

/* Makes the driver load what a first copy and a first set need, so that its memory is not taken for
 * the allocator's.  On a stream-ordered block: cudaMalloc would be the allocator's own. */
void allocator_warm(void);

/* The calling thread's own stream: what stream-ordered allocators allocate on. */
cudaStream_t allocator_stream(void);

/* Contents come back as they were set, at both ends, or the process fails. */
void allocator_check(const struct allocator *allocator, size_t n_bytes);

/* "64K" -> 65536 */
size_t size_of(const char *text);

/* Bytes of the device in use, by everybody: NVML's word, which no preload bends, else the driver's.
 */
size_t held_bytes(void);

/* The workloads: each prints a line a case. */
void run_pair(const struct settings *settings);
void run_larson(const struct settings *settings);
void run_deep(const struct settings *settings);

#endif
