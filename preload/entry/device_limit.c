#include "preload/entry/device_limit.h"

#include "cuda/table.h"
#include "memory/policy.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

static struct cushim_mem_limit budgets[CUSHIM_MAX_DEVICES];

static bool has_limit(void) {
    return cushim_process.policy.budgets != NULL;
}

void cushim_device_limit_configure(void) {
    if (cushim_process_options.limit.number)
        cushim_process.policy.budgets = budgets;
}

void cushim_device_limit_open(struct cushim_cuda *cuda, int device) {
    size_t free_bytes, total_bytes;
    if (!has_limit() || atomic_load_explicit(&budgets[device].limit_bytes, memory_order_relaxed) ||
        cuda->cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return;
    size_t limit_bytes = cushim_amount_bytes(cushim_process_options.limit, total_bytes);
    if (limit_bytes > total_bytes)
        limit_bytes = total_bytes;
    atomic_store_explicit(&budgets[device].limit_bytes, limit_bytes, memory_order_relaxed);
}

static bool fits(int device, size_t n_bytes) {
    struct cushim_mem_limit *budget = &budgets[device];
    bool fits = cushim_mem_limit_charge(budget, n_bytes);
    if (fits)
        cushim_mem_limit_refund(budget, n_bytes);
    return fits;
}

bool cushim_device_limit_admits_on(struct cushim_cuda *cuda, int device, size_t n_bytes) {
    CUdevice current;
    if (!cushim_process_is_on() || !has_limit() || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return true;
    if (cuda->cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device)
        cushim_device_limit_open(cuda, device);
    return fits(device, n_bytes) || (cushim_contexts_give_back() && fits(device, n_bytes));
}

bool cushim_device_limit_admits(struct cushim_cuda *cuda, size_t n_bytes) {
    CUdevice device;
    return !cushim_process_is_on() || !has_limit() ||
           cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
           cushim_device_limit_admits_on(cuda, device, n_bytes);
}

void cushim_device_limit_charge(int device, size_t n_bytes, bool is_there) {
    size_t cost_bytes = cushim_mem_limit_cost(n_bytes);
    if (!has_limit())
        return;
    if (is_there)
        atomic_fetch_add_explicit(&budgets[device].charged_bytes, cost_bytes, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&budgets[device].charged_bytes, cost_bytes, memory_order_relaxed);
}

void cushim_device_limit_tell(int device, size_t reusable_bytes, size_t *free_bytes,
                              size_t *total_bytes) {
    const struct cushim_mem_limit *budget = &budgets[device];
    size_t limit_bytes = atomic_load_explicit(&budget->limit_bytes, memory_order_relaxed);
    size_t charged_bytes = atomic_load_explicit(&budget->charged_bytes, memory_order_relaxed);
    if (!limit_bytes)
        return;
    size_t used_bytes = charged_bytes > reusable_bytes ? charged_bytes - reusable_bytes : 0;
    size_t left_bytes = limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
    if (*free_bytes > left_bytes)
        *free_bytes = left_bytes;
    if (*total_bytes > limit_bytes)
        *total_bytes = limit_bytes;
}
