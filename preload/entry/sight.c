#include "preload/entry/sight.h"

#include "base/log.h"
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

CUresult cushim_sight_refuse_handle(uint64_t address, const char *why) {
    cushim_mem_stats_add(&cushim_page.n_refused_handles, 1);
    log_error("ipc", "no handle for 0x%lx, whose block %s", (unsigned long)address, why);
    return CUDA_ERROR_INVALID_VALUE;
}

void cushim_sight_reset(const struct cushim_mem_lookup *lookup) {
    if (cushim_mem_block_set_synchronous(lookup, false) &&
        !atomic_load(&lookup->segment->n_synchronous))
        reset_segment(cushim_driver(), lookup->segment);
}
