/*
 * Blocks: every piece of memory that the driver knows, by address.
 *
 * Device memory is placed as the real driver places it: up to 1 MiB at multiples of 512 bytes
 * inside 2 MiB pages that small blocks of one context or pool share (a page goes back with its last
 * block), above that in whole pages of its own.  Pinned and managed memory is in a range of its
 * own. Registered, mapped and imported memory is only noted here.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/context/device.h"

#include <stdbool.h>
#include <stddef.h>

struct sim_context;
struct sim_pool;
struct sim_slab;

enum sim_block_kind {
    SIM_BLOCK_DEVICE,
    SIM_BLOCK_ASYNC, /* of a pool, or of a graph */
    SIM_BLOCK_MANAGED,
    SIM_BLOCK_HOST,
    SIM_BLOCK_REGISTERED,
    SIM_BLOCK_MAPPED,   /* of cuMemMap: no context */
    SIM_BLOCK_IMPORTED, /* of another process */
    SIM_BLOCK_EXTERNAL, /* a buffer of external memory */
    SIM_BLOCK_INTERNAL, /* the driver's own: sets and copies know it, but no query does */
};

struct sim_block {
    enum sim_block_kind kind;
    char *address;
    size_t n_bytes;              /* as asked */
    struct sim_context *context; /* a root; NULL: MAPPED */
    struct sim_device *device;
    unsigned flags;
    unsigned char access[SIM_MAX_DEVICES]; /* MAPPED: CUmemAccess_flags by device */
    bool is_on_host;                       /* MAPPED: of memory of the host */
    unsigned long long buffer_id;
    bool has_sync_memops;
    bool is_freed;     /* ASYNC: freed in stream order; the stream has not reached the free */
    bool is_kept;      /* freed, and open in another process */
    bool is_unfreed;   /* ASYNC of a graph: a launch left it, which counts as an owner */
    unsigned n_owners; /* ASYNC: one, or the graphs that share it */
    struct sim_pool
        *pool; /* ASYNC, IMPORTED through a pool; NULL: of a graph, by a handle of its own */
    struct sim_slab *slab; /* for small device memory, otherwise NULL */
    void *owner_data; /* MAPPED: its physical memory; IMPORTED: its handle; EXTERNAL: its pages */
    void (*end_owner)(void *owner_data); /* called when the block goes; NULL: nothing to do */
    bool (*is_held)(void *owner_data);   /* a freed block stays unchanged until this returns false;
                                            NULL: it goes */
};

/* Device memory (DEVICE) of a context. */
CUresult sim_block_obtain(struct sim_context *context, size_t n_bytes, struct sim_block **out);

/* The same (ASYNC), of a pool; NULL: of a graph. */
CUresult sim_block_obtain_async(struct sim_context *context, struct sim_pool *pool, size_t n_bytes,
                                struct sim_block **out);

/* Zeroed host memory (HOST, MANAGED). */
CUresult sim_block_obtain_host(enum sim_block_kind kind, struct sim_context *context,
                               size_t n_bytes, unsigned flags, struct sim_block **out);

/* Note memory that others placed (REGISTERED, MAPPED, IMPORTED, EXTERNAL, INTERNAL). */
CUresult sim_block_note(enum sim_block_kind kind, struct sim_context *context,
                        struct sim_device *device, void *address, size_t n_bytes,
                        struct sim_block **out);

/* Forget it, and give its memory back if it was obtained. */
void sim_block_release(struct sim_block *block);

/* The block that contains an address, but not freed or internal ones; NULL: none. */
struct sim_block *sim_block_find(CUdeviceptr address);

/* The same, with freed and internal ones. */
struct sim_block *sim_block_find_any(CUdeviceptr address);

/* All blocks by address: the first for NULL, then the one after `block`; NULL: no more. */
struct sim_block *sim_block_next(const struct sim_block *block);

/* The block, not freed, that begins at an address. */
struct sim_block *sim_block_at(CUdeviceptr address);

/* Is some byte of the range in a block? */
bool sim_block_overlaps(const void *address, size_t n_bytes);

/*
 * Check a range that a copy or set of a device touches.  CUDA_ERROR_INVALID_VALUE if it begins in
 * freed memory, leaves its block, or is mapped without access for the device (NULL: not checked);
 * otherwise success and the block, which is NULL for host memory that is not ours.
 */
CUresult sim_block_judge(CUdeviceptr address, size_t n_bytes, const struct sim_device *device,
                         struct sim_block **out);

/* Does a device have access to the mapping at an address?  True also if nothing is mapped there. */
bool sim_block_lets_in(CUdeviceptr address, const struct sim_device *device);

/*
 * May work whose turn has come touch a range?  Memory of ours that is freed or unmapped is gone,
 * and mapped memory is accessible as far as it is for some device.  Other memory is the host's.
 */
bool sim_block_is_there(const void *address, size_t n_bytes, bool is_written);

/* Release all blocks of a root. */
void sim_blocks_end_context(struct sim_context *root);

/* Live bytes and blocks of a pool. */
void sim_blocks_of_pool(const struct sim_pool *pool, size_t *n_bytes, size_t *n_blocks);

/* Is the memory the host's: HOST, MANAGED, REGISTERED? */
bool sim_block_is_host(const struct sim_block *block);
