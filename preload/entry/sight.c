#include "preload/entry/sight.h"

#include "cuda/current_context.h"
#include "cuda/table.h"
#include "memory/state/heap_state.h"

/*
 * The last block of a segment that had the attribute has lost it.  If another block got it
 * meanwhile, it may have set the attribute before this reset.
 */
static void reset_segment(struct cushim_cuda *cuda, struct cushim_mem_segment *segment) {
    CUresult answer;
    unsigned value = 0;
    bool has_entered = cushim_current_context_enter(cuda, segment->heap->context, &answer);
    cuda->cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, segment->base);
    value = 1;
    if (atomic_load(&segment->n_synchronous))
        cuda->cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, segment->base);
    if (has_entered)
        cushim_current_context_leave(cuda);
}

void cushim_sight_reset(const struct cushim_mem_lookup *lookup) {
    if (cushim_mem_block_set_synchronous(lookup, false) &&
        !atomic_load(&lookup->segment->n_synchronous))
        reset_segment(cushim_driver(), lookup->segment);
}
