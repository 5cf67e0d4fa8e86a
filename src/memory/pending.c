#include "memory/pending.h"

#include "memory/current.h"

bool cushim_mem_pending_add(struct cushim_mem_pending *pending, struct cushim_mem_meta *meta,
                            struct cushim_mem_segment *segment,
                            const struct cushim_mem_place *place, CUevent event) {
    struct cushim_mem_pending_row *row = cushim_mem_meta_obtain(meta, sizeof *row);
    if (!row)
        return false;
    *row = (struct cushim_mem_pending_row){.segment = segment,
                                           .place = *place,
                                           .event = event,
                                           .serial = atomic_fetch_add(&pending->serial, 1) + 1};
    if (pending->last)
        pending->last->next = row;
    else
        pending->first = row;
    pending->last = row;
    return true;
}

static bool is_done(const struct cushim_mem_pending_row *row, struct cushim_cuda *cuda,
                    uint64_t waited_serial) {
    if (!row->event)
        return row->serial <= waited_serial;
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(cuda);
    CUresult answer = cuda->cuEventQuery(row->event);
    cushim_mem_mode_back(cuda, mode);
    return answer == CUDA_SUCCESS;
}

bool cushim_mem_pending_take(struct cushim_mem_pending *pending, struct cushim_mem_meta *meta,
                             struct cushim_cuda *cuda, uint64_t waited_serial,
                             struct cushim_mem_pending_row *row) {
    enum { DEPTH = 8 }; /* streams advance independently: look past a slow one, but not for ever */
    struct cushim_mem_pending_row *before = NULL, *at = pending->first;
    for (int depth = 0; at && depth < DEPTH; before = at, at = at->next, depth++) {
        if (!is_done(at, cuda, waited_serial))
            continue;
        if (before)
            before->next = at->next;
        else
            pending->first = at->next;
        if (!at->next)
            pending->last = before;
        *row = *at;
        cushim_mem_meta_release(meta, at, sizeof *at);
        return true;
    }
    return false;
}
