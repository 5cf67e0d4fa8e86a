#include "preload/observe/shortage.h"

#include <errno.h>
#include <unistd.h>

#include "base/backtrace.h"
#include "base/bits.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/largest.h"
#include "cuda/table.h"
#include "memory/cache/cache.h"
#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "preload/state/live.h"
#include "preload/state/process.h"
#include "preload/state/process_options.h"
#include "preload/state/spill.h"
#include "preload/observe/stack.h"
#include "preload/observe/tracing.h"
#include "report/frame.h"
#include "report/page_file.h"
#include "report/page_ring.h"
#include "report/report_file.h"
#include "report/shortage.h"

enum { OFF, LINE }; /* of the option; higher values: everything */
enum { MOST_TOLD = 4 };

static void describe_stack(struct cushim_page_shortage *shortage) {
    enum { MOST = sizeof shortage->frames / sizeof *shortage->frames };
    struct cushim_backtrace stack;
    cushim_stack_begin(true);
    cushim_backtrace_take(&stack);
    shortage->n_frames = cushim_stack_describe(&stack, shortage->frames, MOST);
}

#define SUM_OF(blocks) ((blocks)->n * (blocks)->n_bytes)

/* The sizes with the most bytes, the largest sum first. */
static void describe_blocks(const struct cushim_mem_census *census,
                            struct cushim_page_shortage *shortage) {
    enum { MOST = sizeof shortage->blocks / sizeof *shortage->blocks };
    for (unsigned i = 0; i < census->n_sizes; i++) {
        const struct cushim_page_blocks blocks = {census->sizes[i].n, census->sizes[i].block_bytes};
        CUSHIM_KEEP_LARGEST(shortage->blocks, MOST, &blocks, SUM_OF);
    }
}

static void describe_held(const struct cushim_mem_stats *stats,
                          struct cushim_page_shortage *shortage) {
    struct cushim_mem_stats sum;
    cushim_mem_cache_sum(stats, &sum);
    struct cushim_report_held held = cushim_report_held(&sum);
    shortage->live_bytes = held.live_bytes;
    shortage->rounding_bytes = held.rounding_bytes;
    shortage->spare_bytes = held.spare_bytes;
    shortage->idle_bytes = held.idle_bytes;
    shortage->held_bytes = held.held_bytes;
}

static uint64_t bytes_of(const struct cushim_page_shortage *shortage, enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = &cushim_page.stats[shortage->device][kind];
    return cushim_mem_stats_read(&stats->held_bytes);
}

static uint64_t graph_bytes(struct cushim_cuda *cuda, const struct cushim_page_shortage *shortage) {
    cuuint64_t reserved_bytes = bytes_of(shortage, CUSHIM_KIND_GRAPH);
    if (reserved_bytes)
        cuda->cuDeviceGetGraphMemAttribute((CUdevice)shortage->device,
                                           CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved_bytes);
    return reserved_bytes;
}

/* What is free of the device, and what this process has of it. */
static void split(struct cushim_cuda *cuda, struct cushim_page_shortage *shortage,
                  size_t free_bytes, size_t total_bytes) {
    shortage->total_bytes = total_bytes;
    if (!shortage->device_bytes) /* a census had it, or what a limit leaves of it */
        shortage->device_bytes = shortage->limit_bytes && shortage->limit_bytes < total_bytes
                                     ? shortage->limit_bytes
                                     : total_bytes;
    shortage->free_bytes = free_bytes;
    shortage->plain_bytes = bytes_of(shortage, CUSHIM_KIND_DEVICE);
    shortage->async_bytes = bytes_of(shortage, CUSHIM_KIND_ASYNC);
    shortage->pools_bytes = cushim_less(
        shortage->async_bytes,
        cushim_mem_stats_read(&cushim_page.stats[shortage->device][CUSHIM_KIND_ASYNC].live_bytes));
    shortage->mapped_bytes = bytes_of(shortage, CUSHIM_KIND_MAPPED);
    shortage->array_bytes = bytes_of(shortage, CUSHIM_KIND_ARRAY);
    shortage->graph_bytes = graph_bytes(cuda, shortage);
    shortage->context_bytes = bytes_of(shortage, CUSHIM_KIND_CONTEXT);
}

/* The device as it is now.  Without a context the driver says no more than how large it is. */
static void measure(struct cushim_page_shortage *shortage) {
    enum { MOST_OTHERS = sizeof shortage->others / sizeof *shortage->others };
    struct cushim_cuda *cuda = cushim_driver();
    CUdevice current, device = (CUdevice)shortage->device;
    CUuuid uuid;
    size_t free_bytes = 0, total_bytes;
    if (!cuda)
        return;
    if (cuda->cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device &&
        cuda->cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS)
        split(cuda, shortage, free_bytes, total_bytes);
    else if (!cuda->cuDeviceTotalMem_v2 ||
             cuda->cuDeviceTotalMem_v2(&total_bytes, device) != CUDA_SUCCESS)
        return;
    if (cushim_process_options.live && cuda->cuDeviceGetUuid_v2 &&
        cuda->cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS) {
        int cancel = cushim_cancel_hold();
        cushim_page_find_others(&cushim_page.head, (const unsigned char *)uuid.bytes,
                                total_bytes - free_bytes, shortage->others, MOST_OTHERS);
        cushim_cancel_let(cancel);
    }
}

/* `cushim run` writes the report, with all of it and with lines, where this would stand. */
static bool is_in_report(void) {
    return cushim_page.head.run && cushim_report_descriptor(cushim_process_options.stats) >= 0;
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
    if (form == LINE || is_in_report())
        cushim_shortage_line(&out, number, shortage);
    else {
        cushim_shortage_text(&out, number, shortage, &cushim_page.head, cushim_live_is_on(), NULL);
        if (!cushim_tracing_is_on()) /* its recording has the lines */
            cushim_frame_command(&out, shortage->frames, shortage->n_frames);
    }
    if (number == MOST_TOLD)
        cushim_write(&out, "cushim: the report has the last %d; no more is said here\n",
                     CUSHIM_PAGE_SHORTAGES);
    cushim_writer_flush(&out);
}

/* What this thread told last of a heap: the driver is asked next, and is not to be told of. */
static _Thread_local struct {
    const struct cushim_mem_stats *stats;
    size_t n_bytes;
} told __attribute__((tls_model("initial-exec")));

_Thread_local struct cushim_refused cushim_refused __attribute__((tls_model("initial-exec")));

void cushim_shortage_note_served(const struct cushim_mem_stats *stats, size_t n_bytes) {
    enum { PARTS = 2 }; /* a probe asks for at least this part of what was refused */
    static const uint64_t soon_ns = 1000000000;
    struct cushim_refused refused = cushim_refused;
    atomic_uint_fast64_t *row = cushim_page.shortages[(refused.number - 1) % CUSHIM_PAGE_SHORTAGES];
    if (refused.stats != stats)
        return;
    cushim_refused.stats = NULL;
    if (n_bytes >= refused.n_bytes / PARTS && cushim_clock_ns() - refused.ns < soon_ns &&
        atomic_load(&row[0]) == refused.number)
        atomic_store(&row[1 + offsetof(struct cushim_page_shortage, served_bytes) / sizeof *row],
                     n_bytes);
}

static void note(struct cushim_page_shortage *shortage, const struct cushim_mem_stats *stats,
                 const struct cushim_mem_heap *heap) {
    const struct cushim_mem_limit *budgets = cushim_process.policy.budgets;
    shortage->ns = cushim_clock_ns();
    if (budgets) { /* the device that a census saw is no larger than that */
        shortage->limit_bytes = atomic_load(&budgets[shortage->device].limit_bytes);
        shortage->group_bytes = atomic_load(&budgets[shortage->device].others_bytes);
    }
    shortage->spilled_bytes = bytes_of(shortage, CUSHIM_KIND_SPILLED);
    if (shortage->kind != CUSHIM_KIND_PINNED)
        measure(shortage);
    describe_stack(shortage);
    cushim_process_note_use();
    cushim_live_show(cushim_page.shortages, sizeof cushim_page.shortages);
    cushim_refused =
        (struct cushim_refused){stats, shortage->asked_bytes,
                                cushim_page_ring_put(CUSHIM_PAGE_RING(cushim_page.shortages),
                                                     &cushim_page.n_shortages, shortage),
                                shortage->ns};
    cushim_tracing_refused(stats, heap, shortage->asked_bytes);
    tell(shortage);
}

void cushim_shortage_note(struct cushim_mem_heap *heap, const struct cushim_mem_reclaim *tried,
                          const struct cushim_mem_census *census, size_t n_bytes) {
    int saved_errno = errno;
    if (heap->kind == CUSHIM_MEM_DEVICE && cushim_spill_may_serve(heap->device, n_bytes)) {
        cushim_mem_stats_subtract(&heap->stats->n_out_of_memory, 1);
        return; /* if it is refused after all, the driver's answer is noted */
    }
    struct cushim_page_shortage shortage = {.device = (uint64_t)heap->device,
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
    describe_held(heap->stats, &shortage);
    describe_blocks(census, &shortage);
    note(&shortage, heap->stats, heap);
    told.stats = heap->stats;
    told.n_bytes = n_bytes;
    errno = saved_errno;
}

void cushim_shortage_note_native(const struct cushim_mem_stats *stats, size_t n_bytes) {
    int saved_errno = errno;
    uint64_t place = (uint64_t)(stats - &cushim_page.stats[0][0]);
    bool was_told = told.stats == stats && told.n_bytes == n_bytes;
    told.stats = NULL;
    if (was_told)
        return;
    struct cushim_page_shortage shortage = {.device = place / CUSHIM_N_KINDS,
                                            .kind = place % CUSHIM_N_KINDS,
                                            .asked_bytes = n_bytes,
                                            .is_native = true};
    bool has_heap = shortage.kind < CUSHIM_KIND_ASYNC;
    describe_held(has_heap ? stats : &cushim_page.stats[shortage.device][CUSHIM_KIND_DEVICE],
                  &shortage);
    note(&shortage, stats, NULL);
    errno = saved_errno;
}
