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

/* What a hook does that allocates memory of a kind, which `option` lets heaps serve; `call` is the
 * driver's. */
#define ALLOC(kind, option, flags, call)                                                           \
    const struct cushim_want want = {CUSHIM_MEM_##kind, flags, n_bytes};                           \
    uint64_t block;                                                                                \
    if (address && cushim_memory_kinds_alloc(cuda, &want, &block)) {                               \
        *address = (__typeof__(*address))(uintptr_t)block;                                         \
        return CUDA_SUCCESS;                                                                       \
    }                                                                                              \
    CUresult answer = call;                                                                        \
    if (cushim_entry_should_retry_host(answer))                                                    \
        answer = call;                                                                             \
    if (!cushim_process_is_on() || !cushim_process_options.option)                                 \
        return answer;                                                                             \
    return cushim_entry_note(cuda, CUSHIM_KIND_##kind, answer,                                     \
                             answer == CUDA_SUCCESS ? (uintptr_t)*address : 0, n_bytes)

CUSHIM_PATCHABLE(cuMemAllocManaged)
HOOK(cuMemAllocManaged, TAKES(CUdeviceptr *address, size_t n_bytes, unsigned flags),
     ALLOC(MANAGED, managed, flags, REAL(address, n_bytes, flags)))

CUSHIM_PATCHABLE(cuMemHostAlloc)
HOOK(cuMemHostAlloc, TAKES(void **address, size_t n_bytes, unsigned flags),
     cushim_thread.pinned_flags = (int)flags;
     ALLOC(PINNED, pinned, flags, REAL(address, n_bytes, flags)))

/* The same memory as from cuMemHostAlloc without flags (measured). */
CUSHIM_PATCHABLE(cuMemAllocHost_v2)
HOOK(cuMemAllocHost_v2, TAKES(void **address, size_t n_bytes), cushim_thread.pinned_flags = 0;
     ALLOC(PINNED, pinned, 0, REAL(address, n_bytes)))

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
