#include "preload/entry/entry.h"

#include "base/log.h"
#include "cuda/table.h"
#include "cushim/preload.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/graph_memory.h"
#include "preload/observe/check.h"
#include "preload/observe/shortage.h"
#include "preload/entry/memory_kinds.h"
#include "preload/entry/stale_address.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"
#include "preload/observe/tracing.h"

bool cushim_entry_is_open(struct cushim_cuda *cuda) {
    return cushim_process_is_on() && !cushim_thread.host_function_depth &&
           !(cushim_capture_is_open() && cushim_capture_is_own(cuda));
}

bool cushim_entry_is_plain(void) {
    return cushim_process_options.pool && !cushim_check_is_on() && !cushim_tracing_is_on() &&
           !cushim_memory_kinds_is_cleared_by_device(CUSHIM_MEM_DEVICE);
}

CUresult cushim_entry_note_foreign(const struct cushim_foreign *foreign, CUresult answer) {
    if (answer == CUDA_SUCCESS) {
        cushim_process_note_driver_use();
        cushim_foreign_record(foreign);
    } else if (answer == CUDA_ERROR_OUT_OF_MEMORY) {
        cushim_mem_stats_add(&foreign->stats->n_refused, 1);
        cushim_shortage_note_native(foreign->stats, foreign->n_bytes);
    }
    cushim_device_limit_settle();
    return answer;
}

CUresult cushim_entry_note(struct cushim_cuda *cuda, enum cushim_kind kind, CUresult answer,
                           uint64_t address, size_t n_bytes) {
    if (!cushim_process_is_on())
        return answer;
    struct cushim_foreign foreign = {.address = address, .n_bytes = n_bytes, .kind = kind};
    foreign.stats = cushim_process_stats(cuda, kind);
    if (answer == CUDA_SUCCESS)
        cuda->cuCtxGetCurrent(&foreign.context);
    return cushim_entry_note_foreign(&foreign, answer);
}

void cushim_entry_note_imported(struct cushim_cuda *cuda, CUdeviceptr address) {
    CUdeviceptr base;
    size_t n_bytes;
    if (cushim_process_is_on() && !cushim_foreign_bytes(address) && cuda->cuMemGetAddressRange_v2 &&
        cuda->cuMemGetAddressRange_v2(&base, &n_bytes, address) == CUDA_SUCCESS)
        cushim_entry_note(cuda, CUSHIM_KIND_IMPORTED, CUDA_SUCCESS, address, n_bytes);
}

CUresult cushim_entry_note_on(struct cushim_cuda *cuda, CUstream stream, CUresult answer,
                              uint64_t address, size_t n_bytes) {
    struct cushim_async_owner owner;
    if (!cushim_process_is_on())
        return answer;
    if (!cushim_async_find_owner(cuda, stream, &owner))
        return cushim_entry_note(cuda, CUSHIM_KIND_ASYNC, answer, address, n_bytes);
    if (answer == CUDA_SUCCESS && cushim_capture_is_captured(cuda, stream)) {
        cushim_graph_memory_note(owner.device, address);
        cushim_device_limit_settle();
        return answer;
    }
    if (answer == CUDA_SUCCESS)
        log_debug("request", "%s of size %zu was forwarded",
                  cushim_cuda_symbol_name(cushim_thread.symbol), n_bytes);
    const struct cushim_foreign foreign = {
        .address = address,
        .n_bytes = n_bytes,
        .kind = CUSHIM_KIND_ASYNC,
        .context = owner.context,
        .stats = &cushim_page.stats[owner.device][CUSHIM_KIND_ASYNC],
    };
    cushim_entry_note_foreign(&foreign, answer);
    cushim_async_keep(cuda, owner.device); /* which looks at what is live */
    return answer;
}

bool cushim_entry_forget(uint64_t address, struct cushim_foreign *foreign) {
    return cushim_process_is_on() && cushim_foreign_erase(address, foreign);
}

CUresult cushim_entry_forgot(bool was_known, const struct cushim_foreign *foreign, uint64_t address,
                             CUresult answer) {
    if (!cushim_process_is_on() || !address ||
        (answer == CUDA_SUCCESS && !was_known && cushim_graph_memory_has(address)))
        return answer;
    if (was_known && answer == CUDA_SUCCESS) {
        cushim_foreign_count_free(foreign);
    } else if (was_known) {
        cushim_foreign_restore(foreign);
    } else {
        if (answer != CUDA_SUCCESS && cushim_stale_address_may_be(address)) {
            cushim_check_refused(CUSHIM_MEM_HARM_GONE, NULL, address, 0);
            return answer;
        }
        cushim_mem_stats_add(&cushim_page.n_foreign_frees, 1);
        if (answer == CUDA_SUCCESS)
            cushim_mem_stats_add(&cushim_page.n_bypassed, 1);
        log_warn("free", "0x%lx was allocated around us, or never", (unsigned long)address);
    }
    return answer;
}

bool cushim_entry_should_retry_host(CUresult answer) {
    return answer == CUDA_ERROR_OUT_OF_MEMORY && cushim_process_is_on() &&
           cushim_contexts_give_back_all() != 0;
}

CUSHIM_EXPORT size_t cushim_preload_trim(void) {
    return cushim_process_is_on() ? cushim_contexts_give_back_all() : 0;
}

bool cushim_entry_should_retry(CUresult answer) {
    return answer == CUDA_ERROR_OUT_OF_MEMORY && cushim_process_is_on() &&
           cushim_contexts_give_back() != 0;
}
