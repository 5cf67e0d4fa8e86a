/*
 * Providers: the driver calls that a heap's segments come from, one provider for each kind of
 * memory and backend.  No other part of the allocator asks the driver for memory.
 *
 * While a provider is called the heap's context is current, and the thread's capture mode RELAXED
 * unless the call stands for the program's own.  No lock of ours is held.
 */
#pragma once

#include "base/bits.h"
#include "cuda/types.h"

/* The heap that asks, with its setup. */
struct cushim_mem_provider_client {
    struct cushim_cuda *cuda;
    int device;
    unsigned flags;      /* of the kind: as the program gave them to the driver */
    uint64_t n_segments; /* of the device and kind, that are held now */
};

struct cushim_mem_provider {
    const char *name;
    /* CUDA_SUCCESS: *base has n_bytes for the caller. */
    CUresult (*obtain)(const struct cushim_mem_provider_client *client, size_t n_bytes,
                       uint64_t *base);
    /* CUDA_SUCCESS: it is gone; otherwise nothing has changed. */
    CUresult (*release)(const struct cushim_mem_provider_client *client, uint64_t base,
                        size_t n_bytes);
    bool is_prompt;        /* release never waits for the device */
    bool outlives_context; /* and must be released when the context goes */
    size_t grain_bytes;    /* a power of two: dedicated segments are multiples */
    size_t as_asked_bytes; /* but not those of this size or less, because the driver packs them */
    size_t least_bytes;    /* the least range of addresses that the driver gives for a segment */
};

/* The size of a dedicated segment for a request; n_bytes must leave room to round up. */
static inline size_t cushim_mem_provider_round(const struct cushim_mem_provider *provider,
                                               size_t n_bytes) {
    return n_bytes > provider->as_asked_bytes ? cushim_rounded(n_bytes, provider->grain_bytes)
                                              : n_bytes;
}

/* The range of addresses that belongs to the segment: all whole pages that the driver gave. */
static inline size_t cushim_mem_provider_reach(const struct cushim_mem_provider *provider,
                                               size_t n_bytes) {
    return cushim_most(n_bytes, provider->least_bytes);
}

/* The driver hands out device memory in pages of this size, and packs none that is larger than
 * half. */
enum { CUSHIM_MEM_NATIVE_PAGE_BYTES = 2 << 20 };

/* Blocks of other memory above 1 MiB have whole grains of this size. */
enum { CUSHIM_MEM_LARGE_GRAIN_BYTES = 1 << 16 };

/* Managed memory has pages of its own from here on; less is never asked for (provider.c). */
enum { CUSHIM_MEM_MANAGED_LEAST_BYTES = (1 << 20) + CUSHIM_MEM_LARGE_GRAIN_BYTES };

/* Plain cuMemAlloc memory: IPC, peer access and registration work as without cushim. */
extern const struct cushim_mem_provider cushim_mem_provider_device;

/* cuMemHostAlloc and cuMemAllocManaged memory, with the flags of the heap. */
extern const struct cushim_mem_provider cushim_mem_provider_pinned;
extern const struct cushim_mem_provider cushim_mem_provider_managed;

/*
 * Mapped device memory (cuMemCreate, cuMemMap): address range, physical memory and access are
 * obtained separately, and releasing them waits for nothing.  Legacy IPC handles and GPUDirect do
 * not support it, and cuCtxEnablePeerAccess does not cover it: access is given to all visible
 * devices when it is mapped.  It outlives its context.
 */
extern const struct cushim_mem_provider cushim_mem_provider_vmm;

/*
 * Host memory that kernels of all devices read and write over the bus, mapped in the same way.  The
 * program takes it for memory of its device.  A driver that has no such memory refuses each
 * request.
 */
extern const struct cushim_mem_provider cushim_mem_provider_spill;

/* A handle of such memory, which the program maps itself. */
CUresult cushim_mem_provider_spill_create(struct cushim_cuda *cuda, int device, size_t n_bytes,
                                          CUmemGenericAllocationHandle *handle);

/*
 * Can the driver map memory on this device, and all other visible ones reach it?  The driver is
 * asked once for each device, and a line of the log has the reason if not.  Without cushim a copy
 * reaches the memory of each device from every context, so if that would not hold, the device
 * provider serves.
 */
bool cushim_mem_provider_vmm_fits(struct cushim_cuda *cuda, int device);
