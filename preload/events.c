/* The listeners of each event. */
#include "preload/events.h"

#include "preload/entry/arena_reset.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/context_memory.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/entry/foreign.h"
#include "preload/entry/mapped.h"
#include "preload/observe/check.h"
#include "preload/observe/shortage.h"
#include "preload/observe/tracing.h"
#include "preload/observe/watch.h"
#include "preload/state/contexts.h"
#include "preload/state/control.h"

static void configured(void) {
    cushim_device_limit_configure();
    cushim_arena_configure();
    cushim_check_configure();
    cushim_process.policy.memory_out = cushim_shortage_note;
    cushim_watch_begin();
    cushim_mapped_configure();
    cushim_process.is_plain = cushim_entry_is_plain();
}

static void forked(bool is_fresh) {
    cushim_device_limit_in_child(is_fresh);
    cushim_watch_in_child(is_fresh);
    cushim_process_set_plain(cushim_entry_is_plain());
}

static void driver_lost(void) {
    cushim_process_judge_anew();
    cushim_contexts_gone_all();
    cushim_mapped_drop_all();
    cushim_foreign_drop_all();
    cushim_async_forget(false);
}

static void context_opening(struct cushim_cuda *cuda, int device) {
    cushim_device_limit_open(cuda, device);
    cushim_control_begin();
}

/* Mapped memory outlives its context, and so would what is idle. */
static void context_leaving(CUcontext context) {
    cushim_async_forget(true);
    cushim_mapped_give_back(-1);
    if (cushim_check_is_on())
        cushim_check_leave(cushim_contexts_find(context));
}

static void heap_gone(const struct cushim_mem_heap *heap) {
    cushim_check_forget(heap);
    cushim_watch_gone(heap);
}

static int recording_wanted(const char *folder) {
    int error = 0;
    cushim_context_memory_look();
    if (folder)
        error = cushim_watch_record(folder);
    else
        cushim_watch_stop();
    cushim_process_set_plain(cushim_entry_is_plain());
    if (folder && !error) {
        cushim_watch_tell_start();
        cushim_foreign_tell_start();
        cushim_context_memory_look();
    }
    return error;
}

static size_t memory_short(int device) {
    cushim_check_give_back();
    size_t n_bytes = cushim_async_give_back() + cushim_mapped_give_back(device);
    cushim_context_memory_look();
    return n_bytes;
}

static void looked_at(void) {
    cushim_mapped_give_back_stale();
    cushim_context_memory_look();
}

const struct cushim_events cushim_events = {
    .configured = configured,
    .forked = forked,
    .called_after_fork = cushim_check_called_after_fork,
    .driver_met = cushim_process_judge_anew,
    .driver_judged = cushim_tracing_note_driver,
    .driver_lost = driver_lost,
    .context_opening = context_opening,
    .context_leaving = context_leaving,
    .context_gone = cushim_foreign_drop,
    .heap_gone = heap_gone,
    .recording_wanted = recording_wanted,
    .limit_asked = cushim_device_limit_look,
    .memory_short = memory_short,
    .looked_at = looked_at,
};
