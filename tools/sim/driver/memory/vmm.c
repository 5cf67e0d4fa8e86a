/*
 * Memory in two halves: addresses that are reserved, and physical memory that is mapped there.
 *
 * Physical memory is a file of its own, charged to its device or to the host, and may be passed to
 * another process as a descriptor.  Devices with access can reach a mapping; unmapping waits for
 * nothing.
 */
#include "tools/sim/driver/core/abi.h"
#include "cuda/patchable.h"
#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/context/device.h"
#include "tools/sim/driver/context/share.h"
#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/core/options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct physical {
    struct sim_device *device;
    CUmemAllocationProp prop;
    size_t n_bytes;
    unsigned n_refs;    /* handles and mappings */
    unsigned n_handles; /* that were not released */
    int fd;             /* -1: unbacked */
    bool is_charged;    /* not imported */
};

/* Addresses that the program reserved, lowest first. */
struct reservation {
    char *address;
    size_t n_bytes;
};

static struct reservation *reservations;
static size_t n_reservations, cap_reservations;

static bool is_page_multiple(size_t n_bytes) {
    return n_bytes != 0 && n_bytes % SIM_PAGE_BYTES == 0;
}

/* ---- addresses ---- */

/* The first reservation that ends above the address. */
static size_t place_of_reservation(const char *address) {
    size_t low = 0, high = n_reservations;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (reservations[middle].address + reservations[middle].n_bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_room_for_reservation(void) {
    if (n_reservations < cap_reservations)
        return true;
    size_t cap = cap_reservations ? 2 * cap_reservations : 64;
    struct reservation *grown = realloc(reservations, cap * sizeof *grown);
    if (!grown)
        return false;
    reservations = grown;
    cap_reservations = cap;
    return true;
}

/* All devices see all addresses; those of the first are handed out. */
static CUresult reserve(CUdeviceptr *out, size_t n_bytes, size_t align_bytes, CUdeviceptr wanted) {
    struct sim_space *space = &sim_device_at(0)->space;
    if (!out || !is_page_multiple(n_bytes) || (align_bytes & (align_bytes - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    size_t align_pages = align_bytes > SIM_PAGE_BYTES ? align_bytes / SIM_PAGE_BYTES : 1;
    if (!has_room_for_reservation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *address = (char *)(uintptr_t)wanted; /* a hint, not a requirement */
    if (!wanted || !sim_space_take_at(space, address, n_bytes))
        address = sim_space_take(space, n_bytes, align_pages);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t place = place_of_reservation(address);
    memmove(reservations + place + 1, reservations + place,
            (n_reservations - place) * sizeof *reservations);
    reservations[place] = (struct reservation){address, n_bytes};
    n_reservations++;
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
    SIM_ENTER(cuMemAddressReserve);
    return sim_leave(flags ? CUDA_ERROR_INVALID_VALUE : reserve(ptr, size, alignment, addr));
}

static CUresult unreserve(CUdeviceptr ptr, size_t n_bytes) {
    char *address = (char *)(uintptr_t)ptr;
    size_t place = place_of_reservation(address);
    if (place == n_reservations || reservations[place].address != address ||
        reservations[place].n_bytes != n_bytes || sim_block_overlaps(address, n_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    n_reservations--;
    memmove(reservations + place, reservations + place + 1,
            (n_reservations - place) * sizeof *reservations);
    sim_space_give(&sim_device_at(0)->space, address, n_bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    SIM_ENTER(cuMemAddressFree);
    return sim_leave(unreserve(ptr, size));
}

static bool is_reserved(const char *address, size_t n_bytes) {
    size_t place = place_of_reservation(address);
    return place < n_reservations && address >= reservations[place].address &&
           address + n_bytes <= reservations[place].address + reservations[place].n_bytes;
}

/* ---- physical memory ---- */

static CUresult judge_prop(const CUmemAllocationProp *prop) {
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA) /* there is one node */
        return prop->location.id ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sim_device_at(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static bool is_host(const CUmemLocation *location) {
    return location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static bool charge(const CUmemLocation *location, size_t n_pages) {
    return is_host(location)
               ? sim_share_charge(SIM_HOST, n_pages, sim_options()->host_memory / SIM_PAGE_BYTES)
               : sim_device_charge(sim_device_at(location->id), n_pages);
}

static void refund(const CUmemLocation *location, size_t n_pages) {
    if (is_host(location))
        sim_share_refund(SIM_HOST, n_pages);
    else
        sim_device_refund(sim_device_at(location->id), n_pages);
}

static void unref(struct physical *physical) {
    if (--physical->n_refs != 0)
        return;
    sim_handle_remove(physical);
    if (physical->is_charged)
        refund(&physical->prop.location, physical->n_bytes / SIM_PAGE_BYTES);
    if (physical->fd >= 0)
        close(physical->fd);
    free(physical);
}

/* Takes the descriptor. */
static CUresult adopt(CUmemGenericAllocationHandle *out, const CUmemAllocationProp *prop,
                      size_t n_bytes, int fd, bool is_charged) {
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical || !sim_handle_add(physical, SIM_HANDLE_PHYSICAL)) {
        free(physical);
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* no block is without a device */
    physical->device = sim_device_at(is_host(&prop->location) ? 0 : prop->location.id);
    physical->n_bytes = n_bytes;
    physical->n_refs = physical->n_handles = 1;
    physical->fd = fd;
    physical->is_charged = is_charged;
    physical->prop = *prop;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t n_bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags) {
    SIM_TRY(judge_prop(prop));
    if (!out || flags || !is_page_multiple(n_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    size_t n_pages = n_bytes / SIM_PAGE_BYTES;
    if (!charge(&prop->location, n_pages))
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool is_unbacked = sim_options()->unbacked;
    int fd = is_unbacked ? -1 : memfd_create("cushim software device memory", MFD_CLOEXEC);
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    if (is_unbacked)
        result = adopt(out, prop, n_bytes, -1, true);
    else if (fd >= 0 && ftruncate(fd, (off_t)n_bytes) == 0)
        result = adopt(out, prop, n_bytes, fd, true);
    else if (fd >= 0)
        close(fd);
    if (result != CUDA_SUCCESS)
        refund(&prop->location, n_pages);
    return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags) {
    SIM_ENTER(cuMemCreate);
    return sim_leave(create(handle, size, prop, flags));
}

static CUresult find(CUmemGenericAllocationHandle handle, struct physical **out) {
    *out = (struct physical *)(uintptr_t)handle;
    return sim_handle_is(*out, SIM_HANDLE_PHYSICAL) && (*out)->n_handles ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    SIM_ENTER(cuMemRelease);
    struct physical *physical;
    CUresult result = find(handle, &physical);
    if (result == CUDA_SUCCESS) {
        physical->n_handles--;
        unref(physical);
    }
    return sim_leave(result);
}

static CUresult retain(CUmemGenericAllocationHandle *out, void *address) {
    const struct sim_block *block = sim_block_find((CUdeviceptr)(uintptr_t)address);
    if (!out || !block || block->kind != SIM_BLOCK_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    struct physical *physical = block->owner_data;
    physical->n_refs++;
    physical->n_handles++;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    SIM_ENTER(cuMemRetainAllocationHandle);
    return sim_leave(retain(handle, addr));
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    SIM_ENTER(cuMemGetAllocationGranularity);
    (void)option;
    CUresult result = granularity ? judge_prop(prop) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *granularity = SIM_PAGE_BYTES;
    return sim_leave(result);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle) {
    SIM_ENTER(cuMemGetAllocationPropertiesFromHandle);
    struct physical *physical;
    CUresult result = prop ? find(handle, &physical) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *prop = physical->prop;
    return sim_leave(result);
}

/* ---- mappings ---- */

static CUresult map(CUdeviceptr at, size_t n_bytes, size_t offset,
                    CUmemGenericAllocationHandle handle) {
    char *address = (char *)(uintptr_t)at;
    struct physical *physical;
    struct sim_block *block;
    SIM_TRY(find(handle, &physical));
    if (!is_page_multiple(n_bytes) || offset != 0 || n_bytes > physical->n_bytes ||
        (uintptr_t)address % SIM_PAGE_BYTES != 0 || !is_reserved(address, n_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_block_overlaps(address, n_bytes))
        return CUDA_ERROR_ALREADY_MAPPED;
    SIM_TRY(sim_block_note(SIM_BLOCK_MAPPED, NULL, physical->device, address, n_bytes, &block));
    if (physical->fd >= 0 &&
        mmap(address, n_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd, 0) == MAP_FAILED) {
        sim_block_release(block);
        return CUDA_ERROR_MAP_FAILED;
    }
    block->owner_data = physical;
    block->is_on_host = is_host(&physical->prop.location);
    physical->n_refs++;
    return CUDA_SUCCESS;
}

CUSHIM_PATCHABLE(cuMemMap)
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    SIM_ENTER(cuMemMap);
    return sim_leave(flags ? CUDA_ERROR_INVALID_VALUE : map(ptr, size, offset, handle));
}

/* Is a range filled by whole mappings and nothing else? */
static bool is_mapped(CUdeviceptr at, size_t n_bytes) {
    CUdeviceptr end = at + n_bytes;
    while (at < end) {
        const struct sim_block *block = sim_block_at(at);
        if (!block || block->kind != SIM_BLOCK_MAPPED)
            return false;
        at += block->n_bytes;
    }
    return at == end && n_bytes != 0;
}

/* Whole mappings alone; what is not mapped between them is passed over (measured, driver 580). */
static CUresult unmap(CUdeviceptr at, size_t n_bytes) {
    const CUdeviceptr end = at + n_bytes;
    if (!is_page_multiple(n_bytes) || !is_reserved((char *)(uintptr_t)at, n_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_block *first = sim_block_find(at), *last = sim_block_find(end - 1);
    if ((first && (CUdeviceptr)(uintptr_t)first->address != at) ||
        (last && (CUdeviceptr)(uintptr_t)last->address + last->n_bytes != end))
        return CUDA_ERROR_INVALID_VALUE;
    while (at < end) {
        struct sim_block *block = sim_block_at(at);
        at += block ? block->n_bytes : SIM_PAGE_BYTES;
        if (!block)
            continue;
        struct physical *physical = block->owner_data;
        if (physical->fd >= 0)
            mmap(block->address, block->n_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        sim_block_release(block);
        unref(physical);
    }
    return CUDA_SUCCESS;
}

CUSHIM_PATCHABLE(cuMemUnmap)
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    SIM_ENTER(cuMemUnmap);
    return sim_leave(unmap(ptr, size));
}

static CUresult judge_access(const struct sim_block *block, const CUmemAccessDesc *desc) {
    const struct sim_device *device = sim_device_at(desc->location.id);
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    return device && (block->is_on_host || device == block->device ||
                      sim_device_reaches(device, block->device))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
}

/* The process may access the pages as far as some device may. */
static CUresult let_in(struct sim_block *block, const CUmemAccessDesc *descs, size_t n) {
    unsigned char all = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (size_t i = 0; i < n; i++)
        SIM_TRY(judge_access(block, &descs[i]));
    for (size_t i = 0; i < n; i++)
        block->access[descs[i].location.id] = (unsigned char)descs[i].flags;
    for (int device = 0; device < SIM_MAX_DEVICES; device++)
        all |= block->access[device];
    if (((struct physical *)block->owner_data)->fd < 0)
        return CUDA_SUCCESS;
    int protection = all == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                     : all                                     ? PROT_READ
                                                               : PROT_NONE;
    return mprotect(block->address, block->n_bytes, protection) == 0 ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Devices that are not named keep their access. */
static CUresult set_access(CUdeviceptr at, size_t n_bytes, const CUmemAccessDesc *descs, size_t n) {
    if (!descs || n == 0 || !is_mapped(at, n_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (CUdeviceptr end = at + n_bytes; at < end;) {
        struct sim_block *block = sim_block_at(at);
        SIM_TRY(let_in(block, descs, n));
        at += block->n_bytes;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    SIM_ENTER(cuMemSetAccess);
    return sim_leave(set_access(ptr, size, desc, count));
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    SIM_ENTER(cuMemGetAccess);
    const struct sim_block *block = sim_block_find(ptr);
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device_at(location->id) || !block || block->kind != SIM_BLOCK_MAPPED)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = block->access[location->id];
    return sim_leave(CUDA_SUCCESS);
}

/* ---- to other processes ---- */

static CUresult export(void *out, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType type) {
    struct physical *physical;
    SIM_TRY(find(handle, &physical));
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags) {
    SIM_ENTER(cuMemExportToShareableHandle);
    return sim_leave(flags ? CUDA_ERROR_INVALID_VALUE
                           : export(shareableHandle, handle, handleType));
}

/* The memory is charged in the process that made it; here it belongs to the first device. */
static CUresult import(CUmemGenericAllocationHandle *out, void *os_handle,
                       CUmemAllocationHandleType type) {
    struct stat file;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl((int)(intptr_t)os_handle, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fstat(fd, &file) != 0 || !is_page_multiple((size_t)file.st_size)) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = type,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return adopt(out, &prop, (size_t)file.st_size, fd, false);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType) {
    SIM_ENTER(cuMemImportFromShareableHandle);
    return sim_leave(import(handle, osHandle, shHandleType));
}
