#include "memory/state/deferred.h"

#include "cuda/table.h"
#include "memory/current_context.h"

enum { DEPTH = 8, LINES = 16 }; /* that are looked at: rows without events, and lines */

static struct cushim_mem_deferred_row *make_row(struct cushim_mem_deferred *pending,
                                                struct cushim_mem_meta *meta,
                                                struct cushim_mem_segment *segment,
                                                const struct cushim_mem_blockref *place) {
    struct cushim_mem_deferred_row *row = cushim_mem_meta_obtain(meta, sizeof *row);
    if (!row)
        return NULL;
    *row = (struct cushim_mem_deferred_row){
        .segment = segment,
        .place = *place,
        .serial = atomic_fetch_add(&pending->serial, 1) + 1,
    };
    return row;
}

static void append(struct cushim_mem_deferred *pending, struct cushim_mem_deferred_row **first,
                   struct cushim_mem_deferred_row **last, struct cushim_mem_deferred_row *row) {
    if (*first)
        (*last)->next = row;
    else
        *first = row;
    *last = row;
    pending->n_bytes += row->place.extent->block_bytes;
    atomic_fetch_add_explicit(&pending->n_rows, 1, memory_order_relaxed);
}

bool cushim_mem_deferred_add(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                             struct cushim_mem_segment *segment,
                             const struct cushim_mem_blockref *place, uint64_t tag) {
    struct cushim_mem_deferred_row *row = make_row(pending, meta, segment, place);
    if (!row)
        return false;
    row->tag = tag;
    append(pending, &pending->first, &pending->last, row);
    return true;
}

static void append_line(struct cushim_mem_deferred *pending,
                        struct cushim_mem_deferred_line *line) {
    line->next = NULL;
    if (pending->lines)
        pending->last_line->next = line;
    else
        pending->lines = line;
    pending->last_line = line;
}

/* The line of a stream, which may be empty; NULL where host memory is out. */
static struct cushim_mem_deferred_line *find_or_add_line(struct cushim_mem_deferred *pending,
                                                         struct cushim_mem_meta *meta,
                                                         CUstream stream) {
    struct cushim_mem_deferred_line *line = pending->lines;
    for (int i = 0; line && i < LINES; line = line->next, i++) {
        if (line->stream == stream)
            return line;
    }
    line = cushim_mem_meta_obtain(meta, sizeof *line);
    if (line) {
        *line = (struct cushim_mem_deferred_line){.stream = stream};
        append_line(pending, line);
    }
    return line;
}

bool cushim_mem_deferred_add_on(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                                struct cushim_mem_segment *segment,
                                const struct cushim_mem_blockref *place, CUstream stream,
                                CUevent event) {
    struct cushim_mem_deferred_row *row = make_row(pending, meta, segment, place);
    struct cushim_mem_deferred_line *line = row ? find_or_add_line(pending, meta, stream) : NULL;
    if (!line) {
        if (row)
            cushim_mem_meta_release(meta, row, sizeof *row);
        return false;
    }
    row->event = event;
    append(pending, &line->first, &line->last, row);
    return true;
}

/* Out of its list already. */
static void end_row(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                    struct cushim_mem_deferred_row *at, struct cushim_mem_deferred_row *row) {
    *row = *at;
    pending->n_bytes -= at->place.extent->block_bytes;
    atomic_fetch_sub_explicit(&pending->n_rows, 1, memory_order_relaxed);
    cushim_mem_meta_release(meta, at, sizeof *at);
}

static bool take_without_event(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                               struct cushim_mem_over over, struct cushim_mem_deferred_row *row) {
    struct cushim_mem_deferred_row *before = NULL, *at = pending->first;
    for (int depth = 0; at && depth < DEPTH; before = at, at = at->next, depth++) {
        if (at->tag ? at->tag > over.done : at->serial > over.waited_serial)
            continue;
        if (before)
            before->next = at->next;
        else
            pending->first = at->next;
        if (!at->next)
            pending->last = before;
        end_row(pending, meta, at, row);
        return true;
    }
    return false;
}

static bool is_over(struct cushim_cuda *cuda, CUevent event) {
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(cuda);
    CUresult answer = cuda->cuEventQuery(event);
    cushim_mem_mode_back(cuda, mode);
    return answer == CUDA_SUCCESS;
}

/* The first line stays the first while it gives; one that does not is the last from then on. */
static bool take_from_lines(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                            struct cushim_cuda *cuda, struct cushim_mem_deferred_row *row) {
    struct cushim_mem_deferred_line *seen = NULL;
    for (int i = 0; i < LINES && pending->lines && pending->lines != seen; i++) {
        struct cushim_mem_deferred_line *line = pending->lines;
        struct cushim_mem_deferred_row *at = line->first;
        bool is_taken = is_over(cuda, at->event);
        if (is_taken) {
            line->first = at->next;
            end_row(pending, meta, at, row);
        }
        if (is_taken && line->first)
            return true;
        pending->lines = line->next;
        if (is_taken) {
            cushim_mem_meta_release(meta, line, sizeof *line);
            return true;
        }
        append_line(pending, line);
        seen = seen ? seen : line;
    }
    return false;
}

bool cushim_mem_deferred_take(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                              struct cushim_cuda *cuda, struct cushim_mem_over over,
                              struct cushim_mem_deferred_row *row) {
    return take_without_event(pending, meta, over, row) ||
           take_from_lines(pending, meta, cuda, row);
}

static void forget_rows(struct cushim_mem_meta *meta, struct cushim_mem_deferred_row *row) {
    while (row) {
        struct cushim_mem_deferred_row *next = row->next;
        cushim_mem_meta_release(meta, row, sizeof *row);
        row = next;
    }
}

void cushim_mem_deferred_forget(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta) {
    forget_rows(meta, pending->first);
    while (pending->lines) {
        struct cushim_mem_deferred_line *line = pending->lines;
        pending->lines = line->next;
        forget_rows(meta, line->first);
        cushim_mem_meta_release(meta, line, sizeof *line);
    }
    *pending = (struct cushim_mem_deferred){0};
}

uint64_t cushim_mem_deferred_tag_of(const struct cushim_mem_deferred *pending, size_t n_bytes) {
    enum { FAR = 256 }; /* a wait comes next: a look at this many is cheap beside it */
    const struct cushim_mem_deferred_row *row = pending->first;
    for (int depth = 0; row && depth < FAR; row = row->next, depth++) {
        size_t block_bytes = row->place.extent->block_bytes;
        if (row->tag && block_bytes >= n_bytes && block_bytes / 2 <= n_bytes)
            return row->tag;
    }
    return 0;
}
