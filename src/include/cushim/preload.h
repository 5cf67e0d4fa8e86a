/*
 * What a program may ask the preload, if it is loaded.
 *
 * None of these functions is linked: look the name up with dlsym(RTLD_DEFAULT, ...).  If it is
 * absent, no preload is in this process.
 */
#ifndef CUSHIM_PRELOAD_H
#define CUSHIM_PRELOAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUctx_st;

/* The kinds of memory that are counted apart. */
enum cushim_preload_kind {
    CUSHIM_PRELOAD_ALL = -1,
    CUSHIM_PRELOAD_DEVICE,
    CUSHIM_PRELOAD_MANAGED,
    CUSHIM_PRELOAD_PINNED,
    CUSHIM_PRELOAD_ASYNC,    /* cudaMallocAsync and the like, which the driver serves */
    CUSHIM_PRELOAD_MAPPED,   /* cuMemCreate, while a handle or a mapping of it is left */
    CUSHIM_PRELOAD_ARRAY,    /* cudaMallocArray and the like */
    CUSHIM_PRELOAD_GRAPH,    /* what the driver has for nodes that allocate */
    CUSHIM_PRELOAD_SPILLED,  /* in host memory, in place of the device's (CUSHIM_SPILL) */
    CUSHIM_PRELOAD_IMPORTED, /* made by another process or interface; in no sum */
    CUSHIM_PRELOAD_CONTEXT /* what contexts and modules take; measured with sites or a recording */
};

/* The counters, in the words of the report; later versions add fields at the end. */
struct cushim_preload_stats {
    size_t struct_size; /* set by the caller; the preload writes no more than this */
    uint64_t live_bytes, rounding_bytes, spare_bytes, idle_bytes, held_bytes;
    uint64_t peak_live_bytes, peak_held_bytes;               /* since the start */
    uint64_t recent_peak_live_bytes, recent_peak_held_bytes; /* since cushim_preload_reset_peak */
    uint64_t n_requests, n_no_call, n_frees;
    uint64_t n_driver_calls, driver_ns; /* calls that allocate and free */
    uint64_t n_waits, wait_ns;          /* frees that found the GPU busy */
    uint64_t n_out_of_memory, n_findings;
};

/**
 * Check whether the preload serves this process.
 * @return 1 | 0 if it is switched off, as by `CUSHIM=0`, and in a child forked after CUDA was used
 * Threads  any
 * Stream   none; makes no CUDA call
 */
int cushim_preload_active(void);

/**
 * Read the counters. Fields that are newer than the preload are set to 0. For several devices or
 * kinds all fields are sums; the peaks that are added may be of different times.
 * @param device  its ordinal; -1 means all
 * @param kind    an enum cushim_preload_kind; all are the sum of all but what is imported
 * @param stats   struct_size is set to sizeof *stats
 * @return 0 | -1: the preload is not active, there is no such device or kind, or struct_size is
 *         too small
 * Threads  any, not in a signal handler
 * Stream   none; makes no CUDA call
 */
int cushim_preload_stats(int device, int kind, struct cushim_preload_stats *stats);

/**
 * Begin the recent peaks again, from what is live and held now.
 * @param device  its ordinal; -1 means all
 * @return 0 | -1: the preload is not active, or there is no such device
 * Threads  any, not in a signal handler; takes the lock of each thread's cache for a moment
 * Stream   none; makes no CUDA call
 */
int cushim_preload_reset_peak(int device);

/**
 * Name this moment. The report has the name, the time, and the live and held device memory. It
 * keeps the last 32.
 * @param name  UTF-8; 63 bytes of it are kept
 * Threads  any, not in a signal handler
 * Stream   none; makes no CUDA call
 */
void cushim_preload_mark(const char *name);

/**
 * Write the report of this moment; the one at the end comes in any case.
 * @param path  as the value of CUSHIM_STATS: JSON if it ends in .json, "%p" is the process;
 *              "stderr" and "-" are standard error and standard output
 * @return 0 | an errno: ENODEV if the preload is not active
 * Threads  any, not in a signal handler
 * Stream   none; makes no CUDA call
 */
int cushim_preload_report(const char *path);

/**
 * Count the open stream captures.
 * @param context  a CUcontext; NULL means all contexts of the process
 * @return the number of captures that have begun and not ended; 0 in a forked child
 * Threads  any; takes a lock for a moment
 * Stream   none; makes no CUDA call
 */
int cushim_preload_capturing(struct CUctx_st *context);

/**
 * End a pass of the program: the arena of the current context (CUSHIM_ARENA), if there is one,
 * serves from its start again, but never over a block that is still allocated.
 * @return 0 | the number of chunks that are kept because they contain a block
 * Threads  any
 * Stream   none; never waits, may record an event over the context
 */
int cushim_preload_arena_reset(void);

/**
 * Give all idle memory of the process back to the driver: of all contexts and kinds, and of the
 * caches of threads.
 * @return the bytes that went back; 0 if the preload is not active
 * Threads  any, not in a signal handler or a host function
 * Stream   waits for the device, two seconds at most, as cudaFree would; while a capture is open it
 *          gives back only what needs no wait
 */
size_t cushim_preload_trim(void);

#ifdef __cplusplus
}
#endif

#endif
