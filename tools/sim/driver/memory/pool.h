/*
 * Memory pools of stream-ordered allocation.
 *
 * A pool has pages of its device.  Pages without a block are idle.  They stay charged to the
 * device, as a number, until the host waits for something and the pool has more than its release
 * threshold, until the pool is trimmed, or until another allocation finds no memory.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_device;
struct sim_slab;

enum { SIM_N_POOL_ATTRIBUTES = 9 };

struct sim_pool {
    struct sim_device *device;
    uint64_t attributes[SIM_N_POOL_ATTRIBUTES]; /* by CUmemPool_attribute; those that can be set */
    uint64_t high_used_bytes, high_reserved_bytes;
    size_t n_pages, n_idle_pages; /* reserved pages, and those of them that contain no block */
    struct sim_slab *slabs;       /* the pages of small blocks */
    struct sim_pool *next;        /* of the pools that were not destroyed */
    bool is_destroyed;            /* keeps nothing idle */
    bool is_shareable;            /* by a descriptor */
    bool is_imported;             /* another process's: nothing is allocated from it */
    uint32_t key;                 /* of its pointers, not 0; 0: never shared */
};

/* NULL: no memory. */
struct sim_pool *sim_pool_create(struct sim_device *device);

CUresult sim_pool_of_handle(CUmemoryPool handle, struct sim_pool **out);

/* Pages for a block, idle ones first, and back; false: the device has too few left. */
bool sim_pool_charge(struct sim_pool *pool, size_t n_pages);
void sim_pool_refund(struct sim_pool *pool, size_t n_pages);

/* A block was allocated from it. */
void sim_pool_note_use(struct sim_pool *pool);

/* The host has waited: every pool gives back idle pages beyond its release threshold. */
void sim_pools_trim(void);

/* The pools of a device give back all idle pages; false: there were none. */
bool sim_pools_empty(const struct sim_device *device);
