#include "preload/entry/arena_reset.h"

#include <string.h>

#include "cushim/preload.h"
#include "memory/arena.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

const char *cushim_arena_range_of(const char *text) {
    static const char prefix[] = "nvtx:";
    const size_t n = sizeof prefix - 1;
    return strncmp(text, prefix, n) == 0 && text[n] ? text + n : NULL;
}

void cushim_arena_configure(void) {
    cushim_process.policy.arena_bytes = cushim_process_options.arena;
    cushim_process.policy.arena_most_bytes = cushim_process_options.arena_max_block;
}

static bool has_arena(void) {
    return atomic_load_explicit(&cushim_process_state, memory_order_acquire) == CUSHIM_PROCESS_ON &&
           cushim_process.policy.arena_bytes != 0;
}

CUSHIM_EXPORT int cushim_preload_arena_reset(void) {
    struct cushim_cuda *cuda = has_arena() ? cushim_driver() : NULL;
    if (!cuda || cushim_thread.host_function_depth)
        return 0;
    struct cushim_mem_heap *heap = cushim_contexts_hold_current(cuda);
    if (!heap)
        return 0;
    int n_kept = (int)cushim_mem_arena_reset(heap);
    cushim_contexts_let(heap);
    return n_kept;
}
