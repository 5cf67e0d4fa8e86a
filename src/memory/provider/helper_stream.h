/*
 * A stream of our own in a pool's context: non-blocking, so that it stands behind no stream of the
 * program, and made at the first need.
 *
 * No lock.  The stream is made by compare and exchange, and goes with its context.
 */
#ifndef CUSHIM_MEMORY_HELPER_STREAM_H
#define CUSHIM_MEMORY_HELPER_STREAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda/types.h"

/* The stream, made if there is none (*own is NULL); its context is current. */
CUresult cushim_mem_helper_stream_find(_Atomic(CUstream) *own, struct cushim_cuda *cuda,
                                       CUstream *stream);

/*
 * Wait for an event, but no longer than patience_ns and what n_bytes take on any bus.  Returns what
 * the driver said last: CUDA_ERROR_NOT_READY where it was too late.
 */
CUresult cushim_mem_helper_stream_wait(struct cushim_cuda *cuda, CUevent event,
                                       uint64_t patience_ns, size_t n_bytes);

#endif
