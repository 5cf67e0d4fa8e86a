/*
 * Hooks of questions about memory: how much is free, what is at an address, whose handle is this
 * (HOOKS.md C1, C2, C10, C13).
 */
#include "base/log.h"
#include "preload/contexts.h"

/* Nobody is ever given memory here: the driver answers for it as for any unknown address. */
static const CUdeviceptr unknown_address = 16;

enum { DEDICATED_FOR_READERS_BYTES = 2 << 20 };

CUSHIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUSHIM_ENTER(cuMemGetInfo_v2)
    CUresult answer = cuda->cuMemGetInfo_v2(free_bytes, total_bytes);
    CUdevice device;
    if (answer != CUDA_SUCCESS || !free_bytes || !total_bytes || !cushim_engine_is_on() ||
        cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return answer;
    /* what we hold free would be free natively */
    size_t held_bytes = cushim_contexts_reusable_bytes(device);
    size_t room_bytes = *total_bytes - *free_bytes;
    *free_bytes += held_bytes < room_bytes ? held_bytes : room_bytes;
    return answer;
}

CUSHIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n_bytes,
                                               CUdeviceptr address) {
    CUSHIM_ENTER(cuMemGetAddressRange_v2)
    return cuda->cuMemGetAddressRange_v2(base, n_bytes, address); /* C1: ranges stay native */
}

/* Is this address inside a segment of ours, but in no live block (C10)?  Then it must look unknown.
 */
static bool is_hidden(CUdeviceptr address) {
    return cushim_engine_is_on() &&
           cushim_mem_ledger_judge(&cushim_engine.ledger, address, 1) > CUSHIM_MEM_INSIDE;
}

/* A block in a segment that it shares, whose handle would name its neighbours too. */
static bool is_shared(CUdeviceptr address) {
    struct cushim_mem_found found;
    return cushim_engine_is_on() &&
           cushim_mem_ledger_find(&cushim_engine.ledger, address, &found) &&
           !found.segment->is_dedicated;
}

/*
 * Readers that no event sees (NICs, storage) may be at work from now on: large requests become
 * driver allocations of their own and are freed natively, which revokes their pins (C13).
 */
static void expect_readers(void) {
    if (!cushim_engine_is_on())
        return;
    atomic_size_t *dedicated_bytes = &cushim_engine.policy.dedicated_bytes;
    if (atomic_load_explicit(dedicated_bytes, memory_order_relaxed) > DEDICATED_FOR_READERS_BYTES)
        atomic_store_explicit(dedicated_bytes, DEDICATED_FOR_READERS_BYTES, memory_order_relaxed);
    if (!atomic_exchange(&cushim_engine.policy.is_dedicated_uncached, true))
        log_info("pool",
                 "device memory may be read from outside: 2 MiB and up is freed natively now");
}

CUSHIM_EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address,
                                                     size_t n_bytes, CUmemRangeHandleType type,
                                                     unsigned long long flags) {
    CUSHIM_ENTER(cuMemGetHandleForAddressRange)
    expect_readers();
    return cuda->cuMemGetHandleForAddressRange(handle, address, n_bytes, type, flags);
}

/* A boolean of unknown width: 0 or 1 in its first byte. */
static void clear_ipc_capable(void *data) {
    *(unsigned char *)data = 0;
}

CUSHIM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
    CUSHIM_ENTER(cuPointerGetAttribute)
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        expect_readers();
    CUresult answer = cuda->cuPointerGetAttribute(data, attribute,
                                                  is_hidden(address) ? unknown_address : address);
    if (answer == CUDA_SUCCESS && data &&
        attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE && is_shared(address))
        clear_ipc_capable(data);
    return answer;
}

CUSHIM_EXPORT CUresult cuPointerGetAttributes(unsigned n_attributes,
                                              CUpointer_attribute *attributes, void **data,
                                              CUdeviceptr address) {
    CUSHIM_ENTER(cuPointerGetAttributes)
    CUresult answer = cuda->cuPointerGetAttributes(n_attributes, attributes, data,
                                                   is_hidden(address) ? unknown_address : address);
    if (answer != CUDA_SUCCESS || !attributes || !data || !is_shared(address))
        return answer;
    for (unsigned i = 0; i < n_attributes; i++) {
        if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE && data[i])
            clear_ipc_capable(data[i]);
    }
    return answer;
}

CUSHIM_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
    static atomic_bool is_told;
    CUSHIM_ENTER(cuPointerSetAttribute)
    if (is_hidden(address))
        return cuda->cuPointerSetAttribute(value, attribute, unknown_address);
    if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
        expect_readers();
        if (is_shared(address) && !atomic_exchange(&is_told, true))
            log_info("pointer", "SYNC_MEMOPS on 0x%lx covers its whole segment: slower, not wrong",
                     (unsigned long)address);
    }
    return cuda->cuPointerSetAttribute(value, attribute, address);
}

/* ---- memory of other processes ---- */

/*
 * Natively a handle names a driver allocation, and the peer maps its start.  That is right for a
 * block with an allocation of its own and for one at its segment's start; for any other the peer
 * would map a neighbour's bytes without a word, so it is refused (C2).
 */
static bool is_handle_right(CUdeviceptr address) {
    struct cushim_mem_found found;
    if (!cushim_engine_is_on() || !cushim_mem_ledger_find(&cushim_engine.ledger, address, &found))
        return true;
    return found.state == CUSHIM_MEM_LIVE && found.base == found.segment->base &&
           address - found.base < found.asked_bytes;
}

CUSHIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    CUSHIM_ENTER(cuIpcGetMemHandle)
    if (is_handle_right(address))
        return cuda->cuIpcGetMemHandle(handle, address);
    cushim_mem_stats_add(&cushim_engine.n_refused_handles, 1);
    log_error(
        "ipc",
        "no handle for 0x%lx, whose block shares a driver allocation; CUSHIM_IPC=dedicated gives "
        "blocks of 2 MiB and up one of their own",
        (unsigned long)address);
    return CUDA_ERROR_INVALID_VALUE;
}

CUSHIM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
                                          unsigned flags) {
    CUSHIM_ENTER(cuIpcOpenMemHandle)
    return cuda->cuIpcOpenMemHandle(address, handle, flags);
}

CUSHIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
                                             unsigned flags) {
    CUSHIM_ENTER(cuIpcOpenMemHandle_v2)
    return cuda->cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUSHIM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    CUSHIM_ENTER(cuIpcCloseMemHandle)
    return cuda->cuIpcCloseMemHandle(address);
}
