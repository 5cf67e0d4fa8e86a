#include "preload/observe/watch.h"

#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "memory/cache/cache.h"
#include "memory/reclaim.h"
#include "preload/observe/check.h"
#include "preload/observe/stack.h"
#include "preload/state/contexts.h"
#include "preload/state/control.h"
#include "preload/state/process_options.h"

enum { NONE, NATIVE }; /* of the option `stacks`; higher: with lines of Python */

static void tell_segment(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes,
                         bool is_there) {
    if (!cushim_tracing_is_on())
        return;
    pthread_mutex_lock(&heap->lock);
    size_t device_bytes = heap->watermark.device_bytes;
    pthread_mutex_unlock(&heap->lock);
    cushim_tracing_device(heap->stats, device_bytes, cushim_page.device_names[heap->device]);
    cushim_tracing_segment(heap->stats, heap, base, n_bytes, is_there);
}

static void tell_block(const struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                       bool is_freed) {
    if (is_freed)
        cushim_tracing_free(heap->stats, heap, lookup->base);
    else
        cushim_tracing_lives(heap->stats, heap, lookup->base, lookup->asked_bytes, NULL,
                             cushim_clock_ns());
}

void cushim_watch_alloc(const struct cushim_mem_heap *heap, const struct cushim_mem_block *block,
                        size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    if (cushim_tracing_is_on() &&
        cushim_mem_blocks_find_live(&cushim_process.blocks, block->address, &lookup) &&
        cushim_mem_block_record(&lookup))
        cushim_tracing_alloc(heap->stats, heap, block->address, n_bytes, block->is_hit);
    cushim_sites_alloc(heap, block->address, n_bytes, cushim_mem_heap_is_spilled(heap));
}

static void set_watched(void) {
    bool is_watched = cushim_check_is_on() || cushim_tracing_is_on() || cushim_sites_are_on();
    atomic_store(&cushim_process.is_watched, is_watched);
    if (is_watched)
        atomic_store(&cushim_control.is_looked_at, true);
}

static int begin_recording(const char *folder, bool is_late) {
    const struct cushim_options *options = &cushim_process_options;
    return cushim_tracing_begin(&(struct cushim_tracing_wish){
        .folder = folder,
        .max_bytes = options->trace_max,
        .run = cushim_page.head.run,
        .has_stacks = options->stacks != NONE,
        .is_relaxed = cushim_process.policy.is_relaxed,
        .stats = &cushim_page.stats[0][0],
        .is_late = is_late,
    });
}

void cushim_watch_begin(void) {
    const struct cushim_options *options = &cushim_process_options;
    bool is_recorded = options->cushim && *options->trace;
    cushim_sites_begin(&cushim_page.head, &cushim_process.blocks);
    cushim_process.policy.is_sampled = cushim_sites_are_on();
    if (cushim_check_is_on() || cushim_sites_are_on() || (is_recorded && options->stacks))
        cushim_stack_begin(!is_recorded || options->stacks != NATIVE);
    if (is_recorded)
        begin_recording(options->trace, false);
    cushim_process.policy.segment_moved = tell_segment;
    cushim_process.policy.block_moved = tell_block;
    set_watched();
}

/* ---- while the process runs ---- */

int cushim_watch_record(const char *folder) {
    int stacks = cushim_process_options.stacks;
    if (cushim_tracing_is_on())
        return EBUSY;
    if (stacks != NONE)
        cushim_stack_begin(stacks != NATIVE);
    int error = begin_recording(folder, true);
    set_watched();
    return error;
}

static void see(const struct cushim_mem_segment *segment, struct cushim_mem_block_meta *meta,
                uint64_t base) {
    const struct cushim_mem_heap *heap = segment->heap;
    struct cushim_backtrace stack;
    uint64_t now_ns = cushim_clock_ns(); /* before other threads see the bit */
    if (!meta) {
        cushim_tracing_device(heap->stats, heap->watermark.device_bytes,
                              cushim_page.device_names[heap->device]);
        cushim_tracing_segment(heap->stats, heap, base, segment->n_bytes, true);
    } else if (cushim_mem_block_set_recorded(meta, true)) {
        cushim_tracing_lives(heap->stats, heap, base, atomic_load(&meta->asked_bytes),
                             cushim_sites_stack(base, &stack) ? &stack : NULL, now_ns);
    }
}

/* A thread that entered a fast path before it was closed finds no block in its cache. */
static void tell_heap(struct cushim_mem_heap *heap) {
    cushim_mem_cache_drain_all(heap);
    cushim_mem_census_each(heap, see);
}

void cushim_watch_tell_start(void) {
    cushim_contexts_each(tell_heap);
}

static void forget(const struct cushim_mem_segment *segment, struct cushim_mem_block_meta *meta,
                   uint64_t base) {
    (void)segment, (void)base;
    if (meta)
        cushim_mem_block_set_recorded(meta, false);
}

static void forget_heap(struct cushim_mem_heap *heap) {
    cushim_mem_census_each(heap, forget);
}

void cushim_watch_stop(void) {
    cushim_tracing_stop();
    set_watched();
    cushim_contexts_each(forget_heap);
}

void cushim_watch_in_child(bool is_fresh) {
    cushim_stack_in_child();
    cushim_sites_in_child(is_fresh);
    cushim_tracing_in_child(is_fresh);
    set_watched();
}

void cushim_watch_gone(const struct cushim_mem_heap *heap) {
    cushim_tracing_gone(heap->stats, heap);
    cushim_sites_gone(heap);
}
