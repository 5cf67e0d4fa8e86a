#include "preload/entry/copy_check.h"

#include "base/clock.h"
#include "base/log.h"
#include "cuda/table.h"
#include "memory/state/heap_state.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/observe/check.h"
#include "preload/state/host_effect.h"
#include "preload/entry/mapped.h"
#include "preload/entry/stale_address.h"
#include "preload/state/process_options.h"
#include "preload/observe/tracing.h"

static inline bool is_judged(void) {
    return cushim_process_is_on() && cushim_process_options.copy;
}

size_t cushim_copy_span(size_t width_bytes, size_t height, size_t depth, size_t row_bytes,
                        size_t slice_bytes) {
    size_t rows, slices, span;
    if (!width_bytes || !height || !depth)
        return 0;
    if (__builtin_mul_overflow(height - 1, row_bytes, &rows) ||
        __builtin_mul_overflow(depth - 1, slice_bytes, &slices) ||
        __builtin_add_overflow(rows, slices, &span) ||
        __builtin_add_overflow(span, width_bytes, &span))
        return SIZE_MAX;
    return span;
}

/*
 * Most ends are foreign, and for those a look into the page map is enough.
 */
static inline bool may_be_ours(const struct cushim_end *end) {
    return cushim_mem_pagemap_find(&cushim_process.blocks.map, end->address);
}

static bool look(const struct cushim_end *end, struct cushim_mem_lookup *lookup) {
    return may_be_ours(end) && cushim_mem_blocks_find(&cushim_process.blocks, end->address, lookup);
}

/* False: refuse. */
static bool judge(const struct cushim_end *end, const struct cushim_mem_lookup *lookup,
                  const char *what) {
    enum cushim_mem_verdict verdict =
        cushim_mem_blocks_judge(lookup, end->address, end->span_bytes);
    struct cushim_mem_lookup settled;
    if (verdict < CUSHIM_MEM_OVERRUN || !cushim_contexts_find_block(end->address, false, &settled))
        return true;
    bool is_overrun = verdict == CUSHIM_MEM_OVERRUN;
    struct cushim_mem_stats *stats = lookup->segment->heap->stats;
    cushim_mem_stats_add(is_overrun ? &stats->n_overruns : &stats->n_uses_after_free, 1);
    log_warn("copy", "a copy or set %s 0x%lx of size %zu %s: refused, as by the driver", what,
             (unsigned long)end->address, end->span_bytes,
             is_overrun ? "leaves its block" : "touches no live block");
    cushim_check_refused(is_overrun ? CUSHIM_MEM_HARM_EXCEEDED : CUSHIM_MEM_HARM_TOUCHED, lookup,
                         end->address, end->span_bytes);
    return false;
}

/* Paths that few copies take are functions of their own, so that the others save no registers for
 * them. */
#define APART static __attribute__((noinline))

/* For an end where a segment of ours may have been; false: refuse. */
APART bool judge_stale(const struct cushim_end *end, const char *what) {
    if (!end->span_bytes || !cushim_stale_address_is(end->address))
        return true;
    struct cushim_mem_stats *stats = cushim_process_stats(cushim_driver(), CUSHIM_KIND_DEVICE);
    cushim_mem_stats_add(&stats->n_uses_after_free, 1);
    log_warn("copy",
             "a copy or set %s 0x%lx of size %zu, whose context went: refused, as by the driver",
             what, (unsigned long)end->address, end->span_bytes);
    cushim_check_refused(CUSHIM_MEM_HARM_TOUCHED, NULL, end->address, end->span_bytes);
    return false;
}

/* Memory that the driver still has mapped, though the program unmapped it; false: refuse. */
APART bool judge_unmapped(const struct cushim_end *end, const char *what) {
    if (!end->span_bytes || !cushim_mapped_is_unmapped(end->address))
        return true;
    log_warn("copy",
             "a copy or set %s 0x%lx of size %zu, which was unmapped: refused, as the driver "
             "would",
             what, (unsigned long)end->address, end->span_bytes);
    return false;
}

static inline bool judge_foreign(const struct cushim_end *end, const char *what) {
    return !cushim_stale_address_matters() ||
           ((!cushim_stale_address_may_be(end->address) || judge_stale(end, what)) &&
            judge_unmapped(end, what));
}

APART bool is_admitted_ours(const struct cushim_end *end, const char *what) {
    struct cushim_mem_lookup lookup;
    return cushim_mem_blocks_find(&cushim_process.blocks, end->address, &lookup)
               ? judge(end, &lookup, what)
               : judge_foreign(end, what);
}

static inline bool is_admitted(const struct cushim_end *end, const char *what) {
    return may_be_ours(end) ? is_admitted_ours(end, what) : judge_foreign(end, what);
}

bool cushim_copy_begin(const struct cushim_copy *copy) {
    if (!is_judged() || (!cushim_contexts_count() && !cushim_stale_address_matters()))
        return true; /* nothing is ours, and nothing was */
    return is_admitted(&copy->to, "to") && is_admitted(&copy->from, "from");
}

bool cushim_copy_admits(const struct cushim_copy *copy) {
    struct cushim_mem_lookup lookup;
    return !is_judged() || ((!look(&copy->to, &lookup) || judge(&copy->to, &lookup, "to")) &&
                            (!look(&copy->from, &lookup) || judge(&copy->from, &lookup, "from")));
}

/* Asks the driver what lies at an address; only for the report, and never while a capture is
 * open. */
static bool is_device(struct cushim_cuda *cuda, uint64_t address, bool *is_known) {
    unsigned type = 0;
    *is_known = cuda->cuPointerGetAttribute &&
                cuda->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
                    CUDA_SUCCESS;
    return *is_known && type != CU_MEMORYTYPE_HOST;
}

static enum cushim_host_memory host_memory(struct cushim_cuda *cuda, uint64_t address) {
    bool is_known;
    is_device(cuda, address, &is_known);
    return is_known ? CUSHIM_HOST_PINNED : CUSHIM_HOST_PAGEABLE;
}

static enum cushim_direction direction_of(struct cushim_cuda *cuda,
                                          const struct cushim_copy *copy) {
    bool is_known;
    bool is_to_device = !copy->to.address || is_device(cuda, copy->to.address, &is_known);
    bool is_from_device = !copy->from.address || is_device(cuda, copy->from.address, &is_known);
    if (is_to_device)
        return is_from_device ? CUSHIM_DEVICE_TO_DEVICE : CUSHIM_HOST_TO_DEVICE;
    return is_from_device ? CUSHIM_DEVICE_TO_HOST : CUSHIM_HOST_TO_HOST;
}

/* Is the end in device memory of ours, or an array?  If not, it may be in host memory. */
static bool is_hidden(const struct cushim_end *end, const struct cushim_mem_lookup *lookup) {
    return !end->address || (lookup && lookup->segment->heap->kind == CUSHIM_MEM_DEVICE);
}

/*
 * The fence of the stream's context has noted the copy.  If an end belongs to another context, its
 * fence notes it too, because a free of device memory waits for copies of other contexts, and a
 * free of host memory does not.
 */
static void note_end(const struct cushim_mem_lookup *lookup, const struct cushim_mem_fence *noted) {
    struct cushim_mem_heap *heap = lookup ? lookup->segment->heap : NULL;
    if (heap && heap->kind == CUSHIM_MEM_DEVICE && heap->fence != noted)
        cushim_mem_fence_note_effect(heap->fence);
}

/* Note what the host can see (C9).  Sets return early as well, but have only one end. */
APART void note_effect(struct cushim_cuda *cuda, const struct cushim_copy *copy) {
    struct cushim_mem_lookup at_to, at_from;
    bool has_host_end =
        copy->direction == CUSHIM_HOST_TO_DEVICE || copy->direction == CUSHIM_DEVICE_TO_HOST;
    if (has_host_end && cushim_host_effect_note_sole())
        return;
    const struct cushim_mem_lookup *to = look(&copy->to, &at_to) ? &at_to : NULL;
    const struct cushim_mem_lookup *from = look(&copy->from, &at_from) ? &at_from : NULL;
    if (is_hidden(&copy->to, to) && is_hidden(&copy->from, from))
        return;
    const struct cushim_mem_fence *noted = cushim_host_effect_note(cuda, copy->stream);
    note_end(to, noted);
    note_end(from, noted);
}

/* Put it into the recording, if there is one. */
static void trace_large(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                        enum cushim_copy_path path, bool is_to_device, uint64_t ns) {
    static const char *const words[] = {
#define REASON(name, word, text) #word,
        CUSHIM_COPY_REASONS(REASON)
#undef REASON
    };
    if (cushim_tracing_is_on())
        cushim_tracing_copy(
            cushim_process_stats(cuda, CUSHIM_KIND_DEVICE),
            &(struct cushim_traced_copy){.n_bytes = copy->n_bytes,
                                         .ns = ns,
                                         .is_to_host = !is_to_device,
                                         .is_by_driver = path == CUSHIM_COPY_BY_DRIVER,
                                         .left_for = copy->is_left ? words[copy->left_for] : NULL});
}

void cushim_copy_count_large(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                             enum cushim_copy_path path, bool is_to_device, uint64_t ns) {
    trace_large(cuda, copy, path, is_to_device, ns);
    cushim_mem_stats_add(&cushim_page.copies.large[path][!is_to_device].n_copies, 1);
    cushim_mem_stats_add(&cushim_page.copies.large[path][!is_to_device].n_bytes, copy->n_bytes);
    cushim_mem_stats_add(&cushim_page.copies.large[path][!is_to_device].ns, ns);
}

/* Count a copy that was queued or done. */
APART void count(struct cushim_cuda *cuda, const struct cushim_copy *copy) {
    enum cushim_direction direction = copy->direction;
    enum cushim_host_memory memory = CUSHIM_HOST_NONE;
    if (!cushim_capture_is_open()) {
        if (direction == CUSHIM_BY_ADDRESS)
            direction = direction_of(cuda, copy);
        if (direction == CUSHIM_HOST_TO_DEVICE)
            memory = host_memory(cuda, copy->from.address);
        else if (direction == CUSHIM_DEVICE_TO_HOST)
            memory = host_memory(cuda, copy->to.address);
    }
    if (cushim_process_options.stats[0]) {
        cushim_mem_stats_add(&cushim_page.copies.n_copies[direction][memory], 1);
        cushim_mem_stats_add(&cushim_page.copies.n_bytes[direction][memory], copy->n_bytes);
    }
    uint64_t ns = copy->start_ns ? cushim_clock_ns() - copy->start_ns : 0;
    if (copy->start_ns && memory == CUSHIM_HOST_PAGEABLE)
        cushim_copy_count_large(cuda, copy, CUSHIM_COPY_BY_DRIVER,
                                direction == CUSHIM_HOST_TO_DEVICE, ns);
    else if (copy->is_left)
        trace_large(cuda, copy, CUSHIM_COPY_BY_DRIVER, direction != CUSHIM_DEVICE_TO_HOST, ns);
}

/* This copy is the first of those that nobody counts.  The next ones need not come here. */
APART void admit_plain(void) {
    size_t n_bytes = cushim_process_options.stats[0] ? 0 : cushim_process.large_copy_bytes;
    if (!cushim_process.policy.is_relaxed) /* if relaxed, a free waits for them */
        atomic_store_explicit(&cushim_process.plain_async_bytes, n_bytes, memory_order_relaxed);
    atomic_store_explicit(&cushim_process.plain_copy_bytes, n_bytes, memory_order_relaxed);
}

static void note_use(struct cushim_cuda *cuda, const struct cushim_copy *copy) {
    cushim_process_note_use();
    if (cushim_process_options.stats[0] || copy->start_ns || copy->is_left)
        count(cuda, copy);
    else if (!atomic_load_explicit(&cushim_process.plain_copy_bytes, memory_order_relaxed))
        admit_plain();
}

CUresult cushim_copy_end(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                         CUresult answer) {
    bool may_be_under_way = copy->is_async || copy->direction == CUSHIM_SET;
    if (answer != CUDA_SUCCESS)
        return answer;
    if (may_be_under_way && cushim_host_effect_matters())
        note_effect(cuda, copy);
    if (is_judged())
        note_use(cuda, copy);
    return may_be_under_way ? answer : cushim_copy_end_synchronous(answer);
}
