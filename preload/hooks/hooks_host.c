/*
 * Hooks of managed and pinned memory, served from heaps (docs/internals/memory-engine.md, "Managed
 * and pinned memory"), and of hints about managed memory, which keep a block out of them.
 */
#include "cuda/patchable.h"
#include "preload/entry/entry.h"
#include "preload/entry/free.h"
#include "preload/entry/memory_kinds.h"
#include "preload/entry/sight.h"
#include "preload/hooks/hook.h"
#include "preload/state/process_options.h"

/* ---- managed memory ---- */

CUSHIM_PATCHABLE(cuMemAllocManaged)
CUSHIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t n_bytes, unsigned flags) {
    CUSHIM_ENTER(cuMemAllocManaged)
    struct cushim_want want = {CUSHIM_MEM_MANAGED, flags, n_bytes};
    uint64_t block;
    if (address && cushim_memory_kinds_alloc(cuda, &want, &block)) {
        *address = block;
        return CUDA_SUCCESS;
    }
    CUresult answer = cuda->cuMemAllocManaged(address, n_bytes, flags);
    if (cushim_entry_should_retry_host(answer))
        answer = cuda->cuMemAllocManaged(address, n_bytes, flags);
    if (!cushim_process_is_on() || !cushim_process_options.managed)
        return answer;
    return cushim_entry_note(cuda, CUSHIM_KIND_MANAGED, answer,
                             answer == CUDA_SUCCESS ? *address : 0, n_bytes);
}

/* ---- pinned memory ---- */

static bool serve_pinned(struct cushim_cuda *cuda, void **address, size_t n_bytes, unsigned flags) {
    struct cushim_want want = {CUSHIM_MEM_PINNED, flags, n_bytes};
    uint64_t block;
    cushim_thread.pinned_flags = (int)flags;
    if (!address || !cushim_memory_kinds_alloc(cuda, &want, &block))
        return false;
    *address = (void *)(uintptr_t)block;
    return true;
}

static CUresult note_pinned(struct cushim_cuda *cuda, CUresult answer, void **address,
                            size_t n_bytes) {
    if (!cushim_process_is_on() || !cushim_process_options.pinned)
        return answer;
    return cushim_entry_note(cuda, CUSHIM_KIND_PINNED, answer,
                             answer == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*address : 0, n_bytes);
}

/* What a hook does that allocates pinned memory; `call` is the driver's. */
#define ALLOC_PINNED(flags, call)                                                                  \
    if (serve_pinned(cuda, address, n_bytes, flags))                                               \
        return CUDA_SUCCESS;                                                                       \
    CUresult answer = call;                                                                        \
    if (cushim_entry_should_retry_host(answer))                                                    \
        answer = call;                                                                             \
    return note_pinned(cuda, answer, address, n_bytes)

CUSHIM_PATCHABLE(cuMemHostAlloc)
HOOK(cuMemHostAlloc, TAKES(void **address, size_t n_bytes, unsigned flags),
     ALLOC_PINNED(flags, REAL(address, n_bytes, flags)))

/* The same memory as from cuMemHostAlloc without flags (measured). */
CUSHIM_PATCHABLE(cuMemAllocHost_v2)
HOOK(cuMemAllocHost_v2, TAKES(void **address, size_t n_bytes),
     ALLOC_PINNED(0, REAL(address, n_bytes)))

CUSHIM_PATCHABLE(cuMemFreeHost)
HOOK(cuMemFreeHost, TAKES(void *address),
     return cushim_process_is_on() && cushim_process_options.pinned
                ? cushim_entry_free(cuda, (CUdeviceptr)(uintptr_t)address, CUSHIM_FREE_HOST)
                : REAL(address))

/* ---- hints: refused if no block is live there, as by the driver; for memory of others forwarded
 * ---- */

/* All of a batch; n is the program's. */
static bool note_hints(const CUdeviceptr *addresses, const size_t *sizes, size_t n) {
    bool is_good = true;
    for (size_t i = 0; addresses && sizes && i < n; i++)
        is_good = cushim_memory_kinds_note_hint(addresses[i], sizes[i]) && is_good;
    return is_good;
}

#define HINT(call)  REFUSE_UNLESS(cushim_memory_kinds_note_hint(address, n_bytes), call)
#define HINTS(call) REFUSE_UNLESS(note_hints(addresses, sizes, n), call)

HOOK(cuMemAdvise, TAKES(CUdeviceptr address, size_t n_bytes, CUmem_advise advice, CUdevice device),
     HINT(REAL(address, n_bytes, advice, device)))
HOOK(cuMemAdvise_v2,
     TAKES(CUdeviceptr address, size_t n_bytes, CUmem_advise advice, CUmemLocation location),
     HINT(REAL(address, n_bytes, advice, location)))

HOOKS_PTSZ(cuMemPrefetchAsync,
           TAKES(CUdeviceptr address, size_t n_bytes, CUdevice device, CUstream stream),
           HINT(REAL(address, n_bytes, device, stream)))
HOOKS_PTSZ(cuMemPrefetchAsync_v2,
           TAKES(CUdeviceptr address, size_t n_bytes, CUmemLocation location, unsigned flags,
                 CUstream stream),
           HINT(REAL(address, n_bytes, location, flags, stream)))

HOOKS_PTSZ(
    cuMemPrefetchBatchAsync,
    TAKES(CUdeviceptr *addresses, size_t *sizes, size_t n, CUmemLocation *locations,
          size_t *location_indices, size_t n_locations, unsigned long long flags, CUstream stream),
    HINTS(REAL(addresses, sizes, n, locations, location_indices, n_locations, flags, stream)))
HOOKS_PTSZ(cuMemDiscardBatchAsync,
           TAKES(CUdeviceptr *addresses, size_t *sizes, size_t n, unsigned long long flags,
                 CUstream stream),
           HINTS(REAL(addresses, sizes, n, flags, stream)))
HOOKS_PTSZ(
    cuMemDiscardAndPrefetchBatchAsync,
    TAKES(CUdeviceptr *addresses, size_t *sizes, size_t n, CUmemLocation *locations,
          size_t *location_indices, size_t n_locations, unsigned long long flags, CUstream stream),
    HINTS(REAL(addresses, sizes, n, locations, location_indices, n_locations, flags, stream)))

/* The driver takes length 0 or the whole allocation's.  The allocation is our segment, which
 * contains only this block, so 0 means the block. */
static size_t attached_bytes(CUdeviceptr address, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    bool is_whole = cushim_sight(address, n_bytes, &lookup) == CUSHIM_SIGHT_BLOCK &&
                    address == lookup.base && n_bytes == lookup.asked_bytes;
    return is_whole ? 0 : n_bytes;
}

HOOKS_PTSZ(cuStreamAttachMemAsync,
           TAKES(CUstream stream, CUdeviceptr address, size_t n_bytes, unsigned flags),
           REFUSE_UNLESS(cushim_memory_kinds_note_hint(address, 1),
                         REAL(stream, address, attached_bytes(address, n_bytes), flags)))
