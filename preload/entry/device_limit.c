#include "preload/entry/device_limit.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "cuda/table.h"
#include "memory/state/limit.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

static struct cushim_mem_limit budgets[CUSHIM_MAX_DEVICES];

/* Physical memory that the program made. */
struct row {
    CUmemGenericAllocationHandle handle;
    int device;
    size_t n_bytes;
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;

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

static void charge(int device, size_t n_bytes, bool is_there) {
    size_t cost_bytes = cushim_mem_limit_cost(n_bytes);
    if (is_there)
        atomic_fetch_add_explicit(&budgets[device].charged_bytes, cost_bytes, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&budgets[device].charged_bytes, cost_bytes, memory_order_relaxed);
}

void cushim_device_limit_note(const struct cushim_mem_stats *stats, size_t n_bytes, bool is_there) {
    size_t place = (size_t)(stats - &cushim_page.stats[0][0]);
    if (has_limit() && place % CUSHIM_N_KINDS != CUSHIM_KIND_PINNED)
        charge((int)(place / CUSHIM_N_KINDS), n_bytes, is_there);
}

/* Of a handle: for the report, and against the limit where there is one. */
static void count(int device, size_t n_bytes, bool is_there) {
    struct cushim_page_virtual *made = &cushim_page.virtuals[device];
    if (has_limit())
        charge(device, n_bytes, is_there);
    if (is_there)
        cushim_mem_stats_raise(
            &made->peak_live_bytes,
            atomic_fetch_add_explicit(&made->live_bytes, n_bytes, memory_order_relaxed) + n_bytes);
    else
        cushim_mem_stats_subtract(&made->live_bytes, n_bytes);
}

void cushim_device_limit_note_handle(CUmemGenericAllocationHandle handle, int device,
                                     size_t n_bytes) {
    struct row *row = device >= 0 && device < CUSHIM_MAX_DEVICES ? malloc(sizeof *row) : NULL;
    if (!row)
        return;
    *row = (struct row){.handle = handle, .device = device, .n_bytes = n_bytes};
    pthread_mutex_lock(&lock);
    HASH_ADD(hh, rows, handle, sizeof row->handle, row);
    pthread_mutex_unlock(&lock);
    count(device, n_bytes, true);
}

void cushim_device_limit_forget_handle(CUmemGenericAllocationHandle handle) {
    struct row *row;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, rows, &handle, sizeof handle, row);
    if (row)
        HASH_DEL(rows, row);
    pthread_mutex_unlock(&lock);
    if (row)
        count(row->device, row->n_bytes, false);
    free(row);
}

void cushim_device_limit_drop_handles(void) {
    struct row *row, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, rows, row, next) {
        HASH_DEL(rows, row);
        count(row->device, row->n_bytes, false);
        free(row);
    }
    pthread_mutex_unlock(&lock);
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
