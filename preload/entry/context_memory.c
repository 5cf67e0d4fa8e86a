#include "preload/entry/context_memory.h"

#include <string.h>

#include "base/bits.h"
#include "base/cancel.h"
#include "cuda/table.h"
#include "preload/entry/entry.h"
#include "preload/entry/nvml.h"
#include "preload/observe/sites.h"
#include "preload/observe/tracing.h"
#include "preload/state/live.h"

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

/* What this process has, to NVML; before its first context that is nothing, and NVML does not know
 * it.  Or what is used of the device, for a module. */
static bool find_used(const struct cushim_context_memory *memory, uint64_t *n_bytes) {
    CUuuid uuid;
    size_t free_bytes, total_bytes;
    int cancel = cushim_cancel_hold();
    bool is_found =
        memory->is_context
            ? memory->cuda->cuDeviceGetUuid_v2 &&
                  memory->cuda->cuDeviceGetUuid_v2(&uuid, memory->device) == CUDA_SUCCESS &&
                  cushim_nvml_used_bytes(&uuid, n_bytes)
            : memory->cuda->cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS;
    cushim_cancel_let(cancel);
    if (is_found && !memory->is_context)
        *n_bytes = total_bytes - free_bytes;
    return is_found;
}

struct cushim_context_memory cushim_context_memory_of_context(struct cushim_cuda *cuda,
                                                              int device) {
    struct cushim_context_memory memory = {.device = device, .is_context = true};
    if (!is_wanted(cuda) || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return memory;
    memory.cuda = cuda;
    memory.held_bytes = held_bytes_of(device);
    if (!find_used(&memory, &memory.used_bytes))
        memory.used_bytes = 0;
    return memory;
}

struct cushim_context_memory cushim_context_memory_of_module(struct cushim_cuda *cuda) {
    struct cushim_context_memory memory = {0};
    if (!is_wanted(cuda) || cuda->cuCtxGetDevice(&memory.device) != CUDA_SUCCESS ||
        memory.device < 0 || memory.device >= CUSHIM_MAX_DEVICES)
        return memory;
    memory.cuda = cuda;
    memory.held_bytes = held_bytes_of(memory.device);
    if (!find_used(&memory, &memory.used_bytes))
        memory.cuda = NULL;
    return memory;
}

void cushim_context_memory_taken(struct cushim_context_memory *before, const void *handle) {
    uint64_t used_bytes;
    if (!before->cuda || !find_used(before, &used_bytes) || used_bytes <= before->used_bytes ||
        held_bytes_of(before->device) != before->held_bytes)
        return;
    struct cushim_mem_stats *of_device = cushim_page.stats[before->device];
    struct cushim_foreign foreign = {.address = (uintptr_t)handle,
                                     .n_bytes = used_bytes - before->used_bytes,
                                     .kind = CUSHIM_KIND_CONTEXT,
                                     .stats = &of_device[CUSHIM_KIND_CONTEXT]};
    if (before->is_context)
        memcpy(&foreign.context, &handle, sizeof foreign.context);
    else
        before->cuda->cuCtxGetCurrent(&foreign.context);
    cushim_live_show(of_device, sizeof cushim_page.stats[0]);
    cushim_foreign_record(&foreign);
}

void cushim_context_memory_unload(const void *handle) {
    struct cushim_foreign foreign;
    if (cushim_entry_forget((uintptr_t)handle, &foreign))
        cushim_foreign_count_free(&foreign);
}
