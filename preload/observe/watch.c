#include "preload/observe/watch.h"

#include <pthread.h>

#include "preload/observe/check.h"
#include "preload/observe/stack.h"
#include "preload/state/process_options.h"

static void tell_segment(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes,
                         bool is_there) {
    pthread_mutex_lock(&heap->lock);
    size_t device_bytes = heap->watermark.device_bytes;
    pthread_mutex_unlock(&heap->lock);
    cushim_tracing_device(heap->stats, device_bytes, cushim_page.device_names[heap->device]);
    cushim_tracing_segment(heap->stats, heap, base, n_bytes, is_there);
}

void cushim_watch_begin(void) {
    const struct cushim_options *options = &cushim_process_options;
    enum { NONE, NATIVE }; /* of the option; higher: with lines of Python */
    bool is_recorded = options->cushim && *options->trace;
    cushim_sites_begin(&cushim_page.head, &cushim_process.blocks);
    cushim_process.policy.is_sampled = cushim_sites_are_on();
    if (cushim_check_is_on() || cushim_sites_are_on() || (is_recorded && options->stacks))
        cushim_stack_begin(!is_recorded || options->stacks != NATIVE);
    if (is_recorded) {
        cushim_tracing_begin(&(struct cushim_tracing_wish){
            .folder = options->trace,
            .max_bytes = options->trace_max,
            .run = cushim_page.head.run,
            .has_stacks = options->stacks != NONE,
            .is_relaxed = cushim_process.policy.is_relaxed,
            .stats = &cushim_page.stats[0][0],
        });
        cushim_process.policy.segment_moved = tell_segment;
    }
    cushim_process.is_watched =
        cushim_check_is_on() || cushim_tracing_is_on() || cushim_sites_are_on();
}

void cushim_watch_in_child(bool is_fresh) {
    cushim_stack_in_child();
    cushim_sites_in_child(is_fresh);
    cushim_tracing_in_child(is_fresh);
}

void cushim_watch_gone(const struct cushim_mem_heap *heap) {
    cushim_tracing_gone(heap->stats, heap);
    cushim_sites_gone(heap);
}
