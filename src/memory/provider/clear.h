/*
 * Clearing: memory that is handed out again reads as zero, as the driver's own does.
 *
 * Only what a block covered before is cleared: each segment knows how far blocks have come.  Pinned
 * memory is cleared by the host.  Managed and device memory is cleared by the device, on a stream
 * of our own, and waited for a short time at most: behind a kernel that fills the device it could
 * take for ever, and native's allocation does not wait.
 *
 * No lock.  The stream is made at first use, by compare and exchange.
 */
#ifndef CUSHIM_MEMORY_CLEAR_H
#define CUSHIM_MEMORY_CLEAR_H

#include "cushim/status.h"
#include "cuda/types.h"
#include "memory/layout/block.h"

struct cushim_mem_heap;

/* All zero has no stream yet. */
struct cushim_mem_clear {
    _Atomic(CUstream) stream; /* of the pool's context, non-blocking */
};

/**
 * Note that a block was handed out.
 * @param segment    that it lies in
 * @param n_bytes    asked for, at most block_bytes
 * @return how many of these may have been used before; the rest is as the driver gave it
 * Threads  any; the block is the caller's
 */
size_t cushim_mem_clear_due(struct cushim_mem_segment *segment, uint64_t address, size_t n_bytes,
                            size_t block_bytes);

/* Clear host memory past the caches: nobody reads it soon.  address is a multiple of 64. */
void cushim_mem_clear_host(void *address, size_t n_bytes);

/**
 * Clear managed or device memory of a pool.
 * @return CUSHIM_OK (it is zero) | CUSHIM_NOTSUPPORTED (nothing was begun) | CUSHIM_TIMEOUT (under
 * way on `clear->stream`: the block may be released on that stream) | the driver's refusal: nothing
 * was begun
 * Threads  any, with any current context, which is the same afterwards
 * Stream   host wait of milliseconds at most and what the bytes take; valid while any thread
 * captures
 */
enum cushim_status cushim_mem_clear_device(struct cushim_mem_clear *clear, struct cushim_cuda *cuda,
                                           CUcontext context, uint64_t address, size_t n_bytes);

/* The context is gone, and the stream with it. */
void cushim_mem_clear_abandon(struct cushim_mem_clear *clear);

#endif
