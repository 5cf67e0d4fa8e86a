#include "memory/state/deferred.h"

#include <utlist.h>

#include "cuda/table.h"
#include "memory/current_context.h"

enum { DEPTH = 8, LINES = 16 }; /* that are looked at: rows with epochs, and lines */

static struct cushim_mem_deferred_row *make_row(struct cushim_mem_meta *meta,
                                                const struct cushim_mem_blockref *place) {
    struct cushim_mem_deferred_row *row = cushim_mem_meta_obtain(meta, sizeof *row);
    if (!row)
        return NULL;
    *row = (struct cushim_mem_deferred_row){.place = *place};
    return row;
}

static void append(struct cushim_mem_deferred *deferred, struct cushim_mem_deferred_row **first,
                   struct cushim_mem_deferred_row *row) {
    DL_APPEND2(*first, row, previous, next);
    deferred->n_bytes += row->place.extent->block_bytes;
    atomic_fetch_add_explicit(&deferred->n_rows, 1, memory_order_relaxed);
}

bool cushim_mem_deferred_add(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                             const struct cushim_mem_blockref *place, uint64_t tag) {
    struct cushim_mem_deferred_row *row = make_row(meta, place);
    if (!row)
        return false;
    row->tag = tag;
    append(deferred, &deferred->first, row);
    return true;
}

/* The line of a stream, which may be empty; NULL where host memory is out. */
static struct cushim_mem_deferred_line *find_or_add_line(struct cushim_mem_deferred *deferred,
                                                         struct cushim_mem_meta *meta,
                                                         CUstream stream) {
    struct cushim_mem_deferred_line *line = deferred->lines;
    for (int i = 0; line && i < LINES; line = line->next, i++) {
        if (line->stream == stream)
            return line;
    }
    line = cushim_mem_meta_obtain(meta, sizeof *line);
    if (line) {
        *line = (struct cushim_mem_deferred_line){.stream = stream};
        DL_APPEND2(deferred->lines, line, previous, next);
    }
    return line;
}

bool cushim_mem_deferred_add_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                const struct cushim_mem_blockref *place, CUstream stream,
                                CUevent event) {
    struct cushim_mem_deferred_row *row = make_row(meta, place);
    struct cushim_mem_deferred_line *line = row ? find_or_add_line(deferred, meta, stream) : NULL;
    if (!line) {
        if (row)
            cushim_mem_meta_release(meta, row, sizeof *row);
        return false;
    }
    row->event = event;
    append(deferred, &line->first, row);
    return true;
}

static void end_row(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                    struct cushim_mem_deferred_row **first, struct cushim_mem_deferred_row *row,
                    struct cushim_mem_blockref *place) {
    DL_DELETE2(*first, row, previous, next);
    *place = row->place;
    deferred->n_bytes -= place->extent->block_bytes;
    atomic_fetch_sub_explicit(&deferred->n_rows, 1, memory_order_relaxed);
    cushim_mem_meta_release(meta, row, sizeof *row);
}

bool cushim_mem_deferred_take(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                              uint64_t done, struct cushim_mem_blockref *place) {
    struct cushim_mem_deferred_row *row = deferred->first;
    for (int depth = 0; row && depth < DEPTH; row = row->next, depth++) {
        if (row->tag > done)
            continue;
        end_row(deferred, meta, &deferred->first, row, place);
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
bool cushim_mem_deferred_take_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                 struct cushim_cuda *cuda, struct cushim_mem_blockref *place) {
    struct cushim_mem_deferred_line *seen = NULL;
    for (int i = 0; i < LINES && deferred->lines && deferred->lines != seen; i++) {
        struct cushim_mem_deferred_line *line = deferred->lines;
        struct cushim_mem_deferred_row *row = line->first;
        bool is_taken = is_over(cuda, row->event);
        if (is_taken) {
            cuda->cuEventDestroy_v2(row->event);
            end_row(deferred, meta, &line->first, row, place);
        }
        if (is_taken && line->first)
            return true;
        DL_DELETE2(deferred->lines, line, previous, next);
        if (is_taken) {
            cushim_mem_meta_release(meta, line, sizeof *line);
            return true;
        }
        DL_APPEND2(deferred->lines, line, previous, next);
        seen = seen ? seen : line;
    }
    return false;
}

static void forget_rows(struct cushim_mem_meta *meta, struct cushim_mem_deferred_row *row) {
    while (row) {
        struct cushim_mem_deferred_row *next = row->next;
        cushim_mem_meta_release(meta, row, sizeof *row);
        row = next;
    }
}

void cushim_mem_deferred_forget(struct cushim_mem_deferred *deferred,
                                struct cushim_mem_meta *meta) {
    forget_rows(meta, deferred->first);
    while (deferred->lines) {
        struct cushim_mem_deferred_line *line = deferred->lines;
        deferred->lines = line->next;
        forget_rows(meta, line->first);
        cushim_mem_meta_release(meta, line, sizeof *line);
    }
    *deferred = (struct cushim_mem_deferred){0};
}

uint64_t cushim_mem_deferred_tag_of(const struct cushim_mem_deferred *deferred, size_t n_bytes) {
    enum { FAR = 256 }; /* a wait comes next: a look at this many is cheap beside it */
    const struct cushim_mem_deferred_row *row = deferred->first;
    for (int depth = 0; row && depth < FAR; row = row->next, depth++) {
        size_t block_bytes = row->place.extent->block_bytes;
        if (block_bytes >= n_bytes && block_bytes / 2 <= n_bytes)
            return row->tag;
    }
    return 0;
}
