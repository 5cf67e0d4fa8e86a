#include "preload/copy.h"

#include "base/log.h"
#include "preload/capture.h"
#include "preload/contexts.h"

struct cushim_copy_counts cushim_copy_counts;

static bool is_judged(void) {
    return cushim_engine_is_on() && cushim_engine.options.copy;
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

/* False: refuse. */
static bool judge(const struct cushim_end *end, const char *what) {
    struct cushim_mem_found found;
    enum cushim_mem_verdict verdict =
        cushim_mem_ledger_judge(&cushim_engine.ledger, end->address, end->span_bytes);
    if (verdict < CUSHIM_MEM_OVERRUN)
        return true;
    bool is_overrun = verdict == CUSHIM_MEM_OVERRUN;
    if (cushim_mem_ledger_find(&cushim_engine.ledger, end->address, &found)) {
        struct cushim_mem_stats *stats = found.segment->pool->stats;
        cushim_mem_stats_add(is_overrun ? &stats->n_overruns : &stats->n_uses_after_free, 1);
    }
    log_warn("copy", "%zu bytes %s 0x%lx %s: refused as natively", end->span_bytes, what,
             (unsigned long)end->address, is_overrun ? "leave their block" : "touch no live block");
    return false;
}

/*
 * A copy on a stream of another context than the block's: native's free of the block waits for it,
 * so from now on ours does (docs/design.md section 6).
 */
static void link_end(const struct cushim_end *end, struct cushim_mem_pool *stream_pool) {
    struct cushim_mem_found found;
    if (end->address && cushim_mem_ledger_find(&cushim_engine.ledger, end->address, &found))
        cushim_mem_fence_link(found.segment->pool->fence, stream_pool->fence);
}

static void link_contexts(struct cushim_cuda *cuda, const struct cushim_copy *copy) {
    CUcontext context = cushim_contexts_of_stream(cuda, copy->stream);
    struct cushim_mem_pool *stream_pool = context ? cushim_contexts_pool(cuda, context) : NULL;
    if (!stream_pool)
        return;
    link_end(&copy->to, stream_pool);
    link_end(&copy->from, stream_pool);
}

bool cushim_copy_begin(struct cushim_cuda *cuda, const struct cushim_copy *copy) {
    if (!cushim_engine_is_on())
        return true;
    if (is_judged() && (!judge(&copy->to, "to") || !judge(&copy->from, "from")))
        return false;
    /* judged or not: a free that did not wait for this copy would be wrong */
    if (cushim_contexts_count() && !cushim_contexts_is_only_current(cuda))
        link_contexts(cuda, copy);
    return true;
}

/* What lies at an address: asked only for the report, and never while a capture is open. */
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

CUresult cushim_copy_end(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                         CUresult answer) {
    if (answer != CUDA_SUCCESS || !is_judged())
        return answer;
    cushim_engine_note_use();
    if (!cushim_engine.options.stats[0])
        return answer;
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
    cushim_mem_stats_add(&cushim_copy_counts.n_copies[direction][memory], 1);
    cushim_mem_stats_add(&cushim_copy_counts.n_bytes[direction][memory], copy->n_bytes);
    return answer;
}
