#include "preload/entry/stale_address.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/mapping.h"
#include "cuda/table.h"
#include "memory/state/segments.h"
#include "preload/state/captures.h"

static void resettle(uint64_t base, size_t n_bytes) {
    cushim_mem_pagemap_resettle(&cushim_process.blocks.map, base, n_bytes);
}

/*
 * Does the driver know an allocation there?  For an address that it does not know, it answers
 * success and every attribute is 0.  Any other answer has another reason, and the call itself will
 * get it, too.
 */
static bool is_known(struct cushim_cuda *cuda, uint64_t address) {
    unsigned type = 0;
    void *data = &type;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    if (cuda->cuPointerGetAttributes(1, &attribute, &data, address) == CUDA_SUCCESS && !type)
        return false;
    CUdeviceptr base;
    size_t n_bytes;
    if (type && cuda->cuMemGetAddressRange_v2 &&
        cuda->cuMemGetAddressRange_v2(&base, &n_bytes, address) == CUDA_SUCCESS)
        resettle(base, n_bytes);
    return true;
}

/*
 * Is it the program's own host memory, which the driver need not know?  Addresses that the driver
 * gave back to the system may be mapped again.  Memory that the driver reserved without rights, or
 * mapped from its devices, is not the program's.
 */
static bool is_host(uint64_t address) {
    struct cushim_mapping mapping;
    enum cushim_status status = cushim_mapping_find(address, &mapping);
    if (status != CUSHIM_OK)
        return status != CUSHIM_NOTFOUND; /* if that is unknown, the driver judges */
    if (!mapping.is_readable || cushim_mapping_is_of(&mapping, "/dev/nvidia"))
        return false;
    resettle(mapping.start, mapping.end - mapping.start);
    return true;
}

/*
 * While a capture is open the driver is not asked, because memory of the graph may have an address
 * where nothing is yet.  Without a live context the driver refuses the call itself.
 */
bool cushim_stale_address_is(uint64_t address) {
    CUdevice device;
    struct cushim_cuda *cuda = cushim_driver();
    if (!cuda || !cuda->cuPointerGetAttributes || cushim_capture_is_open() ||
        cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return false;
    return !is_known(cuda, address) && !is_host(address);
}

/* ---- frees ---- */

static bool is_ours(uint64_t address) {
    struct cushim_mem_lookup lookup;
    return cushim_mem_blocks_find(&cushim_process.blocks, address, &lookup);
}

/* Does the program have no memory there, because the driver does not know it or a segment of ours
 * is there by now?  We look again if a segment of ours may be about to get there. */
static bool is_nobodys(struct cushim_cuda *cuda, uint64_t address) {
    const uint64_t patience_ns = 2000000000;
    uint64_t until_ns = cushim_clock_ns() + patience_ns;
    unsigned n_looks = 0;
    do {
        uint64_t n_begun = atomic_load(&cushim_mem_transits.n_begun);
        bool is_quiet = atomic_load(&cushim_mem_transits.n_ended) == n_begun;
        if (is_ours(address) || !is_known(cuda, address))
            return true;
        if (is_quiet && atomic_load(&cushim_mem_transits.n_begun) == n_begun)
            return false;
        cushim_futex_back_off(&n_looks);
    } while (cushim_clock_ns() < until_ns);
    return false;
}

bool cushim_stale_address_may_be_freed(const struct cushim_cuda *cuda) {
    return cushim_guard_epoch(cushim_guard_now()) && atomic_load(&cushim_mem_transits.n_begun) &&
           cuda->cuPointerGetAttributes && !cushim_capture_is_open() &&
           !cushim_thread.host_function_depth;
}

bool cushim_stale_address_is_freed(struct cushim_cuda *cuda, uint64_t address, CUresult *answer) {
    CUdevice device;
    *answer = cuda->cuCtxGetDevice(&device);
    if (*answer == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return true;
    if (*answer != CUDA_SUCCESS || !is_nobodys(cuda, address))
        return false;
    *answer = CUDA_ERROR_INVALID_VALUE;
    return true;
}
