#include "preload/state/spill.h"

#include "base/bits.h"
#include "base/cancel.h"
#include "base/host_memory.h"
#include "memory/layout/sizeclass.h"
#include "memory/policy.h"
#include "preload/state/process.h"
#include "preload/state/process_options.h"

static struct cushim_mem_limit budgets[CUSHIM_MAX_DEVICES];

struct cushim_mem_limit *cushim_spill_budget(int device) {
    return &budgets[device];
}

size_t cushim_spill_bytes(void) {
    return cushim_process_is_on() ? cushim_process_options.spill : 0;
}

/* A quarter of what would be free on the host without us is left alone. */
static size_t host_bytes(void) {
    size_t spilled_bytes = 0;
    int cancel = cushim_cancel_hold();
    uint64_t free_bytes = cushim_host_memory_bytes(cushim_process.process);
    cushim_cancel_let(cancel);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++)
        spilled_bytes += atomic_load(&budgets[device].charged_bytes);
    return cushim_less(free_bytes / 4 * 3, spilled_bytes / 4);
}

static bool has_room(struct cushim_mem_limit *budget, ptrdiff_t n_bytes, bool is_forced) {
    (void)budget;
    return is_forced || (size_t)n_bytes <= host_bytes();
}

size_t cushim_spill_free_bytes(int device) {
    size_t spilled_bytes = atomic_load(&budgets[device].charged_bytes);
    return cushim_least(cushim_less(cushim_spill_bytes(), spilled_bytes), host_bytes());
}

/* Small blocks share pages, of which some may be there. */
bool cushim_spill_may_serve(int device, size_t n_bytes) {
    return cushim_spill_bytes() &&
           (n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES ||
            cushim_mem_limit_cost(n_bytes) <= cushim_spill_free_bytes(device));
}

void cushim_spill_set_policy(struct cushim_mem_policy *policy) {
    policy->budgets = budgets;
    policy->keep = policy->reserve = (struct cushim_amount){0};
    policy->has_keep = true;
    policy->least_idle_bytes = policy->arena_bytes = 0;
    policy->make_room = NULL;
    policy->memory_out = NULL;
    atomic_store(&policy->is_dedicated_uncached, false);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        atomic_store(&budgets[device].limit_bytes, cushim_process_options.spill);
        budgets[device].share = has_room;
    }
}
