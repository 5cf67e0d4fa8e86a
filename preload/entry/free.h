/*
 * The program's frees of memory of any kind, from the entry points of driver and runtime, like the
 * requests of alloc.h.
 */
#pragma once

#include <stdbool.h>

#include "cuda/types.h"

struct cushim_cuda;

/* cuMemFree_v2, or cuMemFreeHost for pinned memory. */
enum cushim_entry_free_fn { CUSHIM_FREE, CUSHIM_FREE_HOST };

/* cuMemFree_v2 or cuMemFreeHost, for memory of any owner. */
CUresult cushim_entry_free(struct cushim_cuda *cuda, CUdeviceptr address,
                           enum cushim_entry_free_fn entry);

/*
 * The same for a live block of ours.  False: it is no such block, or the driver refused, and
 * nothing was done.  Then the runtime's own function must be called, which also sets its last
 * error.
 */
bool cushim_entry_free_live(CUdeviceptr address, enum cushim_entry_free_fn entry);

/* The answer of a free.  If the driver is gone, all memory is gone with it, so nothing is left to
 * free (D6).
 */
static inline CUresult cushim_entry_freed(CUresult answer) {
    return answer == CUDA_ERROR_DEINITIALIZED ? CUDA_SUCCESS : answer;
}

/* cuMemFreeAsync for addresses of ours; false: foreign, nothing was done. */
bool cushim_entry_free_on(struct cushim_cuda *cuda, CUdeviceptr address, CUstream stream,
                          CUresult *answer);
