#include "preload/entry/memory_kinds.h"

#include "memory/alloc.h"
#include "memory/heap.h"
#include "memory/provider/fill.h"
#include "memory/state/heap_state.h"
#include "preload/state/contexts.h"
#include "preload/entry/entry.h"
#include "preload/entry/sight.h"
#include "preload/state/process_options.h"
#include "preload/observe/watch.h"

enum { ZERO_AUTO, ZERO_OFF, ZERO_ON }; /* of the option */

/* How long an idle device may take to answer.  The driver's allocation would not wait. */
static const uint64_t patience_ns = 2000000;

enum way { NOT_CLEARED, CLEARED_BY_HOST, CLEARED_BY_DEVICE };

/*
 * The driver's own pinned and managed memory reads as zero, and programs rely on that.  Its device
 * memory does not always (docs/internals/memory-engine.md, "Exact frees").
 */
static enum way way_of(enum cushim_mem_kind kind) {
    int zero = cushim_process_options.zero;
    bool is_due = zero == ZERO_ON || (zero == ZERO_AUTO && kind != CUSHIM_MEM_DEVICE &&
                                      !cushim_process.policy.is_relaxed);
    if (!is_due)
        return NOT_CLEARED;
    return kind == CUSHIM_MEM_PINNED ? CLEARED_BY_HOST : CLEARED_BY_DEVICE;
}

bool cushim_memory_kinds_is_cleared_by_device(enum cushim_mem_kind kind) {
    return way_of(kind) == CLEARED_BY_DEVICE;
}

bool cushim_memory_kinds_make_zero(struct cushim_mem_heap *heap,
                                   const struct cushim_mem_block *block, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    enum way way = way_of(heap->kind);
    if (way == NOT_CLEARED ||
        !cushim_mem_blocks_find_live(&cushim_process.blocks, block->address, &lookup))
        return true;
    size_t due_bytes =
        cushim_mem_fill_due(lookup.segment, block->address, n_bytes, block->block_bytes);
    if (!due_bytes)
        return true;
    if (way == CLEARED_BY_HOST) {
        cushim_mem_fill_host((void *)(uintptr_t)block->address, due_bytes);
        return true;
    }
    const struct cushim_mem_fill zeros = {.address = block->address, .n_bytes = due_bytes};
    enum cushim_status status = cushim_mem_fill_device(&heap->filler, &zeros, 1, patience_ns);
    if (status != CUSHIM_OK)
        cushim_mem_alloc_undo(heap, &lookup, block->is_hit);
    return status == CUSHIM_OK;
}

static bool is_served(struct cushim_cuda *cuda, enum cushim_mem_kind kind) {
    return cushim_entry_is_open(cuda) &&
           (kind == CUSHIM_MEM_PINNED ? cushim_process_options.pinned
                                      : cushim_process_options.managed);
}

/* The driver refuses other flags. */
static bool is_known(const struct cushim_want *want) {
    const unsigned pinned =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (want->kind == CUSHIM_MEM_PINNED)
        return (want->flags & ~pinned) == 0;
    return want->flags == CU_MEM_ATTACH_GLOBAL || want->flags == CU_MEM_ATTACH_HOST;
}

/* Take a block from the heap; only a hit if `hit` is not NULL. */
static enum cushim_status take(struct cushim_mem_heap *heap, size_t n_bytes,
                               struct cushim_mem_request *hit, struct cushim_mem_block *block) {
    /* try the fast path, unless this request already did in the runtime's hook */
    if (!cushim_thread.missed && cushim_mem_alloc_at_once(heap, n_bytes, block))
        return CUSHIM_OK;
    if (hit)
        return cushim_mem_alloc_hit(heap, n_bytes, hit, block);
    enum cushim_status status = cushim_mem_alloc_after(heap, n_bytes, cushim_thread.missed, block);
    return status == CUSHIM_NOMEM && cushim_contexts_give_back_all()
               ? cushim_mem_alloc(heap, n_bytes, block)
               : status;
}

static bool alloc(struct cushim_cuda *cuda, const struct cushim_want *want, uint64_t *address,
                  struct cushim_mem_request *hit) {
    struct cushim_mem_block block;
    if (!is_known(want) || !is_served(cuda, want->kind))
        return false;
    /* because addresses are unified, all pinned memory is mapped and its flags say so, whether that
     * was asked for or not */
    unsigned always = want->kind == CUSHIM_MEM_PINNED ? CU_MEMHOSTALLOC_DEVICEMAP : 0;
    struct cushim_mem_heap *heap =
        cushim_contexts_hold_kind(cuda, want->kind, want->flags | always);
    if (!heap)
        return false;
    bool is_ready = take(heap, want->n_bytes, hit, &block) == CUSHIM_OK &&
                    cushim_memory_kinds_make_zero(heap, &block, want->n_bytes);
    if (is_ready && cushim_process.is_watched)
        cushim_watch_alloc(heap, &block, want->n_bytes);
    cushim_contexts_let(heap);
    *address = is_ready ? block.address : *address;
    return is_ready;
}

bool cushim_memory_kinds_alloc(struct cushim_cuda *cuda, const struct cushim_want *want,
                               uint64_t *address) {
    return want->n_bytes && alloc(cuda, want, address, NULL);
}

bool cushim_memory_kinds_alloc_hit(struct cushim_cuda *cuda, const struct cushim_want *want,
                                   uint64_t *address, struct cushim_mem_request *request) {
    return !cushim_memory_kinds_is_cleared_by_device(want->kind) && cushim_contexts_is_settled() &&
           alloc(cuda, want, address, request);
}

bool cushim_memory_kinds_note_hint(uint64_t address, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    enum cushim_sight sight = cushim_sight(address, n_bytes, &lookup);
    if (sight == CUSHIM_SIGHT_FOREIGN || lookup.segment->heap->kind != CUSHIM_MEM_MANAGED)
        return true;
    if (sight == CUSHIM_SIGHT_NOTHING || lookup.state != CUSHIM_MEM_LIVE)
        return false;
    cushim_mem_heap_retire_segment(lookup.segment->heap, lookup.segment);
    return true;
}
