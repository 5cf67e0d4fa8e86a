/*
 * The tables of mapped memory: what lives, by its handle, and what is kept of it, by its addresses
 * (docs/internals/memory-engine.md, "Mapped memory").  mapped_memory.h has the calls.
 *
 * One lock guards them.  Functions are called under it unless they say otherwise.
 */
#pragma once

#include <uthash.h>

#include "preload/entry/foreign.h"
#include "preload/entry/rows.h"

/*
 * What the program has of the memory; with neither a reference nor a mapping it is gone, or idle if
 * it is kept.  Of kept memory the driver has one reference at least, the mapping and the address.
 */
struct cushim_mapped_memory {
    CUmemGenericAllocationHandle handle;
    size_t n_bytes; /* 0: never kept, because it is spilled, or another process made it, and no call
                     * tells its size */
    CUmemAllocationProp properties; /* as the program asked for them */
    uint64_t n_references, n_mappings;
    bool has_address;    /* of kept memory, as are those from align_bytes to next */
    bool is_shared;      /* something that we do not see may use it, so it is not kept */
    bool is_spilled;     /* it lies on the host, in place of the device */
    bool is_forgotten;   /* the driver gave its handle anew */
    CUdeviceptr address; /* 0: it is not kept */
    size_t align_bytes;
    uint64_t access;                          /* the devices that may read and write it */
    const void *thread;                       /* that took or unmapped it last */
    bool is_unmapped;                         /* by the driver, which then refused the release */
    bool is_leaving;                          /* a thread makes the driver catch up */
    struct cushim_mapped_memory *prev, *next; /* in `unmapped` */
    UT_hash_handle hh;
};

/* Kept memory without a mapping of the program, the oldest first. */
extern struct cushim_mapped_memory *cushim_mapped_unmapped;

/* What the program mapped, and what it reserved without a hint. */
extern struct cushim_rows cushim_mapped_places, cushim_mapped_reservations;

/* Take the lock, and let it go. */
int cushim_mapped_enter(void);
void cushim_mapped_leave(int cancel);

static inline void cushim_mapped_leave_block(const int *cancel) {
    cushim_mapped_leave(*cancel);
}

/* CUSHIM_MAPPED_LOCKED: as a declaration, once in a block: take it until the block's end; values of
 * `return` are read under it. */
#define CUSHIM_MAPPED_LOCKED                                                                       \
    __attribute__((cleanup(cushim_mapped_leave_block), unused)) const int held_cancel_ =           \
        cushim_mapped_enter()

/* May memory be kept, and serve?  Needs no lock. */
bool cushim_mapped_keeps(struct cushim_cuda *cuda);

/* By its handle; the first that is kept in a range; that which is kept over exactly this range.
 * NULL: none.  The lock is let go while the driver catches up with the one that was found. */
struct cushim_mapped_memory *cushim_mapped_find(CUmemGenericAllocationHandle handle);
struct cushim_mapped_memory *cushim_mapped_in(CUdeviceptr address, size_t n_bytes);
struct cushim_mapped_memory *cushim_mapped_at(CUdeviceptr address, size_t n_bytes);

/* The driver made it.  False: host memory is out, and nobody counts it. */
bool cushim_mapped_add(struct cushim_cuda *cuda, const struct cushim_foreign *foreign,
                       const CUmemAllocationProp *properties);

/* Idle memory is the program's again. */
void cushim_mapped_take(struct cushim_mapped_memory *memory);

/* The program gave a reference or a mapping back: without any, the memory is gone, or idle. */
void cushim_mapped_settle(struct cushim_mapped_memory *memory);

/* It gave the mapping of kept memory back. */
void cushim_mapped_unmap(struct cushim_mapped_memory *memory);

/*
 * Make the driver's state that which the program knows, of one; of all that is kept in a range; of
 * that with a handle.  The lock is let go meanwhile, and the memory may be gone afterwards. If the
 * driver refuses, the memory is as before.
 */
CUresult cushim_mapped_catch_up(struct cushim_cuda *cuda, struct cushim_mapped_memory *memory);
CUresult cushim_mapped_catch_up_in(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes);
CUresult cushim_mapped_catch_up_of(struct cushim_cuda *cuda, CUmemGenericAllocationHandle handle);

/* Without the lock, after memory of a device became idle: give back what may not be. */
void cushim_mapped_look(struct cushim_cuda *cuda, int device);

/* The same before the driver makes more: what is then held may be idle in part, but no more. */
void cushim_mapped_make_room(struct cushim_cuda *cuda, int device, size_t n_bytes);

/* Without the lock: the device in whose place the host has what is mapped there; -1: none.  One
 * load until any was spilled. */
int cushim_mapped_spilled_at(CUdeviceptr address);

/* Without the lock: did the program unmap what is kept there?  One load until it did so first. */
bool cushim_mapped_is_unmapped(CUdeviceptr address);

/* ---- without the lock, for events.c ---- */

/* The options were read. */
void cushim_mapped_configure(void);

/* Give back the idle memory of a device (-1: of all); returns the bytes. */
size_t cushim_mapped_give_back(int device);

/* The same for what may no longer be held, if nothing looked for a second. */
void cushim_mapped_give_back_stale(void);

/* The driver was unloaded, and all handles and mappings with it. */
void cushim_mapped_drop_all(void);
