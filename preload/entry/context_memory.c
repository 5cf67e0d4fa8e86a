#include "preload/entry/context_memory.h"

#include <string.h>

#include "base/bits.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "cuda/table.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/entry.h"
#include "preload/entry/nvml.h"
#include "preload/observe/sites.h"
#include "preload/observe/tracing.h"
#include "preload/state/live.h"
#include "preload/state/primary.h"

static bool is_wanted(struct cushim_cuda *cuda) {
    return cushim_process_is_on() && cushim_process.is_watched && cushim_entry_is_open(cuda) &&
           (cushim_sites_are_on() || cushim_tracing_is_on());
}

static uint64_t held_bytes_of(int device) {
    uint64_t n_bytes = 0;
    for (unsigned kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_kind_is_on_device(kind))
            n_bytes += cushim_mem_stats_read(&cushim_page.stats[device][kind].held_bytes);
    }
    return n_bytes;
}

/* False: what is in use is not known. */
static bool look(struct cushim_context_memory *memory) {
    CUuuid uuid;
    size_t free_bytes, total_bytes;
    bool is_known;
    int cancel = cushim_cancel_hold();
    memory->held_bytes = held_bytes_of(memory->device);
    memory->own_bytes = 0;
    if (memory->is_context) {
        is_known = memory->cuda->cuDeviceGetUuid_v2 &&
                   memory->cuda->cuDeviceGetUuid_v2(&uuid, memory->device) == CUDA_SUCCESS &&
                   cushim_nvml_device_bytes(&uuid, &memory->used_bytes);
        if (is_known && !cushim_nvml_used_bytes(&uuid, &memory->own_bytes))
            memory->own_bytes = 0;
    } else {
        is_known = memory->cuda->cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS;
        memory->used_bytes = is_known ? total_bytes - free_bytes : 0;
    }
    cushim_cancel_let(cancel);
    return is_known;
}

static struct cushim_context_memory begin(struct cushim_cuda *cuda, int device, bool is_context) {
    struct cushim_context_memory memory = {cuda, .device = device, .is_context = is_context};
    if (!is_wanted(cuda) || (!is_context && cuda->cuCtxGetDevice(&memory.device) != CUDA_SUCCESS) ||
        memory.device < 0 || memory.device >= CUSHIM_MAX_DEVICES || !look(&memory))
        memory.cuda = NULL;
    return memory;
}

struct cushim_context_memory cushim_context_memory_of_context(struct cushim_cuda *cuda,
                                                              int device) {
    return begin(cuda, device, true);
}

struct cushim_context_memory cushim_context_memory_of_module(struct cushim_cuda *cuda) {
    return begin(cuda, -1, false);
}

void cushim_context_memory_taken(const struct cushim_context_memory *before, const void *handle) {
    struct cushim_context_memory now = *before;
    struct cushim_foreign foreign = {.address = (uintptr_t)handle, .kind = CUSHIM_KIND_CONTEXT};
    if (!before->cuda || !look(&now) || now.held_bytes != before->held_bytes)
        return;
    foreign.n_bytes = now.own_bytes ? cushim_less(now.own_bytes, before->own_bytes)
                                    : cushim_less(now.used_bytes, before->used_bytes);
    if (!foreign.n_bytes)
        return;
    foreign.stats = &cushim_page.stats[now.device][CUSHIM_KIND_CONTEXT];
    if (now.is_context)
        memcpy(&foreign.context, &handle, sizeof foreign.context);
    else
        now.cuda->cuCtxGetCurrent(&foreign.context);
    cushim_live_show(cushim_page.stats[now.device], sizeof cushim_page.stats[0]);
    cushim_foreign_record(&foreign);
}

void cushim_context_memory_refused(int device) {
    if (!cushim_process_is_on() || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return;
    struct cushim_mem_stats *stats = cushim_page.stats[device];
    cushim_live_show(stats, sizeof cushim_page.stats[0]);
    cushim_entry_note_foreign(&(struct cushim_foreign){.stats = &stats[CUSHIM_KIND_CONTEXT]},
                              CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- what is taken later ---- */

/* NVML counts managed memory only while it lies on the device. */
static void settle(struct cushim_cuda *cuda, int device) {
    enum { GRAIN_BYTES = 2 << 20 };
    static char places[CUSHIM_MAX_DEVICES]; /* whose addresses are handles */
    struct cushim_mem_stats *stats = cushim_page.stats[device];
    struct cushim_foreign foreign = {.address = (uintptr_t)&places[device],
                                     .kind = CUSHIM_KIND_CONTEXT,
                                     .stats = &stats[CUSHIM_KIND_CONTEXT]};
    uint64_t own_bytes, held_bytes = held_bytes_of(device);
    CUuuid uuid;
    if (!held_bytes || cushim_mem_stats_read(&stats[CUSHIM_KIND_MANAGED].held_bytes) ||
        !cuda->cuDeviceGetUuid_v2 || cuda->cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS ||
        !cushim_nvml_used_bytes(&uuid, &own_bytes))
        return;
    cushim_async_look();
    size_t before_bytes = cushim_foreign_bytes(foreign.address);
    bool is_too_much = cushim_less(held_bytes - before_bytes, own_bytes) >= GRAIN_BYTES;
    if (is_too_much) /* other processes took memory while a module was loaded, or it went unseen */
        before_bytes = cushim_mem_stats_read(&foreign.stats->held_bytes);
    foreign.n_bytes = cushim_less(own_bytes, held_bytes - before_bytes);
    if (held_bytes != held_bytes_of(device) ||
        (cushim_less(foreign.n_bytes, before_bytes) < GRAIN_BYTES &&
         cushim_less(before_bytes, foreign.n_bytes) < GRAIN_BYTES))
        return;
    foreign.context = cushim_primary_of(cuda, device);
    if (is_too_much)
        cushim_foreign_drop_counted(foreign.stats);
    else
        cushim_foreign_erase(foreign.address, &(struct cushim_foreign){0});
    if (foreign.n_bytes)
        cushim_foreign_record(&foreign);
}

void cushim_context_memory_look(void) {
    enum { PARTS = 100 }; /* of the time, of which one is spent here */
    static atomic_uint_fast64_t next_ns;
    struct cushim_cuda *cuda = cushim_driver();
    uint64_t now_ns, due_ns = atomic_load(&next_ns);
    if (!cuda || !is_wanted(cuda) || (now_ns = cushim_clock_ns()) < due_ns ||
        !atomic_compare_exchange_strong(&next_ns, &due_ns, UINT64_MAX))
        return;
    int cancel = cushim_cancel_hold();
    cushim_async_look();
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++)
        settle(cuda, device);
    cushim_cancel_let(cancel);
    uint64_t end_ns = cushim_clock_ns();
    atomic_store(&next_ns, end_ns + PARTS * (end_ns - now_ns));
}

void cushim_context_memory_unload(const void *handle) {
    if (cushim_process_is_on())
        cushim_foreign_gone((uintptr_t)handle);
}
