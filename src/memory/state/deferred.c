#include "memory/state/deferred.h"

#include <utlist.h>

#include "base/futex.h"
#include "cuda/current_context.h"
#include "cuda/translate.h"
#include "memory/state/heap_state.h"

enum {
    DEPTH = 8,
    LINES = 16
}; /* the number of rows with epochs, and of lines, that are looked
    * at */

static struct cushim_mem_deferred_row *make_row(struct cushim_mem_meta *meta,
                                                const struct cushim_mem_blockref *ref) {
    struct cushim_mem_deferred_row *row = cushim_mem_meta_obtain(meta, sizeof *row);
    if (!row)
        return NULL;
    *row = (struct cushim_mem_deferred_row){.ref = *ref};
    return row;
}

static void append(struct cushim_mem_deferred *deferred, struct cushim_mem_deferred_row **first,
                   struct cushim_mem_deferred_row *row) {
    DL_APPEND2(*first, row, previous, next);
    deferred->n_bytes += row->ref.extent->block_bytes;
    atomic_fetch_add_explicit(&deferred->n_rows, 1, memory_order_relaxed);
}

bool cushim_mem_deferred_add(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                             const struct cushim_mem_blockref *ref, uint64_t tag) {
    struct cushim_mem_deferred_row *row = make_row(meta, ref);
    if (!row)
        return false;
    row->tag = tag;
    append(deferred, &deferred->first, row);
    return true;
}

/* The line of a stream, which may be empty; NULL: host memory is out. */
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
                                const struct cushim_mem_blockref *ref, CUstream stream,
                                CUevent event) {
    struct cushim_mem_deferred_row *row = make_row(meta, ref);
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

CUresult cushim_mem_deferred_record(struct cushim_mem_heap *heap, CUstream stream, CUevent *event) {
    struct cushim_cuda *cuda = heap->cuda;
    CUcontext context = heap->context;
    CUresult answer = CUDA_SUCCESS;
    *event = NULL;
    bool is_special = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (is_special)
        answer = cuda->cuCtxGetCurrent(&context);
    else if (cuda->cuStreamGetCtx)
        answer = cuda->cuStreamGetCtx(stream, &context);
    if (answer != CUDA_SUCCESS)
        return answer;
    CUSHIM_ENTERED entered = cushim_current_context_enter(cuda, context, &answer);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuEventRecord(*event, stream);
    if (answer != CUDA_SUCCESS && *event)
        cuda->cuEventDestroy_v2(*event);
    return answer;
}

static void end_row(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                    struct cushim_mem_deferred_row **first, struct cushim_mem_deferred_row *row,
                    struct cushim_mem_blockref *ref) {
    DL_DELETE2(*first, row, previous, next);
    *ref = row->ref;
    deferred->n_bytes -= ref->extent->block_bytes;
    atomic_fetch_sub_explicit(&deferred->n_rows, 1, memory_order_relaxed);
    cushim_mem_meta_release(meta, row, sizeof *row);
}

bool cushim_mem_deferred_take(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                              uint64_t done, struct cushim_mem_blockref *ref) {
    struct cushim_mem_deferred_row *row = deferred->first;
    for (int depth = 0; row && depth < DEPTH; row = row->next, depth++) {
        if (row->tag > done)
            continue;
        end_row(deferred, meta, &deferred->first, row, ref);
        return true;
    }
    return false;
}

/* A line that gives a block stays the first; one that does not moves to the end. */
bool cushim_mem_deferred_take_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                 struct cushim_cuda *cuda, struct cushim_mem_blockref *ref) {
    struct cushim_mem_deferred_line *seen = NULL;
    for (int i = 0; i < LINES && deferred->lines && deferred->lines != seen; i++) {
        struct cushim_mem_deferred_line *line = deferred->lines;
        struct cushim_mem_deferred_row *row = line->first;
        bool is_taken = CUSHIM_IN_RELAXED(cuda, cuda->cuEventQuery(row->event)) == CUDA_SUCCESS;
        if (is_taken) {
            cuda->cuEventDestroy_v2(row->event);
            end_row(deferred, meta, &line->first, row, ref);
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
    enum { FAR = 256 }; /* a wait comes next, and looking at this many is cheap compared with it */
    const struct cushim_mem_deferred_row *row = deferred->first;
    for (int depth = 0; row && depth < FAR; row = row->next, depth++) {
        size_t block_bytes = row->ref.extent->block_bytes;
        if (block_bytes >= n_bytes && block_bytes / 2 <= n_bytes)
            return row->tag;
    }
    return 0;
}

/* ---- when a fence is made, and for how much ---- */

enum { DEVICE_SHARE = 2048, LOOKS = 200, WIDENING_BYTES = 128 << 10 /* with each fence */ };

size_t cushim_mem_deferred_batch_bytes(const struct cushim_mem_heap *heap) {
    if (!heap->policy->is_relaxed || heap->policy->is_sparing)
        return 0;
    size_t n_bytes = cushim_most(heap->watermark.device_bytes / DEVICE_SHARE,
                                 CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES);
    return cushim_least(n_bytes, CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES);
}

void cushim_mem_deferred_batch_begin(struct cushim_mem_heap *heap, size_t wider_bytes) {
    heap->limit_tag = cushim_mem_fence_tag(heap->fence) - wider_bytes / WIDENING_BYTES;
}

static size_t least_bytes(struct cushim_mem_heap *heap) {
    return cushim_most(cushim_mem_watermark_margin_bytes(heap),
                       CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES);
}

size_t cushim_mem_deferred_batch_limit(struct cushim_mem_heap *heap, size_t most_bytes) {
    uint64_t n_fences = cushim_mem_fence_tag(heap->fence) - heap->limit_tag;
    size_t widened_bytes = n_fences * WIDENING_BYTES;
    return widened_bytes >= most_bytes
               ? most_bytes
               : cushim_least(least_bytes(heap) + widened_bytes, most_bytes);
}

bool cushim_mem_deferred_batch_is_much(struct cushim_mem_heap *heap, size_t waiting_bytes) {
    return waiting_bytes > 2 * least_bytes(heap);
}

/* Make a fence if `tag` is not over and none is in flight, after asking about those in flight. */
static enum cushim_status fence_for(struct cushim_mem_heap *heap, uint64_t tag, CUresult *answer) {
    if (tag <= cushim_mem_fence_poll(heap->fence, answer) || *answer != CUDA_SUCCESS)
        return cushim_status_from_cu(*answer);
    return cushim_mem_fence_is_in_flight(heap->fence) ? CUSHIM_NOTREADY
                                                      : cushim_mem_fence_start(heap->fence, answer);
}

enum cushim_status cushim_mem_deferred_batch_fence(struct cushim_mem_heap *heap,
                                                   enum cushim_mem_due due, CUresult *answer) {
    return due == CUSHIM_MEM_PRESSING ? cushim_mem_fence_start(heap->fence, answer)
                                      : fence_for(heap, UINT64_MAX, answer);
}

/* Another thread records or asks, and will have an answer for all in a microsecond or two.  True if
 * one was asking. */
static bool wait_for_the_others(struct cushim_mem_fence *fence, uint64_t tag) {
    bool was_asked = false;
    for (int i = 0; i < LOOKS && tag > cushim_mem_fence_done(fence); i++) {
        bool is_asked = load_relaxed(&fence->is_polling);
        if (!is_asked && !load_relaxed(&fence->is_recording))
            break;
        was_asked = is_asked;
        cushim_futex_pause();
    }
    return was_asked;
}

bool cushim_mem_deferred_batch_prove(struct cushim_mem_heap *heap, uint64_t tag, CUresult *answer) {
    struct cushim_mem_fence *fence = heap->fence;
    *answer = CUDA_SUCCESS;
    bool was_asked = wait_for_the_others(fence, tag);
    if (tag <= cushim_mem_fence_done(fence))
        return true;
    if (was_asked && cushim_mem_fence_is_in_flight(fence))
        return false;
    fence_for(heap, tag, answer);
    return tag <= cushim_mem_fence_done(fence);
}
