/*
 * Hooks of queries about memory: how much is free, what is at an address, what a handle belongs to
 * (interposition.md C1, C2, C10, C13).
 */
#include <string.h>

#include "base/log.h"
#include "memory/heap.h"
#include "memory/provider/provider.h"
#include "memory/state/heap_state.h"
#include "preload/state/contexts.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/entry/mapped.h"
#include "preload/state/imports.h"
#include "preload/state/dma_readers.h"
#include "preload/entry/sight.h"
#include "preload/hooks/hook.h"

CUSHIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUSHIM_ENTER(cuMemGetInfo_v2)
    cushim_contexts_give_back_stale(NULL);
    cushim_async_give_back_stale();
    CUresult answer = cuda->cuMemGetInfo_v2(free_bytes, total_bytes);
    CUdevice device;
    if (answer != CUDA_SUCCESS || !free_bytes || !total_bytes || !cushim_process_is_on() ||
        cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return answer;
    cushim_device_limit_tell(cuda, device, free_bytes, total_bytes);
    return answer;
}

HOOK(cuDeviceTotalMem_v2, TAKES(size_t *n_bytes, CUdevice device),
     ON_SUCCESS(REAL(n_bytes, device),
                if (cushim_device_limit_is_set() && device >= 0 && device < CUSHIM_MAX_DEVICES)
                    cushim_device_limit_tell(cuda, device, &(size_t){0}, n_bytes)))

/* ---- ranges ---- */

static CUdeviceptr asked_at(CUdeviceptr address, enum cushim_sight sight) {
    return sight == CUSHIM_SIGHT_NOTHING ? CUSHIM_UNKNOWN_ADDRESS : address;
}

CUSHIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n_bytes,
                                               CUdeviceptr address) {
    CUSHIM_ENTER(cuMemGetAddressRange_v2)
    struct cushim_mem_lookup lookup;
    enum cushim_sight sight = cushim_sight(address, 1, &lookup);
    CUresult answer = cuda->cuMemGetAddressRange_v2(base, n_bytes, asked_at(address, sight));
    if (answer != CUDA_SUCCESS || sight != CUSHIM_SIGHT_BLOCK)
        return answer;
    if (base)
        *base = lookup.base;
    if (n_bytes)
        *n_bytes = lookup.asked_bytes;
    return answer;
}

/* The range has whole pages, which may be more than the block. */
HOOK(cuMemGetHandleForAddressRange,
     TAKES(void *handle, CUdeviceptr address, size_t n_bytes, CUmemRangeHandleType type,
           unsigned long long flags),
     cushim_dma_readers_expect();
     return REAL(handle, cushim_sight_ask(address, 1), n_bytes, type, flags))
HOOK(cuMemRangeGetAttribute,
     TAKES(void *data, size_t data_bytes, CUmem_range_attribute attribute, CUdeviceptr address,
           size_t n_bytes),
     return REAL(data, data_bytes, attribute, cushim_sight_ask(address, n_bytes), n_bytes))
HOOK(cuMemRangeGetAttributes,
     TAKES(void **data, size_t *data_bytes, CUmem_range_attribute *attributes, size_t n_attributes,
           CUdeviceptr address, size_t n_bytes),
     return REAL(data, data_bytes, attributes, n_attributes, cushim_sight_ask(address, n_bytes),
                 n_bytes))

/* ---- pinned memory ---- */

static void *sight_ask_host(const void *address) {
    return (void *)(uintptr_t)cushim_sight_ask((uintptr_t)address, 1);
}

HOOK(cuMemHostGetDevicePointer_v2,
     TAKES(CUdeviceptr *device_address, void *address, unsigned flags),
     return REAL(device_address, sight_ask_host(address), flags))
HOOK(cuMemHostGetFlags, TAKES(unsigned *flags, void *address),
     return REAL(flags, sight_ask_host(address)))

/* ---- what other processes may see ---- */

/* What the driver hands out in any case; its own small blocks share as much. */
enum { PAGE_BYTES = 2 << 20 };

/* The place of the distance in a handle, as in handles of the driver's own small blocks. */
enum { DISTANCE_AT = 28 };

/*
 * The driver's handle names a segment.  A block that does not begin its segment has that handle,
 * with its distance from the start at byte 28, where handles of the driver's own small blocks have
 * their distance in their page.  The driver opens such a handle at the block, but a segment at only
 * one distance; with cushim in the process that opens, any number of distances works.
 *
 * May other processes see all of the segment that contains a LIVE block?  Yes if it is the only
 * block there, or if the segment is a page of 2 MiB, which the driver's small blocks share, too.
 * Never with guards around blocks, because other processes could write them.
 */
static bool may_show(const struct cushim_mem_lookup *lookup) {
    const struct cushim_mem_segment *segment = lookup->segment;
    return !segment->guard_bytes &&
           (cushim_mem_segment_is_one_block(segment) || segment->n_bytes <= PAGE_BYTES);
}

/* ---- attributes ---- */

/* Our ids have this bit, so that none is one of the driver's, which count allocations. */
static const unsigned long long own_ids = 1ull << 63;

/* A boolean of unknown width: 0 or 1 in its first byte. */
static void tell_bool(void *data, bool value) {
    *(unsigned char *)data = value;
}

/* Whose memory lies at an address that the host has in place of a device. */
struct owner {
    CUcontext context; /* NULL: of mapped memory */
    int device;        /* -1: it is not spilled */
};

static struct owner owner_of(CUdeviceptr address, enum cushim_sight sight,
                             const struct cushim_mem_lookup *lookup) {
    if (sight == CUSHIM_SIGHT_FOREIGN)
        return (struct owner){.device = cushim_mapped_spilled_at(address)};
    if (sight == CUSHIM_SIGHT_NOTHING || !cushim_mem_heap_is_spilled(lookup->segment->heap))
        return (struct owner){.device = -1};
    return (struct owner){lookup->segment->heap->context, lookup->segment->heap->device};
}

/* If it is spilled, what a driver answers for device memory.  False: it says what is right, also of
 * host memory. */
static bool is_told_spilled(const struct owner *owner, CUpointer_attribute attribute, void *data) {
    if (owner->device < 0)
        return false;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = owner->context;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = owner->device;
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        tell_bool(data, false);
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)data = 0;
        return true;
    default:
        return false;
    }
}

/* The driver has answered for the segment; correct what differs for the block. */
static void tell(const struct cushim_mem_lookup *lookup, CUpointer_attribute attribute,
                 void *data) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = lookup->base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = lookup->asked_bytes;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = own_ids | cushim_mem_block_number(lookup);
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        tell_bool(data, cushim_mem_block_is_synchronous(lookup));
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        if (!may_show(lookup))
            tell_bool(data, false);
        break;
    default:
        break;
    }
}

CUSHIM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
    CUSHIM_ENTER(cuPointerGetAttribute)
    struct cushim_mem_lookup lookup;
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        cushim_dma_readers_expect();
    enum cushim_sight sight = cushim_sight(address, 1, &lookup);
    CUresult answer = cuda->cuPointerGetAttribute(data, attribute, asked_at(address, sight));
    struct owner owner = owner_of(address, sight, &lookup);
    if (data && is_told_spilled(&owner, attribute, data))
        return attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ? CUDA_ERROR_INVALID_VALUE
                                                              : CUDA_SUCCESS;
    if (answer == CUDA_SUCCESS && data && sight == CUSHIM_SIGHT_BLOCK)
        tell(&lookup, attribute, data);
    return answer;
}

CUSHIM_EXPORT CUresult cuPointerGetAttributes(unsigned n_attributes,
                                              CUpointer_attribute *attributes, void **data,
                                              CUdeviceptr address) {
    CUSHIM_ENTER(cuPointerGetAttributes)
    struct cushim_mem_lookup lookup;
    for (unsigned i = 0; attributes && i < n_attributes; i++) {
        if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            cushim_dma_readers_expect();
    }
    enum cushim_sight sight = cushim_sight(address, 1, &lookup);
    CUresult answer =
        cuda->cuPointerGetAttributes(n_attributes, attributes, data, asked_at(address, sight));
    struct owner owner = owner_of(address, sight, &lookup);
    if (answer != CUDA_SUCCESS || !attributes || !data)
        return answer;
    for (unsigned i = 0; i < n_attributes; i++) {
        if (data[i] && !is_told_spilled(&owner, attributes[i], data[i]) &&
            sight == CUSHIM_SIGHT_BLOCK)
            tell(&lookup, attributes[i], data[i]);
    }
    return answer;
}

/* ---- SYNC_MEMOPS: the driver's for a whole segment, the program's for a block ---- */

static CUresult set_synchronous(struct cushim_cuda *cuda, const struct cushim_mem_lookup *lookup,
                                const void *value) {
    static atomic_bool is_told;
    const CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    if (!*(const unsigned *)value) {
        cushim_sight_reset(lookup);
        return CUDA_SUCCESS;
    }
    bool is_new = cushim_mem_block_set_synchronous(lookup, true);
    CUresult answer = cuda->cuPointerSetAttribute(value, attribute, lookup->base);
    if (answer != CUDA_SUCCESS && is_new)
        cushim_mem_block_set_synchronous(lookup, false);
    else if (!cushim_mem_segment_is_one_block(lookup->segment) && !atomic_exchange(&is_told, true))
        log_info("pointer", "SYNC_MEMOPS on 0x%lx covers its whole segment: slower, not wrong",
                 (unsigned long)lookup->base);
    return answer;
}

CUSHIM_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
    CUSHIM_ENTER(cuPointerSetAttribute)
    struct cushim_mem_lookup lookup;
    enum cushim_sight sight = cushim_sight(address, 1, &lookup);
    if (sight == CUSHIM_SIGHT_NOTHING)
        return cuda->cuPointerSetAttribute(value, attribute, CUSHIM_UNKNOWN_ADDRESS);
    if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
        cushim_dma_readers_expect();
        if (sight == CUSHIM_SIGHT_BLOCK && value)
            return set_synchronous(cuda, &lookup, value);
    }
    return cuda->cuPointerSetAttribute(value, attribute, address);
}

/* ---- memory of other processes ---- */

static uint32_t distance_in(const CUipcMemHandle *handle) {
    uint32_t distance;
    memcpy(&distance, handle->reserved + DISTANCE_AT, sizeof distance);
    return distance;
}

static void set_distance(CUipcMemHandle *handle, uint32_t distance) {
    memcpy(handle->reserved + DISTANCE_AT, &distance, sizeof distance);
}

/* The block's memory is not reused after its free, so that a process that has it open still sees
 * its old contents, and no other block's. */
static CUresult get_handle(struct cushim_cuda *cuda, const struct cushim_mem_lookup *lookup,
                           CUipcMemHandle *handle) {
    struct cushim_mem_segment *segment = lookup->segment;
    CUresult answer = cuda->cuIpcGetMemHandle(handle, lookup->base);
    if (answer != CUDA_SUCCESS) {
        if (segment->heap->provider == &cushim_mem_provider_vmm)
            log_error("ipc", "no handle for 0x%lx: CUSHIM_BACKEND=vmm has none",
                      (unsigned long)lookup->base);
        return answer;
    }
    set_distance(handle, (uint32_t)(lookup->base - segment->base));
    cushim_mem_heap_show(segment->heap, lookup->base);
    return CUDA_SUCCESS;
}

typedef CUresult (*open_fn)(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags);

/* Is it a segment of another process's heap, and large enough for a block at this distance?  Such
 * segments are whole pages.  A small block of the driver's, whose handle has a distance of its own,
 * is not one. */
static bool has_room(struct cushim_cuda *cuda, CUdeviceptr base, uint32_t distance) {
    CUdeviceptr start;
    size_t n_bytes;
    return cuda->cuMemGetAddressRange_v2(&start, &n_bytes, base) == CUDA_SUCCESS && start == base &&
           n_bytes % PAGE_BYTES == 0 && distance < n_bytes;
}

/* What the driver opened is counted once, however often it is open. */
static CUresult opened(struct cushim_cuda *cuda, const CUdeviceptr *address, CUresult answer) {
    if (answer == CUDA_SUCCESS && cushim_imports_enter(*address, *address))
        cushim_entry_note_imported(cuda, *address);
    return answer;
}

/*
 * The driver takes a distance, too, but opens no allocation at two of them at once.  So it is asked
 * for the segment itself, once for each block that is opened, and counts.
 */
static CUresult open_by(struct cushim_cuda *cuda, open_fn open_handle, CUdeviceptr *address,
                        CUipcMemHandle handle, unsigned flags) {
    uint32_t distance = distance_in(&handle);
    CUipcMemHandle segment = handle;
    CUdeviceptr base;
    set_distance(&segment, 0);
    if (!address || !distance || open_handle(&base, segment, flags) != CUDA_SUCCESS)
        return opened(cuda, address, open_handle(address, handle, flags));
    if (!has_room(cuda, base, distance)) {
        cuda->cuIpcCloseMemHandle(base);
        return opened(cuda, address, open_handle(address, handle, flags));
    }
    if (!cushim_imports_enter(base + distance, base)) {
        cuda->cuIpcCloseMemHandle(base);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = base + distance;
    return opened(cuda, &base, CUDA_SUCCESS);
}

static CUresult close_handle(struct cushim_cuda *cuda, CUdeviceptr address) {
    uint64_t base = cushim_imports_leave(address);
    /* a context that goes takes its open handles along, but leaves the row: another handle may be
     * there now */
    CUresult answer = base ? cuda->cuIpcCloseMemHandle(base) : CUDA_ERROR_INVALID_VALUE;
    if (answer == CUDA_SUCCESS && base != address)
        cushim_imports_leave(base);
    if (answer != CUDA_SUCCESS && base != address)
        answer = cuda->cuIpcCloseMemHandle(address);
    address = base ? base : address;
    if (answer == CUDA_SUCCESS && cushim_process_is_on() && !cushim_imports_has(address))
        cushim_foreign_gone(address);
    return answer;
}

CUSHIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    CUSHIM_ENTER(cuIpcGetMemHandle)
    struct cushim_mem_lookup lookup;
    enum cushim_sight sight = cushim_sight(address, 1, &lookup);
    if (sight == CUSHIM_SIGHT_NOTHING)
        return cuda->cuIpcGetMemHandle(handle, CUSHIM_UNKNOWN_ADDRESS);
    /* the driver has no handles for other kinds of memory */
    if (sight == CUSHIM_SIGHT_FOREIGN || !handle || lookup.segment->heap->kind != CUSHIM_MEM_DEVICE)
        return cuda->cuIpcGetMemHandle(handle, address);
    if (cushim_mem_heap_is_spilled(lookup.segment->heap))
        return cushim_sight_refuse_handle(address, "lies in host memory (CUSHIM_SPILL)");
    return may_show(&lookup) ? get_handle(cuda, &lookup, handle)
                             : cushim_sight_refuse_handle(
                                   address, "shares a segment of more than 2 MiB, or has guards");
}

HOOK(cuIpcOpenMemHandle, TAKES(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags),
     return open_by(cuda, REAL, address, handle, flags))
HOOK(cuIpcOpenMemHandle_v2, TAKES(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags),
     return open_by(cuda, REAL, address, handle, flags))

HOOK(cuIpcCloseMemHandle, TAKES(CUdeviceptr address), return close_handle(cuda, address))
