#include "memory/heap/deferred.h"

#include "cuda/table.h"
#include "memory/current_context.h"

bool cushim_mem_deferred_add(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                             struct cushim_mem_segment *segment,
                             const struct cushim_mem_blockref *place, CUevent event, uint64_t tag) {
    struct cushim_mem_deferred_row *row = cushim_mem_meta_obtain(meta, sizeof *row);
    if (!row)
        return false;
    *row = (struct cushim_mem_deferred_row){.segment = segment,
                                            .place = *place,
                                            .event = event,
                                            .tag = tag,
                                            .serial = atomic_fetch_add(&pending->serial, 1) + 1};
    if (pending->last)
        pending->last->next = row;
    else
        pending->first = row;
    pending->last = row;
    pending->n_bytes += place->extent->block_bytes;
    atomic_fetch_add_explicit(&pending->n_rows, 1, memory_order_relaxed);
    return true;
}

static bool is_done(const struct cushim_mem_deferred_row *row, struct cushim_cuda *cuda,
                    struct cushim_mem_over over) {
    if (!row->event)
        return row->tag ? row->tag <= over.done : row->serial <= over.waited_serial;
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(cuda);
    CUresult answer = cuda->cuEventQuery(row->event);
    cushim_mem_mode_back(cuda, mode);
    return answer == CUDA_SUCCESS;
}

bool cushim_mem_deferred_take(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                              struct cushim_cuda *cuda, struct cushim_mem_over over,
                              struct cushim_mem_deferred_row *row) {
    enum { DEPTH = 8 }; /* streams advance independently: look past a slow one, but not for ever */
    struct cushim_mem_deferred_row *before = NULL, *at = pending->first;
    for (int depth = 0; at && depth < DEPTH; before = at, at = at->next, depth++) {
        if (!is_done(at, cuda, over))
            continue;
        if (before)
            before->next = at->next;
        else
            pending->first = at->next;
        if (!at->next)
            pending->last = before;
        *row = *at;
        pending->n_bytes -= at->place.extent->block_bytes;
        atomic_fetch_sub_explicit(&pending->n_rows, 1, memory_order_relaxed);
        cushim_mem_meta_release(meta, at, sizeof *at);
        return true;
    }
    if (at && pending->first->event) { /* the next look is at the others: streams are many */
        pending->last->next = pending->first;
        pending->first = at;
        pending->last = before;
        before->next = NULL;
    }
    return false;
}

uint64_t cushim_mem_deferred_tag_of(const struct cushim_mem_deferred *pending, size_t n_bytes) {
    enum { DEPTH = 256 }; /* a wait comes next: a look at this many is cheap beside it */
    const struct cushim_mem_deferred_row *row = pending->first;
    for (int depth = 0; row && depth < DEPTH; row = row->next, depth++) {
        size_t block_bytes = row->place.extent->block_bytes;
        if (row->tag && block_bytes >= n_bytes && block_bytes / 2 <= n_bytes)
            return row->tag;
    }
    return 0;
}
