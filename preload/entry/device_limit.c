#include "preload/entry/device_limit.h"

#include <string.h>

#include "base/bits.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "cuda/table.h"
#include "memory/heap.h"
#include "memory/policy.h"
#include "memory/state/heap_state.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/nvml.h"
#include "preload/state/contexts.h"
#include "preload/state/control.h"
#include "preload/state/process_options.h"
#include "preload/state/spill.h"
#include "report/group.h"

/* With CUSHIM_LIMIT_COUNTS=all, how often NVML is asked. */
static const uint64_t again_ns = 1000000000;

/* How long a process that was refused waits for others to give back idle memory. */
static const uint64_t patience_ns = 20000000;

static struct cushim_mem_limit budgets[CUSHIM_MAX_DEVICES];
static atomic_size_t totals[CUSHIM_MAX_DEVICES]; /* of the devices; 0: not known yet */

/* With CUSHIM_LIMIT_GROUP.  It is written once, and by a forked child. */
static struct cushim_group group;
static atomic_int places[CUSHIM_MAX_DEVICES]; /* of devices in the group, plus 1; 0: unknown */

static atomic_size_t drivers_bytes[CUSHIM_MAX_DEVICES]; /* charged for contexts and the like */

/* What the calling thread charged for a request that the driver is asked for next. */
static _Thread_local struct {
    struct cushim_mem_limit *budget; /* NULL: none */
    size_t n_bytes;
} promise __attribute__((tls_model("initial-exec")));

bool cushim_device_limit_is_set(void) {
    return cushim_process_is_on() &&
           (cushim_process_options.spill || group.file || atomic_load(&cushim_page.head.n_limits) ||
            strcmp(cushim_process_options.limit, "0") != 0);
}

/* ---- this process's own limit ---- */

size_t cushim_device_limit_bytes(int device, size_t total_bytes) {
    uint64_t word = atomic_load(&cushim_page.head.limits[device]);
    struct cushim_amount amount =
        word ? cushim_amount_unpack(word) : cushim_limits_of(cushim_process_options.limit, device);
    size_t limit_bytes = cushim_amount_bytes(amount, total_bytes);
    return limit_bytes ? cushim_least(limit_bytes, total_bytes) : total_bytes;
}

/* From now on it holds, and others see it; 0: there is none. */
static void set_limit(int device, size_t limit_bytes) {
    atomic_store(&budgets[device].limit_bytes, limit_bytes);
    atomic_store(&cushim_page.head.limit_bytes[device], limit_bytes);
}

static void renew(int device, size_t total_bytes) {
    size_t limit_bytes = cushim_device_limit_bytes(device, total_bytes);
    set_limit(device, limit_bytes < total_bytes ? limit_bytes : 0);
}

/* Has `cushim limit` been here? */
static void look(void) {
    static atomic_uint_fast64_t n_seen;
    uint64_t n_limits = atomic_load(&cushim_page.head.n_limits);
    if (group.file || atomic_load(&n_seen) == n_limits)
        return;
    atomic_store(&n_seen, n_limits);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (atomic_load(&totals[device]))
            renew(device, atomic_load(&totals[device]));
    }
}

/* ---- the group ---- */

/* The place of a device in the group; -1: it is of no group. */
static int place_of(int device) {
    return group.file && !atomic_load(&group.is_cut) ? atomic_load(&places[device]) - 1 : -1;
}

/* Note what the group has now; the last limit stays if the file was cut. */
static void refresh(int device, int place) {
    uint64_t limit_bytes = atomic_load(&group.file->devices[place].limit_bytes);
    uint64_t others_bytes = cushim_group_others_bytes(&group, place);
    bool is_cut = atomic_load(&group.is_cut);
    if (!is_cut)
        set_limit(device, limit_bytes);
    atomic_store(&budgets[device].others_bytes, is_cut ? 0 : others_bytes);
}

/* Managed memory is not told apart from contexts, so nothing is asked while there is any. */
static bool find_used(struct cushim_cuda *cuda, int device, uint64_t *used_bytes) {
    static atomic_bool is_said;
    CUuuid uuid;
    if (cushim_mem_stats_read(&cushim_page.stats[device][CUSHIM_KIND_MANAGED].held_bytes))
        return false;
    bool is_known = cuda && cuda->cuDeviceGetUuid_v2 &&
                    cuda->cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS &&
                    cushim_nvml_used_bytes(&uuid, used_bytes);
    if (!is_known && !atomic_exchange(&is_said, true))
        log_error("limit", "CUSHIM_LIMIT_COUNTS=all: NVML does not tell what this process has");
    return is_known;
}

/* Charge what the driver itself has by now beside what the program asked for. */
static void measure(int device) {
    static atomic_uint_fast64_t asked_ns[CUSHIM_MAX_DEVICES];
    uint64_t used_bytes, before_ns = atomic_load(&asked_ns[device]), now_ns = cushim_clock_ns();
    if (!cushim_process_options.limit_counts || now_ns - before_ns < again_ns ||
        !atomic_compare_exchange_strong(&asked_ns[device], &before_ns, now_ns))
        return;
    int cancel = cushim_cancel_hold();
    if (find_used(cushim_driver(), device, &used_bytes)) {
        size_t before_bytes = atomic_load(&drivers_bytes[device]);
        size_t own_bytes = cushim_less(atomic_load(&budgets[device].charged_bytes), before_bytes);
        size_t now_bytes = cushim_less(used_bytes, own_bytes);
        atomic_store(&drivers_bytes[device], now_bytes);
        atomic_fetch_add(&budgets[device].charged_bytes, now_bytes - before_bytes);
        if (place_of(device) >= 0)
            cushim_group_add(&group, place_of(device), (int64_t)(now_bytes - before_bytes));
        log_info("limit", "device %d: contexts, modules and the driver take %zu bytes", device,
                 now_bytes);
    }
    cushim_cancel_let(cancel);
}

static bool share(struct cushim_mem_limit *budget, ptrdiff_t n_bytes, bool is_forced) {
    int device = (int)(budget - budgets), place = place_of(device);
    look();
    if (!is_forced)
        measure(device);
    if (place < 0)
        return true;
    if (is_forced) {
        cushim_group_add(&group, place, n_bytes);
        return true;
    }
    int cancel = cushim_cancel_hold();
    bool is_charged = cushim_group_charge(&group, place, (uint64_t)n_bytes);
    cushim_cancel_let(cancel);
    refresh(device, place);
    return is_charged;
}

/* Ask the other members for idle memory, and wait a moment; returns what they gave back. */
static size_t ask_group(int device) {
    int place = place_of(device);
    uint64_t end_ns = cushim_clock_ns() + patience_ns;
    unsigned n_looks = 0;
    if (place < 0 || !cushim_group_ask(&group, place))
        return 0;
    uint64_t before_bytes = cushim_group_others_bytes(&group, place), now_bytes;
    while ((now_bytes = cushim_group_others_bytes(&group, place)) >= before_bytes &&
           cushim_clock_ns() < end_ns)
        cushim_futex_back_off(&n_looks);
    return cushim_less(before_bytes, now_bytes);
}

static size_t make_room(const struct cushim_mem_heap *heap, uint64_t until_ns) {
    return cushim_contexts_make_room(heap, until_ns) + ask_group(heap->device);
}

void cushim_device_limit_look(void) {
    look();
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (place_of(device) >= 0)
            refresh(device, place_of(device));
    }
}

static void join(void) {
    int error = cushim_group_join(&group, cushim_process_options.limit_group);
    if (error)
        log_error("limit", "no group %s: %s; the limit is this process's own",
                  cushim_process_options.limit_group, cushim_group_fault(error));
    else
        store_release(&cushim_control.group, &group.file->rows[group.row].n_asked);
}

/* The first member that names a limit sets it. */
static void enter_device(struct cushim_cuda *cuda, int device, size_t total_bytes) {
    size_t limit_bytes = cushim_device_limit_bytes(device, total_bytes);
    CUuuid uuid;
    uint64_t none = 0;
    if (!cuda->cuDeviceGetUuid_v2 || cuda->cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS)
        return;
    int place = cushim_group_device(&group, (const unsigned char *)uuid.bytes, total_bytes);
    if (place < 0)
        return;
    if (limit_bytes < total_bytes &&
        !atomic_compare_exchange_strong(&group.file->devices[place].limit_bytes, &none,
                                        limit_bytes) &&
        none != limit_bytes)
        log_warn("limit", "device %d: group %s has a limit of %zu bytes already, and keeps it",
                 device, cushim_process_options.limit_group, (size_t)none);
    atomic_store(&places[device], place + 1);
    refresh(device, place);
}

/* ---- both ---- */

void cushim_device_limit_configure(void) {
    cushim_process.policy.budgets = budgets;
    if (!cushim_process_options.cushim)
        return;
    if (*cushim_process_options.limit_group) {
        join();
        cushim_process.policy.make_room = make_room;
    }
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++)
        budgets[device].share = share;
}

void cushim_device_limit_in_child(bool is_fresh) {
    if (!group.file)
        return;
    group.file = NULL; /* it is not mapped here */
    store_relaxed(&cushim_control.group, NULL);
    if (is_fresh)
        join();
}

void cushim_device_limit_open(struct cushim_cuda *cuda, int device) {
    size_t total_bytes;
    look();
    if (atomic_load(&totals[device]) || !cuda->cuDeviceTotalMem_v2 ||
        cuda->cuDeviceTotalMem_v2(&total_bytes, device) != CUDA_SUCCESS)
        return;
    if (group.file)
        enter_device(cuda, device, total_bytes);
    else
        renew(device, total_bytes);
    atomic_store(&totals[device], total_bytes);
}

/* ---- memory that the driver serves ---- */

static bool promised(struct cushim_mem_limit *budget, size_t n_bytes) {
    promise.budget = budget;
    promise.n_bytes = n_bytes;
    return true;
}

bool cushim_device_limit_admits_on(struct cushim_cuda *cuda, int device, size_t n_bytes) {
    cushim_device_limit_settle();
    if (!cushim_device_limit_is_set() || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return true;
    cushim_device_limit_open(cuda, device);
    struct cushim_mem_limit *budget = &budgets[device];
    return (cushim_mem_limit_charge(budget, n_bytes) ||
            (cushim_contexts_give_back() && cushim_mem_limit_charge(budget, n_bytes)) ||
            (ask_group(device) && cushim_mem_limit_charge(budget, n_bytes))) &&
           promised(budget, n_bytes);
}

bool cushim_device_limit_admits(struct cushim_cuda *cuda, size_t n_bytes) {
    CUdevice device;
    return !cushim_device_limit_is_set() || cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
           cushim_device_limit_admits_on(cuda, device, n_bytes);
}

bool cushim_device_limit_admits_spilled(int device, size_t n_bytes) {
    struct cushim_mem_limit *budget = cushim_spill_budget(device);
    cushim_device_limit_settle();
    return cushim_spill_bytes() && cushim_mem_limit_charge(budget, n_bytes) &&
           promised(budget, n_bytes);
}

void cushim_device_limit_settle(void) {
    cushim_mem_limit_refund(promise.budget, promise.n_bytes);
    promise.budget = NULL;
}

void cushim_device_limit_charge(int device, bool is_spilled, size_t n_bytes, bool is_there) {
    struct cushim_mem_limit *budget = is_spilled ? cushim_spill_budget(device) : &budgets[device];
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
    struct cushim_mem_limit *budget = &budgets[device];
    cushim_device_limit_open(cuda, device);
    measure(device);
    int place = place_of(device), cancel;
    if (place >= 0) {
        cancel = cushim_cancel_hold();
        cushim_group_sweep(&group);
        cushim_cancel_let(cancel);
        refresh(device, place);
    }
    size_t limit_bytes = atomic_load(&budget->limit_bytes);
    /* without cushim our free memory would be free */
    const struct cushim_mem_stats *mapped = &cushim_page.stats[device][CUSHIM_KIND_MAPPED];
    size_t held_bytes = cushim_contexts_reusable_bytes(device, false) +
                        cushim_mem_stats_read(&mapped->free_segment_bytes);
    *free_bytes += cushim_least(held_bytes + cushim_async_idle_bytes(cuda, device),
                                cushim_less(*total_bytes, *free_bytes));
    if (limit_bytes) {
        size_t used_bytes = cushim_less(atomic_load(&budget->charged_bytes), held_bytes) +
                            atomic_load(&budget->others_bytes);
        *free_bytes = cushim_least(*free_bytes, cushim_less(limit_bytes, used_bytes));
        *total_bytes = cushim_least(*total_bytes, limit_bytes);
    }
    if (cushim_spill_bytes()) {
        *free_bytes +=
            cushim_spill_free_bytes(device) + cushim_contexts_reusable_bytes(device, true);
        *total_bytes += cushim_spill_bytes();
    }
}
