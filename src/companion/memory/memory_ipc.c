/*
 * Device memory of other processes.  Opened memory has a kind of its own, because only a close
 * gives it back.
 */

#include <string.h>

#include "companion/memory/memory.h"

_Static_assert(CUSHIM_IPC_BYTES == CU_IPC_HANDLE_SIZE, "a handle is the driver's");

/* A handle stands for a whole allocation, so an inner address would open as its start. */
static enum cushim_status judge_start(struct cushim_scope *scope,
                                      const struct cushim_memory_range *range) {
    CUdeviceptr base = 0, p = range->address;
    CUSHIM_FAIL_IF(scope->what, range->is_known && range->row.is_shared, CUSHIM_STATE,
                   "p=0x%llx shares the driver's allocation", (unsigned long long)p);
    CUSHIM_NEED_ENTRY(scope->what, cuMemGetAddressRange_v2);
    CUresult result = CUSHIM_DRIVER(cuMemGetAddressRange_v2)(&base, NULL, p);
    if (result == CUDA_ERROR_NOT_FOUND || result == CUDA_ERROR_INVALID_VALUE)
        return cushim_scope_fail(scope, CUSHIM_UNKNOWNPTR, "p=0x%llx", (unsigned long long)p);
    CUSHIM_TRY(cushim_scope_answer(scope, "cuMemGetAddressRange_v2", result));
    CUSHIM_FAIL_IF(scope->what, base != p, CUSHIM_STATE, "p=0x%llx is inside the driver's 0x%llx",
                   (unsigned long long)p, (unsigned long long)base);
    return CUSHIM_OK;
}

enum cushim_status cushim_memory_ipc_get(cushim_devptr p, void *h64) {
    CUSHIM_MEMORY_CALL call = {.n_ranges = 1, .ranges = {{.name = "p", .address = p}}};
    CUipcMemHandle handle = {{0}};
    CUSHIM_NEED(h64);
    memset(h64, 0, CUSHIM_IPC_BYTES);
    CUSHIM_TRY(cushim_memory_enter(&call, __func__, CUSHIM_STREAM_LEGACY));
    CUSHIM_TRY(judge_start(&call.scope, &call.ranges[0]));
    CUSHIM_TRY(CUSHIM_CALL(&call.scope, cuIpcGetMemHandle, &handle, p));
    memcpy(h64, &handle, sizeof handle);
    return CUSHIM_OK;
}

struct ipc_request {
    struct cushim_memory_request request;
    CUipcMemHandle handle;
};

static CUresult obtain_ipc(struct cushim_memory_request *request, CUdeviceptr *address) {
    const struct ipc_request *ipc = (const struct ipc_request *)request;
    CUresult result = CUSHIM_DRIVER(cuIpcOpenMemHandle_v2)(address, ipc->handle,
                                                           CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS)
        return result;
    result = CUSHIM_DRIVER(cuMemGetAddressRange_v2)(NULL, &request->bytes, *address);
    if (result != CUDA_SUCCESS)
        CUSHIM_DRIVER(cuIpcCloseMemHandle)(*address);
    return result;
}

enum cushim_status cushim_memory_ipc_open(struct cushim_context *ctx, const void *h64,
                                          cushim_devptr *p) {
    struct ipc_request ipc = {.request = {.entry = "cuIpcOpenMemHandle_v2",
                                          .kind = CUSHIM_MEMORY_IPC,
                                          .obtain = obtain_ipc}};
    CUSHIM_OUT(p);
    CUSHIM_NEED(h64);
    memcpy(&ipc.handle, h64, sizeof ipc.handle);
    CUSHIM_ENTER_CONTEXT(ctx);
    if (!CUSHIM_DRIVER(cuIpcOpenMemHandle_v2) || !CUSHIM_DRIVER(cuIpcCloseMemHandle) ||
        !CUSHIM_DRIVER(cuMemGetAddressRange_v2))
        return cushim_fail_nosym(__func__, "cuIpcOpenMemHandle_v2");
    return cushim_memory_obtain(&scope, &ipc.request, p);
}

enum cushim_status cushim_memory_ipc_close(cushim_devptr p) {
    return cushim_memory_give_back(__func__, CUSHIM_MEMORY_KIND(IPC), p);
}
