/*
 * The allocator benchmark: the interfaces of allocators and workloads, and their parameters.
 *
 * Each process runs one allocator, so that no other holds memory at the same time.  `cushim` is not
 * an allocator here but `malloc` under the preload, which rounds.py alternates with the others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime.h>

struct allocator {
    const char *name;
    bool is_host; /* it allocates host memory */
    /* allocate and free: 0 or the CUDA error; any thread, any block */
    int (*obtain)(void **block, size_t n_bytes);
    int (*release)(void *block, size_t n_bytes);
    /* NULL, or wait for the calling thread's work, because stream-ordered calls cost their time
     * there */
    int (*settle)(void);
};

enum { SETTLE_EVERY = 64 }; /* pairs */

struct settings {
    const struct allocator *allocator;
    const char *sizes;   /* "512,64K,1M"; NULL: the workload's own */
    const char *threads; /* "1,4,16"; NULL: the workload's own */
    const char *trace;   /* a recorded trace, or NULL */
    unsigned time_ms;    /* approximate time of one case */
    bool is_tiny;        /* a trial run: its counts and sizes measure nothing */
};

/* The allocator of that name, initialised, or NULL and the reason in `why`.  `library`: the peers'
 * library, or NULL. */
const struct allocator *allocator_open(const char *name, const char *library, const char **why);

/* Makes the driver load what a first copy and a first set need, so that this memory does not count
 * for the allocator.  It uses a stream-ordered block, because cudaMalloc may be the allocator under
 * test. */
void allocator_warm(void);

/* The calling thread's stream, on which stream-ordered allocators allocate. */
cudaStream_t allocator_stream(void);

/* Sets both ends of a block and reads them back; a difference ends the process. */
void allocator_check(const struct allocator *allocator, size_t n_bytes);

/* "64K" -> 65536 */
size_t size_of(const char *text);

/* Bytes of the device in use by all processes: from NVML, which no preload changes, otherwise from
 * the driver. */
size_t held_bytes(void);

/* The workloads; each prints one line per case. */
void run_pair(const struct settings *settings);
void run_larson(const struct settings *settings);
void run_deep(const struct settings *settings);
