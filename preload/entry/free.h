/*
 * Frees of the program, of any memory, from the entry points of driver and runtime: as requests
 * (alloc.h).
 */
#ifndef CUSHIM_PRELOAD_FREE_H
#define CUSHIM_PRELOAD_FREE_H

#include <stdbool.h>

#include "cuda/types.h"

struct cushim_cuda;

/* cuMemFree_v2, or cuMemFreeHost for pinned memory. */
enum cushim_entry_free_fn { CUSHIM_FREE, CUSHIM_FREE_HOST };

/* The same, whoever's memory it is. */
CUresult cushim_entry_free(struct cushim_cuda *cuda, CUdeviceptr address,
                           enum cushim_entry_free_fn entry);

/*
 * The same for a live block of ours; false: it is not one, or the driver refused, and nothing was
 * done: go the whole way, which also sets the runtime's last error.
 */
bool cushim_entry_free_live(CUdeviceptr address, enum cushim_entry_free_fn entry);

/* What a free says: once the driver is gone, and with it all memory, nothing is left to free (D6).
 */
static inline CUresult cushim_entry_freed(CUresult answer) {
    return answer == CUDA_ERROR_DEINITIALIZED ? CUDA_SUCCESS : answer;
}

/* cuMemFreeAsync for addresses of ours; false: foreign, nothing was done. */
bool cushim_entry_free_on(struct cushim_cuda *cuda, CUdeviceptr address, CUstream stream,
                          CUresult *answer);

#endif
