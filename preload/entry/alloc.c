#include "preload/entry/alloc.h"

#include "base/clock.h"
#include "base/log.h"
#include "cuda/table.h"
#include "memory/alloc.h"
#include "memory/state/heap_state.h"
#include "preload/observe/check.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/entry/memory_kinds.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"
#include "preload/observe/shortage.h"
#include "preload/state/spill.h"
#include "preload/observe/watch.h"

/* May the heap serve this thread's device memory now? */
static bool is_served(struct cushim_cuda *cuda) {
    return cushim_entry_is_open(cuda) && cushim_process_options.pool;
}

/* Why the heap did not serve a request; only for the log. */
static const char *why_not_served(struct cushim_cuda *cuda) {
    CUcontext context = NULL;
    if (!cushim_process_options.pool)
        return "CUSHIM_POOL is off";
    if (cushim_thread.host_function_depth)
        return "inside a host function";
    if (cushim_capture_is_open() && cushim_capture_is_own(cuda))
        return "inside the thread's own stream capture";
    if (cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return "no context is current";
    return "the pool had nothing for it";
}

/* What the program gets of a block that a heap served; false: nothing, and the block went back. */
static bool make_ready(struct cushim_mem_heap *heap, struct cushim_mem_block *block,
                       size_t n_bytes) {
    if (cushim_process.is_watched && cushim_check_obtained(heap, block, n_bytes) != CUSHIM_OK)
        return false;
    if (!cushim_memory_kinds_make_zero(heap, block, n_bytes))
        return false;
    if (cushim_process.is_watched)
        cushim_watch_alloc(heap, block, n_bytes);
    return true;
}

bool cushim_entry_spill(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes) {
    struct cushim_mem_block block;
    if (!cushim_spill_bytes() || !cushim_entry_is_open(cuda))
        return false;
    struct cushim_mem_heap *heap = cushim_contexts_hold_kind(cuda, CUSHIM_MEM_DEVICE, 0);
    if (!heap)
        return false;
    bool is_ready =
        cushim_mem_alloc(heap, n_bytes, &block) == CUSHIM_OK && make_ready(heap, &block, n_bytes);
    cushim_contexts_let(heap);
    if (!is_ready)
        return false;
    cushim_device_limit_settle();
    *address = block.address;
    return true;
}

static CUresult alloc_by_driver(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes) {
    if (!cushim_process_is_on())
        return cuda->cuMemAlloc_v2(address, n_bytes);
    bool is_asking = address && n_bytes;
    uint64_t start_ns = cushim_clock_ns();
    bool may_ask = !is_asking || cushim_device_limit_admits(cuda, n_bytes);
    CUresult answer = may_ask ? cuda->cuMemAlloc_v2(address, n_bytes) : CUDA_ERROR_OUT_OF_MEMORY;
    if (answer == CUDA_ERROR_OUT_OF_MEMORY && is_asking &&
        cushim_entry_spill(cuda, address, n_bytes))
        return CUDA_SUCCESS;
    if (!may_ask)
        return cushim_entry_note(cuda, CUSHIM_KIND_DEVICE, answer, 0, n_bytes);
    log_debug("request", "%s of size %zu went to the driver: %s",
              cushim_cuda_symbol_name(cushim_thread.symbol), n_bytes, why_not_served(cuda));
    if (answer == CUDA_SUCCESS) {
        struct cushim_mem_stats *stats = cushim_process_stats(cuda, CUSHIM_KIND_DEVICE);
        cushim_mem_stats_add(&stats->n_native_allocs, 1);
        cushim_mem_stats_add_time(stats, &stats->native_alloc_ns, start_ns);
    }
    return cushim_entry_note(cuda, CUSHIM_KIND_DEVICE, answer, address ? *address : 0, n_bytes);
}

/* Did this request already try the fast path, in this hook or in the runtime's? */
static inline bool has_tried(const struct cushim_mem_heap *heap, size_t n_bytes) {
    bool is_open = cushim_thread.fast_epoch == cushim_guard_now();
    return cushim_thread.missed || (is_open && n_bytes - 1 < heap->quick_bytes);
}

static inline bool alloc_at_once(struct cushim_mem_heap *heap, size_t n_bytes,
                                 struct cushim_mem_block *block) {
    return n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES && !has_tried(heap, n_bytes) &&
           cushim_mem_alloc_at_once(heap, n_bytes, block);
}

CUresult cushim_entry_alloc(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes) {
    struct cushim_mem_block block;
    if (!address || !n_bytes || !is_served(cuda))
        return alloc_by_driver(cuda, address, n_bytes);
    struct cushim_mem_heap *heap = cushim_contexts_hold_current(cuda);
    if (!heap)
        return alloc_by_driver(cuda, address, n_bytes);
    const struct cushim_mem_stats *stats = heap->stats;
    enum cushim_status status = CUSHIM_OK;
    if (!alloc_at_once(heap, n_bytes, &block))
        status = cushim_mem_alloc_after(heap, n_bytes, cushim_thread.missed, &block);
    bool is_ready = status == CUSHIM_OK && make_ready(heap, &block, n_bytes);
    cushim_contexts_let(heap);
    /* now, because the driver's own call would break the captures of other threads */
    if (status == CUSHIM_NOMEM && cushim_entry_spill(cuda, address, n_bytes))
        return CUDA_SUCCESS;
    if (!is_ready)
        return alloc_by_driver(cuda, address, n_bytes);
    *address = block.address;
    cushim_shortage_served(stats, n_bytes);
    return CUDA_SUCCESS;
}

bool cushim_entry_alloc_hit(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes,
                            struct cushim_mem_request *request) {
    struct cushim_mem_block block;
    if (!cushim_contexts_is_settled() || !is_served(cuda) ||
        cushim_memory_kinds_is_cleared_by_device(CUSHIM_MEM_DEVICE) || cushim_check_is_on())
        return false;
    struct cushim_mem_heap *heap = cushim_contexts_hold_current(cuda);
    if (!heap)
        return false;
    bool is_hit = alloc_at_once(heap, n_bytes, &block) ||
                  cushim_mem_alloc_hit(heap, n_bytes, request, &block) == CUSHIM_OK;
    if (is_hit && cushim_process.is_watched)
        cushim_watch_alloc(heap, &block, n_bytes);
    cushim_contexts_let(heap);
    *address = is_hit ? block.address : *address;
    return is_hit;
}
