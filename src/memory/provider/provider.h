/*
 * Providers: the driver calls that a heap's segments come from, one provider for each kind of
 * memory and backend; and what a heap does with them.  The one place of the allocator that asks the
 * driver for memory.
 *
 * While a provider is called the heap's context is current, and the thread's capture mode RELAXED
 * unless the call stands for the program's own.  No lock of ours is held.
 *
 * A segment is entered in the page map after it was obtained and erased before it is released,
 * since its addresses may be reborn in another thread one line later.
 */
#ifndef CUSHIM_MEMORY_PROVIDER_H
#define CUSHIM_MEMORY_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "cushim/status.h"
#include "memory/layout/sizeclass.h"

enum cushim_mem_kind { CUSHIM_MEM_DEVICE, CUSHIM_MEM_MANAGED, CUSHIM_MEM_PINNED };

struct cushim_mem_extent;
struct cushim_mem_heap;
struct cushim_mem_segment;

struct cushim_mem_provider {
    const char *name;
    /* CUDA_SUCCESS: *base has n_bytes for the caller. */
    CUresult (*obtain)(struct cushim_mem_heap *pool, size_t n_bytes, uint64_t *base);
    /* CUDA_SUCCESS: gone; else it is as before. */
    CUresult (*release)(struct cushim_mem_heap *pool, uint64_t base, size_t n_bytes);
    bool is_prompt;        /* release never waits for the device */
    bool outlives_context; /* and must be released when the context goes */
    size_t grain_bytes;    /* a power of two: dedicated segments are multiples; 0: as asked */
    size_t as_asked_bytes; /* but not those of this size or less: the driver packs them itself */
    size_t least_bytes;    /* of addresses that the driver gives for a segment, however small */
};

/* The size of a dedicated segment for a request, which leaves room to round up. */
static inline size_t cushim_mem_provider_round(const struct cushim_mem_provider *source,
                                               size_t n_bytes) {
    size_t past =
        n_bytes > source->as_asked_bytes && source->grain_bytes ? source->grain_bytes - 1 : 0;
    return (n_bytes + past) & ~past;
}

/* The addresses that are the segment's, to the end of what the driver gave: whole pages. */
static inline size_t cushim_mem_provider_reach(const struct cushim_mem_provider *source,
                                               size_t n_bytes) {
    return n_bytes < source->least_bytes ? source->least_bytes : n_bytes;
}

/* The driver hands out device memory in pages of this size, and packs none that is larger than
 * half. */
enum { CUSHIM_MEM_NATIVE_PAGE_BYTES = 2 << 20 };

/* Blocks of other memory above 1 MiB are of whole such grains. */
enum { CUSHIM_MEM_LARGE_GRAIN_BYTES = 1 << 16 };

/* Managed memory has pages of its own from here on; less is never asked for (managed.c). */
enum { CUSHIM_MEM_MANAGED_LEAST_BYTES = (1 << 20) + CUSHIM_MEM_LARGE_GRAIN_BYTES };

/* Plain cuMemAlloc memory: IPC, peer access and registration work as natively. */
extern const struct cushim_mem_provider cushim_mem_provider_device;

/* cuMemHostAlloc and cuMemAllocManaged memory, with the flags of the pool. */
extern const struct cushim_mem_provider cushim_mem_provider_pinned;
extern const struct cushim_mem_provider cushim_mem_provider_managed;

/**
 * Ask the driver for memory, without the lock; the pool's context is current.
 * @param base  set on success; the memory belongs to the caller, for enter or put_back
 * @return CUSHIM_OK | CUSHIM_NOMEM | another status of the driver
 * Stream   never waits; valid while any thread captures
 */
enum cushim_status cushim_mem_provider_fetch(struct cushim_mem_heap *pool, size_t n_bytes,
                                             uint64_t *base);

/* Give memory back that was fetched and not entered. */
void cushim_mem_provider_put_back(struct cushim_mem_heap *pool, uint64_t base, size_t n_bytes);

/**
 * Under the lock: make a segment of fetched memory.  Its one extent is free and listed, or, where
 * the segment is dedicated, a BLOCK that belongs to the caller.
 * @return the extent; NULL when host memory is out or the address cannot be mapped: nothing has
 * changed
 */
struct cushim_mem_extent *cushim_mem_provider_enter(struct cushim_mem_heap *pool, uint64_t base,
                                                    size_t n_bytes, bool is_dedicated);

/*
 * Under the lock: take wholly free segments out of the pool until it holds at most target_bytes or
 * none is left.  Returns them as a list by `next`, for cushim_mem_provider_release, which takes
 * them out of the page map, too: until then they are found, with no block in them.
 */
struct cushim_mem_segment *cushim_mem_provider_detach(struct cushim_mem_heap *pool,
                                                      size_t target_bytes);

/* Without the lock: give a list of detached segments back.  Returns their bytes. */
size_t cushim_mem_provider_release(struct cushim_mem_heap *pool, struct cushim_mem_segment *list);

/**
 * Without the lock: free a dedicated segment whose block is DEFERRED natively, as the caller would.
 * @param stream NULL: by the source; otherwise behind the work of *stream, by cuMemFreeAsync, which
 *               the driver has and which takes such memory
 * @return CUSHIM_OK | the status of `answer`: the segment is as before
 */
enum cushim_status cushim_mem_provider_free(struct cushim_mem_heap *pool,
                                            struct cushim_mem_segment *segment,
                                            const CUstream *stream, CUresult *answer);

/*
 * Under the lock: forget all segments and their blocks without a driver call.  In the page map the
 * pages of device memory are vacated.
 */
void cushim_mem_provider_abandon(struct cushim_mem_heap *pool);

#endif
