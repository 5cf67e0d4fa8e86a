/*
 * The program's requests for device memory, from the entry points of driver and runtime.  Here they
 * are translated for the heap, and its answers into the driver's codes.
 *
 * If the heap cannot or must not serve a request, the driver gets it unchanged.  It is counted, and
 * behaves as without cushim.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

struct cushim_cuda;
struct cushim_mem_request;

/* cuMemAlloc_v2, whatever serves it. */
CUresult cushim_entry_alloc(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes);

/*
 * The driver, or a limit, has no memory for a request of device memory: serve it from host memory,
 * and charge the device for it no longer.
 * False: CUSHIM_SPILL is not set, or that is out, too.
 */
bool cushim_entry_spill(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes);

/* The same, if it needs no driver call.  False: nothing was done, so call cushim_entry_alloc.  Then
 * `request` has what was asked for (cushim_thread.missed); its life must be 0 before. */
bool cushim_entry_alloc_hit(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes,
                            struct cushim_mem_request *request);
