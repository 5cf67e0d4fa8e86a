#include "preload/entry/memory_kinds.h"

#include "base/log.h"
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
        !cushim_mem_blocks_find(&cushim_process.blocks, block->address, &lookup))
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

/* Because addresses are unified, all pinned memory is mapped and its flags say so, whether that was
 * asked for or not.
 */
static struct cushim_mem_heap *hold_heap(struct cushim_cuda *cuda, const struct cushim_want *want) {
    unsigned always = want->kind == CUSHIM_MEM_PINNED ? CU_MEMHOSTALLOC_DEVICEMAP : 0;
    return cushim_contexts_hold_kind(cuda, want->kind, want->flags | always);
}

/* Whether a block was taken from a heap is in `status`.  If so, do what is left before the program
 * gets it. */
static bool end_alloc(struct cushim_mem_heap *heap, enum cushim_status status,
                      const struct cushim_mem_block *block, size_t n_bytes) {
    if (status != CUSHIM_OK || !cushim_memory_kinds_make_zero(heap, block, n_bytes))
        return false;
    if (cushim_process.is_watched)
        cushim_watch_alloc(heap, block, n_bytes);
    return true;
}

/* Try the fast path, unless this request already did in the runtime's hook. */
static bool alloc_at_once(struct cushim_mem_heap *heap, size_t n_bytes,
                          struct cushim_mem_block *block) {
    return !cushim_thread.missed && cushim_mem_alloc_at_once(heap, n_bytes, block);
}

bool cushim_memory_kinds_alloc(struct cushim_cuda *cuda, const struct cushim_want *want,
                               uint64_t *address) {
    struct cushim_mem_block block;
    if (!want->n_bytes || !is_known(want) || !is_served(cuda, want->kind))
        return false;
    struct cushim_mem_heap *heap = hold_heap(cuda, want);
    if (!heap)
        return false;
    enum cushim_status status = CUSHIM_OK;
    if (!alloc_at_once(heap, want->n_bytes, &block))
        status = cushim_mem_alloc_after(heap, want->n_bytes, cushim_thread.missed, &block);
    if (status == CUSHIM_NOMEM && cushim_contexts_give_back_all())
        status = cushim_mem_alloc(heap, want->n_bytes, &block);
    bool is_served = end_alloc(heap, status, &block, want->n_bytes);
    cushim_contexts_let(heap);
    *address = is_served ? block.address : *address;
    return is_served;
}

bool cushim_memory_kinds_alloc_hit(struct cushim_cuda *cuda, const struct cushim_want *want,
                                   uint64_t *address, struct cushim_mem_request *request) {
    struct cushim_mem_block block;
    if (!is_known(want) || cushim_memory_kinds_is_cleared_by_device(want->kind) ||
        !cushim_contexts_is_settled() || !is_served(cuda, want->kind))
        return false;
    struct cushim_mem_heap *heap = hold_heap(cuda, want);
    if (!heap)
        return false;
    enum cushim_status status = CUSHIM_OK;
    if (!alloc_at_once(heap, want->n_bytes, &block))
        status = cushim_mem_alloc_hit(heap, want->n_bytes, request, &block);
    bool is_hit = end_alloc(heap, status, &block, want->n_bytes);
    cushim_contexts_let(heap);
    *address = is_hit ? block.address : *address;
    return is_hit;
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
