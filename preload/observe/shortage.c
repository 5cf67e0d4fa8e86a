#include "preload/observe/shortage.h"

#include <errno.h>
#include <unistd.h>

#include "base/backtrace.h"
#include "base/clock.h"
#include "memory/cache/cache.h"
#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "preload/state/live.h"
#include "preload/state/process.h"
#include "preload/state/process_options.h"
#include "preload/observe/stack.h"
#include "preload/observe/tracing.h"
#include "report/page_ring.h"
#include "report/shortage.h"

enum { OFF, LINE }; /* of the option; higher values: everything */
enum { MOST_TOLD = 4 };

static void describe_stack(struct cushim_page_shortage *shortage) {
    enum { MOST = sizeof shortage->frames / sizeof *shortage->frames };
    struct cushim_backtrace stack;
    cushim_backtrace_take(&stack);
    shortage->n_frames = cushim_stack_describe(&stack, shortage->frames, MOST);
}

/* The sizes with the most bytes, the largest sum first. */
static void describe_blocks(const struct cushim_mem_census *census,
                            struct cushim_page_shortage *shortage) {
    enum { MOST = sizeof shortage->blocks / sizeof *shortage->blocks };
    for (unsigned i = 0; i < census->n_sizes; i++) {
        uint64_t n = census->sizes[i].n, n_bytes = census->sizes[i].block_bytes;
        int at = MOST;
        while (at && n * n_bytes > shortage->blocks[at - 1].n * shortage->blocks[at - 1].n_bytes)
            at--;
        for (int k = MOST - 1; k > at; k--)
            shortage->blocks[k] = shortage->blocks[k - 1];
        if (at < MOST) {
            shortage->blocks[at].n = n;
            shortage->blocks[at].n_bytes = n_bytes;
        }
    }
}

static void describe_held(const struct cushim_mem_heap *heap,
                          struct cushim_page_shortage *shortage) {
    struct cushim_mem_stats sum;
    cushim_mem_cache_sum(heap->stats, &sum);
    struct cushim_report_held held = cushim_report_held(&sum);
    shortage->live_bytes = held.live_bytes;
    shortage->rounding_bytes = held.rounding_bytes;
    shortage->spare_bytes = held.spare_bytes;
    shortage->idle_bytes = held.idle_bytes;
    shortage->held_bytes = held.held_bytes;
}

static void tell(const struct cushim_page_shortage *shortage) {
    static atomic_uint n_told;
    int form = cushim_process_options.oom;
    if (form == OFF)
        return;
    unsigned number = atomic_fetch_add(&n_told, 1) + 1;
    if (number > MOST_TOLD)
        return;
    struct cushim_writer out = {.fd = STDERR_FILENO};
    cushim_write(&out, "cushim: ");
    if (form == LINE)
        cushim_shortage_line(&out, number, shortage);
    else
        cushim_shortage_text(&out, number, shortage, NULL);
    if (number == MOST_TOLD)
        cushim_write(&out, "cushim: the report has the last %d; no more is said here\n",
                     CUSHIM_PAGE_SHORTAGES);
    cushim_writer_flush(&out);
}

void cushim_shortage_note(struct cushim_mem_heap *heap, const struct cushim_mem_reclaim *tried,
                          const struct cushim_mem_census *census, size_t n_bytes) {
    int saved_errno = errno;
    struct cushim_page_shortage shortage = {.ns = cushim_clock_ns(),
                                            .device = (uint64_t)heap->device,
                                            .kind = (uint64_t)heap->kind,
                                            .asked_bytes = n_bytes,
                                            .device_bytes = census->device_bytes,
                                            .pending_bytes = census->pending_bytes,
                                            .cached_bytes = census->cached_bytes,
                                            .retired_bytes = census->retired_bytes,
                                            .largest_free_bytes = census->largest_free_bytes,
                                            .is_busy = tried->is_busy,
                                            .drained_bytes = tried->drained_bytes,
                                            .returned_bytes = tried->returned_bytes,
                                            .others_bytes = tried->others_bytes};
    if (heap->policy->budgets) /* because the census saw a device that is no larger than the
                                * limit */
        shortage.limit_bytes = atomic_load_explicit(
            &heap->policy->budgets[heap->device].limit_bytes, memory_order_relaxed);
    describe_held(heap, &shortage);
    describe_blocks(census, &shortage);
    describe_stack(&shortage);
    cushim_live_show(cushim_page.shortages, sizeof cushim_page.shortages);
    cushim_page_ring_put(CUSHIM_PAGE_RING(cushim_page.shortages), &cushim_page.n_shortages,
                         &shortage);
    cushim_tracing_refused(heap->stats, heap, n_bytes);
    tell(&shortage);
    errno = saved_errno;
}
