/*
 * Requests of the program for device memory, from the entry points of driver and runtime:
 * translated for the heap once, and its answer into the driver's codes.
 *
 * What the heap cannot or must not serve goes to the driver as it came, is counted, and behaves as
 * natively.
 */
#ifndef CUSHIM_PRELOAD_ALLOC_H
#define CUSHIM_PRELOAD_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

struct cushim_cuda;
struct cushim_mem_request;

/* cuMemAlloc_v2, whatever serves it. */
CUresult cushim_entry_alloc(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes);

/* The same if it takes no driver call; false: nothing was done, go the whole way.  What was asked
 * in vain is in `request` (cushim_thread.missed), whose life is 0 before. */
bool cushim_entry_alloc_hit(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes,
                            struct cushim_mem_request *request);

#endif
