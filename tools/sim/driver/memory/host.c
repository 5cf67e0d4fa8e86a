/* Pinned memory: allocated here, or the program's own and registered. */
#include "tools/sim/driver/core/abi.h"
#include "cuda/patchable.h"
#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "memory.h"

static CUresult alloc(void **out, size_t n_bytes, unsigned flags) {
    struct sim_context *context;
    struct sim_block *block;
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    SIM_TRY(sim_context_current(&context));
    if (!out || n_bytes == 0 || flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_obtain_host(SIM_BLOCK_HOST, context, n_bytes, flags, &block));
    *out = block->address;
    return CUDA_SUCCESS;
}

CUSHIM_PATCHABLE(cuMemHostAlloc)
CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
    SIM_ENTER(cuMemHostAlloc);
    return sim_leave(alloc(pp, bytesize, Flags));
}

CUSHIM_PATCHABLE(cuMemAllocHost_v2)
CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) {
    SIM_ENTER(cuMemAllocHost_v2);
    return sim_leave(alloc(pp, bytesize, 0));
}

static bool is_allocated(const struct sim_block *block) {
    return block->kind == SIM_BLOCK_HOST;
}

CUSHIM_PATCHABLE(cuMemFreeHost)
CUresult cuMemFreeHost(void *p) {
    SIM_ENTER(cuMemFreeHost);
    return sim_leave(p ? sim_memory_free((CUdeviceptr)(uintptr_t)p, is_allocated) : CUDA_SUCCESS);
}

static CUresult register_memory(void *address, size_t n_bytes, unsigned flags) {
    struct sim_context *context;
    struct sim_block *block;
    const unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    SIM_TRY(sim_context_current(&context));
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!address || n_bytes == 0 || flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_block_overlaps(address, n_bytes))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    SIM_TRY(
        sim_block_note(SIM_BLOCK_REGISTERED, context, context->device, address, n_bytes, &block));
    block->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags) {
    SIM_ENTER(cuMemHostRegister);
    return sim_leave(register_memory(p, bytesize, Flags));
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
    SIM_ENTER(cuMemHostRegister_v2);
    return sim_leave(register_memory(p, bytesize, Flags));
}

static bool is_registered(const struct sim_block *block) {
    return block->kind == SIM_BLOCK_REGISTERED;
}

static CUresult unregister(void *address) {
    const struct sim_block *block = sim_block_at((CUdeviceptr)(uintptr_t)address);
    if (!address)
        return CUDA_ERROR_INVALID_VALUE;
    if (!block || !is_registered(block))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return sim_memory_free((CUdeviceptr)(uintptr_t)address, is_registered);
}

CUresult cuMemHostUnregister(void *p) {
    SIM_ENTER(cuMemHostUnregister);
    return sim_leave(unregister(p));
}

/* Pinned memory has the same address on every device. */
static CUresult get_device_pointer(CUdeviceptr *out, void *address, unsigned flags) {
    const struct sim_block *block = sim_block_find((CUdeviceptr)(uintptr_t)address);
    if (!out || flags || !block || !(is_allocated(block) || is_registered(block)))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
    SIM_ENTER(cuMemHostGetDevicePointer_v2);
    return sim_leave(get_device_pointer(pdptr, p, Flags));
}

/* With unified addresses every allocation is mapped, requested or not. */
static CUresult get_flags(unsigned *out, void *address) {
    const struct sim_block *block = sim_block_find((CUdeviceptr)(uintptr_t)address);
    if (!out || !block || !(is_allocated(block) || is_registered(block)))
        return CUDA_ERROR_INVALID_VALUE;
    *out = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p) {
    SIM_ENTER(cuMemHostGetFlags);
    return sim_leave(get_flags(pFlags, p));
}
