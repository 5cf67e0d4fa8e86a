#include "preload/entry/free.h"

#include "base/clock.h"
#include "base/log.h"
#include "cuda/table.h"
#include "memory/free.h"
#include "memory/state/heap_state.h"
#include "preload/observe/check.h"
#include "preload/entry/entry.h"
#include "preload/entry/sight.h"
#include "preload/entry/stale_address.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/observe/watch.h"

/* Is this a free of a block of ours inside a host function?  The end of its context waits for that
 * function (C11). */
static bool is_barred(CUdeviceptr address) {
    struct cushim_mem_lookup lookup;
    return cushim_thread.host_function_depth &&
           cushim_mem_blocks_find(&cushim_process.blocks, address, &lookup);
}

/* The address is in a segment of ours, but no live block starts there.  The driver would answer
 * INVALID_VALUE (C6). */
static CUresult refuse_free(const struct cushim_mem_lookup *lookup, CUdeviceptr address) {
    struct cushim_mem_stats *stats = lookup->segment->heap->stats;
    bool is_inner = lookup->state == CUSHIM_MEM_LIVE;
    cushim_mem_stats_add(is_inner ? &stats->n_interior_frees : &stats->n_double_frees, 1);
    log_warn("free", "0x%lx is %s: refused, as by the driver", (unsigned long)address,
             is_inner ? "inside a block, not its start" : "not allocated, or freed before");
    cushim_check_refused(is_inner ? CUSHIM_MEM_HARM_INSIDE : CUSHIM_MEM_HARM_AGAIN, lookup, address,
                         0);
    return CUDA_ERROR_INVALID_VALUE;
}

/* The driver's code for an answer of the heap. */
static CUresult answer_of(enum cushim_status status, const struct cushim_mem_lookup *lookup,
                          CUdeviceptr address, CUresult answer) {
    switch (status) {
    case CUSHIM_OK:
        return CUDA_SUCCESS;
    case CUSHIM_DOUBLEFREE: {
        struct cushim_mem_lookup lost = *lookup;
        lost.state = CUSHIM_MEM_DEFERRED; /* because another thread was first */
        return refuse_free(&lost, address);
    }
    case CUSHIM_STATE: /* the context is broken, and the driver answers every call with the
                        * reason */
        answer = (CUresult)atomic_load(&lookup->segment->heap->damage);
        break;
    default:
        break;
    }
    return cushim_entry_freed(answer);
}

static bool is_live_start(const struct cushim_mem_lookup *lookup, CUdeviceptr address) {
    return lookup->state == CUSHIM_MEM_LIVE && lookup->base == address;
}

/* Reset what the driver was told about the block, before another request can get it. */
static bool hold(const struct cushim_mem_lookup *lookup, enum cushim_status *status) {
    cushim_sight_end(lookup);
    return cushim_capture_free(lookup, status);
}

static enum cushim_status release_watched(const struct cushim_mem_lookup *lookup,
                                          CUresult *answer) {
    enum cushim_status status;
    struct cushim_watched_free freed = cushim_watch_free(lookup);
    bool is_held = hold(lookup, &status);
    if (!is_held)
        cushim_contexts_await_others(freed.heap);
    if (!is_held && !cushim_check_release(lookup, &status, answer))
        status = cushim_mem_free(freed.heap, lookup, answer);
    cushim_watch_freed(&freed, status == CUSHIM_OK);
    return status;
}

/* Give a live block back, at once or with the captures of this thread. */
static enum cushim_status release(const struct cushim_mem_lookup *lookup, CUresult *answer) {
    enum cushim_status status;
    *answer = CUDA_SUCCESS;
    if (cushim_process.is_watched)
        return release_watched(lookup, answer);
    if (hold(lookup, &status))
        return status;
    cushim_contexts_await_others(lookup->segment->heap);
    return cushim_mem_free(lookup->segment->heap, lookup, answer);
}

/* Does the memory belong to this free function?  The driver refuses the memory of the other. */
static bool is_of_entry(const struct cushim_mem_lookup *lookup, enum cushim_entry_free_fn entry) {
    return (lookup->segment->heap->kind == CUSHIM_MEM_PINNED) == (entry == CUSHIM_FREE_HOST);
}

static CUresult free_ours(const struct cushim_mem_lookup *lookup, CUdeviceptr address,
                          enum cushim_entry_free_fn entry) {
    CUresult answer;
    if (!is_of_entry(lookup, entry)) {
        log_warn("free", "0x%lx is %s memory: refused, as by the driver", (unsigned long)address,
                 entry == CUSHIM_FREE_HOST ? "no pinned" : "pinned");
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!is_live_start(lookup, address))
        return refuse_free(lookup, address);
    enum cushim_status status = release(lookup, &answer);
    return answer_of(status, lookup, address, answer);
}

static CUresult call_free(struct cushim_cuda *cuda, CUdeviceptr address,
                          enum cushim_entry_free_fn entry) {
    return entry == CUSHIM_FREE_HOST ? cuda->cuMemFreeHost((void *)(uintptr_t)address)
                                     : cuda->cuMemFree_v2(address);
}

/*
 * The driver frees foreign memory, and memory that it served for us.  If the pointer may be stale,
 * the heap of this context is held meanwhile: if the context ended between that question and the
 * free, the free could hit what another thread got there.
 */
static CUresult free_by_driver(struct cushim_cuda *cuda, CUdeviceptr address,
                               enum cushim_entry_free_fn entry) {
    struct cushim_foreign foreign;
    bool may_be_stale = cushim_stale_address_may_be_freed(cuda);
    struct cushim_mem_heap *heap = may_be_stale ? cushim_contexts_hold_settled(cuda) : NULL;
    bool was_known = cushim_entry_forget(address, &foreign);
    CUresult answer;
    bool is_stale = may_be_stale && cushim_stale_address_is_freed(cuda, address, &answer);
    if (!is_stale) {
        uint64_t start_ns = cushim_clock_ns();
        answer = call_free(cuda, address, entry);
        if (was_known && answer == CUDA_SUCCESS) {
            cushim_mem_stats_add(&foreign.stats->n_native_frees, 1);
            cushim_mem_stats_add_time(foreign.stats, &foreign.stats->native_free_ns, start_ns);
        }
    } else if (was_known) { /* it went with its context */
        cushim_foreign_count_free(&foreign);
    }
    if (heap)
        cushim_contexts_let(heap);
    return cushim_entry_forgot(was_known && !is_stale, &foreign, address, answer);
}

CUresult cushim_entry_free(struct cushim_cuda *cuda, CUdeviceptr address,
                           enum cushim_entry_free_fn entry) {
    struct cushim_mem_lookup lookup;
    if (!cushim_process_is_on() || !address)
        return call_free(cuda, address, entry);
    if (is_barred(address))
        return CUDA_ERROR_NOT_PERMITTED;
    if (cushim_contexts_hold_block(address, &lookup)) {
        struct cushim_mem_heap *heap = lookup.segment->heap;
        if (!cushim_contexts_is_settled()) /* from now on a thread that only frees may take the
                                            * shortcut */
            cushim_contexts_current(cuda);
        CUresult answer = free_ours(&lookup, address, entry);
        cushim_contexts_let(heap);
        return answer;
    }
    return free_by_driver(cuda, address, entry);
}

bool cushim_entry_free_live(CUdeviceptr address, enum cushim_entry_free_fn entry) {
    struct cushim_mem_lookup lookup;
    CUresult answer;
    if (!cushim_process_is_on() || !cushim_contexts_is_settled() ||
        cushim_thread.host_function_depth || !cushim_contexts_hold_block(address, &lookup))
        return false;
    struct cushim_mem_heap *heap = lookup.segment->heap;
    bool is_freed = is_live_start(&lookup, address) && is_of_entry(&lookup, entry) &&
                    release(&lookup, &answer) == CUSHIM_OK;
    cushim_contexts_let(heap);
    return is_freed;
}

/* The heap of the block is held. */
static CUresult free_ours_on(struct cushim_cuda *cuda, const struct cushim_mem_lookup *lookup,
                             CUdeviceptr address, CUstream stream) {
    enum cushim_status status;
    CUresult answer;
    bool is_captured = cushim_capture_is_captured(cuda, stream);
    if (lookup->segment->heap->kind != CUSHIM_MEM_DEVICE) /* the driver's answers (measured) */
        return lookup->segment->heap->kind == CUSHIM_MEM_MANAGED ? CUDA_ERROR_NOT_SUPPORTED
                                                                 : CUDA_ERROR_INVALID_VALUE;
    if (is_live_start(lookup, address) && hold(lookup, &status))
        return answer_of(status, lookup, address, CUDA_SUCCESS);
    if (is_captured)
        return CUDA_ERROR_INVALID_VALUE; /* a graph frees what a graph allocated, nothing else */
    if (!is_live_start(lookup, address))
        return refuse_free(lookup, address);
    struct cushim_watched_free freed = {.heap = lookup->segment->heap};
    cushim_check_drop(lookup);
    if (cushim_process.is_watched)
        freed = cushim_watch_free(lookup);
    status = cushim_mem_free_on(freed.heap, lookup, stream, &answer);
    if (cushim_process.is_watched)
        cushim_watch_freed(&freed, status == CUSHIM_OK);
    return answer_of(status, lookup, address, answer);
}

bool cushim_entry_free_on(struct cushim_cuda *cuda, CUdeviceptr address, CUstream stream,
                          CUresult *answer) {
    struct cushim_mem_lookup lookup;
    *answer = CUDA_ERROR_NOT_PERMITTED;
    if (is_barred(address))
        return true;
    if (!cushim_contexts_hold_block(address, &lookup))
        return false;
    struct cushim_mem_heap *heap = lookup.segment->heap;
    *answer = free_ours_on(cuda, &lookup, address, stream);
    cushim_contexts_let(heap);
    return true;
}
