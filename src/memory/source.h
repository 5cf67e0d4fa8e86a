/*
 * Sources: the driver calls that a pool's segments come from, one source for each kind of memory
 * and backend.
 *
 * The pool's context is current, and the thread's capture mode RELAXED unless the call stands for
 * the program's own.  No lock of ours is held.
 */
#ifndef CUSHIM_MEMORY_SOURCE_H
#define CUSHIM_MEMORY_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/table.h"

enum cushim_mem_kind { CUSHIM_MEM_DEVICE, CUSHIM_MEM_MANAGED, CUSHIM_MEM_PINNED };

struct cushim_mem_pool;

struct cushim_mem_source {
    const char *name;
    /* CUDA_SUCCESS: *base has n_bytes for the caller. */
    CUresult (*obtain)(struct cushim_mem_pool *pool, size_t n_bytes, uint64_t *base);
    /* CUDA_SUCCESS: gone; else it is as before. */
    CUresult (*release)(struct cushim_mem_pool *pool, uint64_t base, size_t n_bytes);
};

/* Plain cuMemAlloc memory: IPC, peer access and registration work as natively. */
extern const struct cushim_mem_source cushim_mem_source_device;

#endif
