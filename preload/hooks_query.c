/*
 * Hooks of questions about memory: how much is free, what is at an address, whose handle is this
 * (HOOKS.md C1, C2, C10, C13).
 */
#include "base/log.h"
#include "memory/source_vmm.h"
#include "preload/contexts.h"
#include "preload/limit.h"
#include "preload/readers.h"

/* Nobody is ever given memory here: the driver answers for it as for any unknown address. */
static const CUdeviceptr unknown_address = 16;

CUSHIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUSHIM_ENTER(cuMemGetInfo_v2)
    CUresult answer = cuda->cuMemGetInfo_v2(free_bytes, total_bytes);
    CUdevice device;
    if (answer != CUDA_SUCCESS || !free_bytes || !total_bytes || !cushim_engine_is_on() ||
        cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return answer;
    /* what we hold free would be free natively */
    size_t held_bytes = cushim_contexts_reusable_bytes(device);
    size_t room_bytes = *total_bytes - *free_bytes;
    *free_bytes += held_bytes < room_bytes ? held_bytes : room_bytes;
    cushim_limit_open(cuda, device);
    cushim_limit_tell(device, held_bytes, free_bytes, total_bytes);
    return answer;
}

CUSHIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n_bytes,
                                               CUdeviceptr address) {
    CUSHIM_ENTER(cuMemGetAddressRange_v2)
    return cuda->cuMemGetAddressRange_v2(base, n_bytes, address); /* C1: ranges stay native */
}

/* What we know of an address, looked up once; all false for foreign memory. */
struct sight {
    bool is_hidden; /* in a segment of ours, but in no live block: it must look unknown (C10) */
    bool is_shared; /* in a segment with others, whose handle would name these neighbours too */
};

/* With guards around it a block does not begin where the driver's allocation does. */
static bool is_alone(const struct cushim_mem_found *found) {
    return cushim_mem_segment_is_one_block(found->segment) && !found->segment->guard_bytes;
}

static struct sight look(CUdeviceptr address) {
    struct cushim_mem_found found;
    if (!cushim_engine_is_on() || !cushim_mem_ledger_find(&cushim_engine.ledger, address, &found))
        return (struct sight){false, false};
    return (struct sight){
        .is_hidden = cushim_mem_ledger_judge_found(&found, address, 1) > CUSHIM_MEM_INSIDE,
        .is_shared = !is_alone(&found),
    };
}

CUSHIM_EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address,
                                                     size_t n_bytes, CUmemRangeHandleType type,
                                                     unsigned long long flags) {
    CUSHIM_ENTER(cuMemGetHandleForAddressRange)
    cushim_readers_expect();
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
        cushim_readers_expect();
    struct sight sight = look(address);
    CUresult answer =
        cuda->cuPointerGetAttribute(data, attribute, sight.is_hidden ? unknown_address : address);
    if (answer == CUDA_SUCCESS && data && sight.is_shared &&
        attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
        clear_ipc_capable(data);
    return answer;
}

CUSHIM_EXPORT CUresult cuPointerGetAttributes(unsigned n_attributes,
                                              CUpointer_attribute *attributes, void **data,
                                              CUdeviceptr address) {
    CUSHIM_ENTER(cuPointerGetAttributes)
    for (unsigned i = 0; attributes && i < n_attributes; i++) {
        if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            cushim_readers_expect();
    }
    struct sight sight = look(address);
    CUresult answer = cuda->cuPointerGetAttributes(n_attributes, attributes, data,
                                                   sight.is_hidden ? unknown_address : address);
    if (answer != CUDA_SUCCESS || !attributes || !data || !sight.is_shared)
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
    struct sight sight = look(address);
    if (sight.is_hidden)
        return cuda->cuPointerSetAttribute(value, attribute, unknown_address);
    if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
        cushim_readers_expect();
        if (sight.is_shared && !atomic_exchange(&is_told, true))
            log_info("pointer", "SYNC_MEMOPS on 0x%lx covers its whole segment: slower, not wrong",
                     (unsigned long)address);
    }
    return cuda->cuPointerSetAttribute(value, attribute, address);
}

/* ---- memory of other processes ---- */

/*
 * Natively a handle names a driver allocation, and the peer maps all of it.  That is right for a
 * block that is alone in its segment; for any other the peer would map its neighbours, and not even
 * begin with the block where that is an inner one, without a word.  So it is refused (C2).
 *
 * The segment goes back to the driver with the block: whoever has it mapped by then sees nobody
 * else's bytes there.
 */
static bool may_share(CUdeviceptr address) {
    struct cushim_mem_found found;
    if (!cushim_engine_is_on() || !cushim_mem_ledger_find(&cushim_engine.ledger, address, &found) ||
        found.segment->pool->kind != CUSHIM_MEM_DEVICE) /* natively there is none for these */
        return true;
    if (cushim_mem_ledger_judge_found(&found, address, 1) > CUSHIM_MEM_INSIDE || !is_alone(&found))
        return false;
    atomic_store_explicit(&found.segment->goes_with_block, true, memory_order_relaxed);
    return true;
}

/* Memory that the driver has no legacy handles for. */
static bool is_mapped(CUdeviceptr address) {
    struct cushim_mem_found found;
    return cushim_engine_is_on() &&
           cushim_mem_ledger_find(&cushim_engine.ledger, address, &found) &&
           found.segment->pool->source == &cushim_mem_source_vmm;
}

CUSHIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    CUSHIM_ENTER(cuIpcGetMemHandle)
    if (may_share(address)) {
        CUresult answer = cuda->cuIpcGetMemHandle(handle, address);
        if (answer != CUDA_SUCCESS && is_mapped(address))
            log_error("ipc", "no handle for 0x%lx: CUSHIM_BACKEND=vmm has none",
                      (unsigned long)address);
        return answer;
    }
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
