#include "preload/entry/device_limit.h"

#include <string.h>

#include "base/bits.h"
#include "cuda/table.h"
#include "memory/policy.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

static struct cushim_mem_limit budgets[CUSHIM_MAX_DEVICES];

/* What the calling thread charged for a request that the driver is asked for next. */
static _Thread_local struct {
    struct cushim_mem_limit *budget; /* NULL: none */
    size_t n_bytes;
} promise __attribute__((tls_model("initial-exec")));

bool cushim_device_limit_is_set(void) {
    return cushim_process_is_on() && strcmp(cushim_process_options.limit, "0") != 0;
}

void cushim_device_limit_configure(void) {
    cushim_process.policy.budgets = budgets;
}

size_t cushim_device_limit_bytes(int device, size_t total_bytes) {
    struct cushim_amount amount = cushim_limits_of(cushim_process_options.limit, device);
    size_t limit_bytes = cushim_amount_bytes(amount, total_bytes);
    return limit_bytes ? cushim_least(limit_bytes, total_bytes) : total_bytes;
}

void cushim_device_limit_open(struct cushim_cuda *cuda, int device) {
    size_t total_bytes;
    if (!cushim_device_limit_is_set() || atomic_load(&budgets[device].limit_bytes) ||
        !cuda->cuDeviceTotalMem_v2 ||
        cuda->cuDeviceTotalMem_v2(&total_bytes, device) != CUDA_SUCCESS)
        return;
    size_t limit_bytes = cushim_device_limit_bytes(device, total_bytes);
    atomic_store(&budgets[device].limit_bytes, limit_bytes < total_bytes ? limit_bytes : 0);
}

/* ---- memory that the driver serves ---- */

bool cushim_device_limit_admits_on(struct cushim_cuda *cuda, int device, size_t n_bytes) {
    cushim_device_limit_settle();
    if (!cushim_device_limit_is_set() || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return true;
    cushim_device_limit_open(cuda, device);
    struct cushim_mem_limit *budget = &budgets[device];
    if (!cushim_mem_limit_charge(budget, n_bytes) &&
        !(cushim_contexts_give_back() && cushim_mem_limit_charge(budget, n_bytes)))
        return false;
    promise.budget = budget;
    promise.n_bytes = n_bytes;
    return true;
}

bool cushim_device_limit_admits(struct cushim_cuda *cuda, size_t n_bytes) {
    CUdevice device;
    return !cushim_device_limit_is_set() || cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
           cushim_device_limit_admits_on(cuda, device, n_bytes);
}

void cushim_device_limit_settle(void) {
    cushim_mem_limit_refund(promise.budget, promise.n_bytes);
    promise.budget = NULL;
}

void cushim_device_limit_charge(int device, size_t n_bytes, bool is_there) {
    struct cushim_mem_limit *budget = &budgets[device];
    if (!is_there)
        cushim_mem_limit_refund(budget, n_bytes);
    else if (promise.budget == budget && promise.n_bytes == n_bytes)
        promise.budget = NULL;
    else
        cushim_mem_limit_force(budget, n_bytes);
}

/* ---- the size that the process sees ---- */

void cushim_device_limit_tell(struct cushim_cuda *cuda, int device, size_t *free_bytes,
                              size_t *total_bytes) {
    cushim_device_limit_open(cuda, device);
    size_t limit_bytes = atomic_load(&budgets[device].limit_bytes);
    size_t charged_bytes = atomic_load(&budgets[device].charged_bytes);
    /* without cushim our free memory would be free */
    size_t held_bytes = cushim_contexts_reusable_bytes(device);
    *free_bytes += cushim_least(held_bytes, cushim_less(*total_bytes, *free_bytes));
    if (!limit_bytes)
        return;
    size_t left_bytes = cushim_less(limit_bytes, cushim_less(charged_bytes, held_bytes));
    *free_bytes = cushim_least(*free_bytes, left_bytes);
    *total_bytes = cushim_least(*total_bytes, limit_bytes);
}
