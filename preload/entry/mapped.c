#define HASH_NONFATAL_OOM 1 /* before uthash.h */
#include "preload/entry/mapped.h"

#include <pthread.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/cancel.h"
#include "cuda/current_context.h"
#include "memory/heap.h"
#include "memory/state/heap_state.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/entry/memory_kinds.h"
#include "preload/observe/check.h"
#include "preload/observe/tracing.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/control.h"
#include "preload/state/process_options.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t caught_up = PTHREAD_COND_INITIALIZER;
static struct cushim_mapped_memory *memories;
struct cushim_mapped_memory *cushim_mapped_unmapped;
struct cushim_rows cushim_mapped_places, cushim_mapped_reservations;
static _Atomic(struct cushim_mem_heap *)
    accounts[CUSHIM_MAX_DEVICES]; /* what is held, and may be */
static struct cushim_mem_policy policy;
static atomic_int n_accounts; /* the last device that has one, and 1 */
static bool is_pooled;
static atomic_bool was_any_unmapped, was_any_spilled;

/* A thread that was cancelled in here would keep the lock. */
int cushim_mapped_enter(void) {
    int cancel = cushim_cancel_hold();
    pthread_mutex_lock(&lock);
    return cancel;
}

void cushim_mapped_leave(int cancel) {
    pthread_mutex_unlock(&lock);
    cushim_cancel_let(cancel);
}

/* Under the lock: is the driver to catch up with this memory?  Then wait until it has, and look
 * again. */
static bool has_waited(const struct cushim_mapped_memory *memory) {
    if (!memory || !memory->is_leaving)
        return false;
    pthread_cond_wait(&caught_up, &lock);
    return true;
}

void cushim_mapped_configure(void) {
    policy = cushim_process.policy;
    policy.reserve = (struct cushim_amount){0}; /* which heaps hold */
    is_pooled = cushim_process_options.mapped && cushim_process_options.pool &&
                !cushim_check_is_on() &&
                !cushim_memory_kinds_is_cleared_by_device(CUSHIM_MEM_DEVICE);
}

/* Not if other devices may read it behind the driver's back. */
bool cushim_mapped_keeps(struct cushim_cuda *cuda) {
    return is_pooled && cushim_entry_is_open(cuda) &&
           !atomic_load_explicit(&cushim_process.policy.is_dedicated_uncached,
                                 memory_order_relaxed);
}

/* ---- memory, under the lock ---- */

struct cushim_mapped_memory *cushim_mapped_find(CUmemGenericAllocationHandle handle) {
    struct cushim_mapped_memory *memory;
    do
        HASH_FIND(hh, memories, &handle, sizeof handle, memory);
    while (has_waited(memory));
    return memory;
}

struct cushim_mapped_memory *cushim_mapped_in(CUdeviceptr address, size_t n_bytes) {
    struct cushim_mapped_memory *memory;
    do {
        memory = NULL;
        for (size_t place = cushim_rows_place(&cushim_mapped_reservations, address);
             !memory && cushim_rows_reach(&cushim_mapped_reservations, place, address, n_bytes);
             place++)
            memory = cushim_mapped_reservations.row[place].memory;
    } while (has_waited(memory));
    return memory;
}

struct cushim_mapped_memory *cushim_mapped_at(CUdeviceptr address, size_t n_bytes) {
    struct cushim_mapped_memory *memory = cushim_mapped_in(address, n_bytes);
    return memory && memory->address == address && memory->n_bytes == n_bytes ? memory : NULL;
}

static struct cushim_mem_heap *account_of(const struct cushim_mapped_memory *memory) {
    return accounts[memory->properties.location.id];
}

/* Idle memory is held and charged, as that of a heap, and recorded as a segment. */
static void count_idle(const struct cushim_mapped_memory *memory, bool is_idle) {
    struct cushim_mem_heap *account = account_of(memory);
    size_t change = is_idle ? memory->n_bytes : -memory->n_bytes;
    cushim_mem_stats_add(&account->stats->held_bytes, change);
    cushim_mem_stats_add(&account->stats->free_segment_bytes, change);
    account->free_segment_bytes += change;
    if (cushim_process.is_watched)
        cushim_tracing_segment(account->stats, account, memory->address, memory->n_bytes, is_idle);
    cushim_device_limit_charge(account->device, false, memory->n_bytes, is_idle);
}

void cushim_mapped_take(struct cushim_mapped_memory *memory) {
    count_idle(memory, false);
    cushim_mem_watermark_count_taken(account_of(memory), memory->n_bytes);
    memory->n_references = 1;
}

static void delete (struct cushim_mapped_memory *memory) {
    if (!memory->is_forgotten)
        HASH_DEL(memories, memory);
    free(memory);
}

void cushim_mapped_settle(struct cushim_mapped_memory *memory) {
    ptrdiff_t n_bytes = (ptrdiff_t)memory->n_bytes;
    if (memory->n_references || memory->n_mappings)
        return;
    if (!memory->is_forgotten)
        cushim_foreign_gone(memory->handle);
    cushim_mem_heap_count(account_of(memory), -n_bytes, memory->address ? 0 : -n_bytes);
    if (memory->address)
        count_idle(memory, true);
    else
        delete (memory);
}

/* From now on copies are judged that begin in no block of ours. */
void cushim_mapped_unmap(struct cushim_mapped_memory *memory) {
    memory->n_mappings = 0;
    memory->thread = &cushim_thread;
    DL_APPEND(cushim_mapped_unmapped, memory);
    if (!atomic_exchange(&was_any_unmapped, true))
        cushim_mem_pagemap_vacate(&cushim_process.blocks.map, memory->address, 0);
    cushim_mapped_settle(memory);
}

bool cushim_mapped_is_unmapped(CUdeviceptr address) {
    if (!atomic_load_explicit(&was_any_unmapped, memory_order_relaxed))
        return false;
    CUSHIM_MAPPED_LOCKED;
    const struct cushim_mapped_memory *memory = cushim_mapped_in(address, 1);
    return memory && !memory->n_mappings;
}

int cushim_mapped_spilled_at(CUdeviceptr address) {
    if (!atomic_load_explicit(&was_any_spilled, memory_order_relaxed))
        return -1;
    CUSHIM_MAPPED_LOCKED;
    size_t place = cushim_rows_place(&cushim_mapped_places, address);
    const struct cushim_mapped_memory *memory =
        cushim_rows_reach(&cushim_mapped_places, place, address, 1)
            ? cushim_mapped_places.row[place].memory
            : NULL;
    return memory && memory->is_spilled ? memory->properties.location.id : -1;
}

/* The first memory of a device opens its account. */
static bool has_account(struct cushim_cuda *cuda, int device) {
    if (accounts[device])
        return true;
    struct cushim_mem_heap *account = calloc(1, sizeof *account);
    if (account)
        cushim_mem_heap_open(account,
                             &(struct cushim_mem_heap_setup){
                                 .cuda = cuda,
                                 .device = device,
                                 .policy = &policy,
                                 .stats = &cushim_page.stats[device][CUSHIM_KIND_MAPPED],
                                 .neighbour = &cushim_page.stats[device][CUSHIM_KIND_DEVICE],
                                 .guard = &cushim_capture_guard});
    accounts[device] = account;
    if (atomic_load(&n_accounts) <= device)
        atomic_store(&n_accounts, device + 1);
    atomic_store(&cushim_control.is_looked_at, true);
    return account;
}

bool cushim_mapped_add(struct cushim_cuda *cuda, const struct cushim_foreign *foreign,
                       const CUmemAllocationProp *properties) {
    struct cushim_mapped_memory *memory = cushim_mapped_find(foreign->address);
    if (memory) { /* another thread is about to see that it went, or it went unseen */
        cushim_foreign_gone(memory->handle);
        HASH_DEL(memories, memory);
        memory->is_forgotten = true;
    }
    memory = calloc(1, sizeof *memory);
    if (!memory || !has_account(cuda, properties->location.id)) {
        free(memory);
        return false;
    }
    bool is_spilled = foreign->kind == CUSHIM_KIND_SPILLED;
    *memory = (struct cushim_mapped_memory){.handle = foreign->address,
                                            .n_bytes = is_spilled ? 0 : foreign->n_bytes,
                                            .properties = *properties,
                                            .n_references = 1,
                                            .is_spilled = is_spilled};
    if (is_spilled)
        atomic_store(&was_any_spilled, true);
    HASH_ADD(hh, memories, handle, sizeof memory->handle, memory);
    if (cushim_mapped_find(foreign->address) != memory) { /* uthash was out of memory */
        free(memory);
        return false;
    }
    struct cushim_mem_heap *account = account_of(memory);
    cushim_mem_heap_count(account, 0, (ptrdiff_t)memory->n_bytes);
    cushim_mem_watermark_note_fetched(account, memory->n_bytes);
    cushim_mem_watermark_count_taken(account, memory->n_bytes);
    return true;
}

/* ---- kept memory, under the lock ---- */

/* The driver's calls, without the lock: what the program has not is given back. */
static CUresult give_back(struct cushim_cuda *cuda, struct cushim_mapped_memory *memory) {
    CUresult answer = CUDA_SUCCESS;
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    if (!memory->n_mappings && !memory->is_unmapped)
        answer = cuda->cuMemUnmap(memory->address, memory->n_bytes);
    memory->is_unmapped = !memory->n_mappings && answer == CUDA_SUCCESS;
    if (answer == CUDA_SUCCESS && !memory->n_references)
        answer = cuda->cuMemRelease(memory->handle);
    if (answer == CUDA_SUCCESS && !memory->has_address) /* one that stays reserved does no harm */
        cuda->cuMemAddressFree(memory->address, memory->n_bytes);
    cushim_mode_back(cuda, mode);
    return answer;
}

/* It is kept no longer. */
static void let_go(struct cushim_mapped_memory *memory) {
    size_t place = cushim_rows_place(&cushim_mapped_reservations, memory->address);
    /* the driver may have given its address anew, or is gone */
    while (place < cushim_mapped_reservations.n &&
           cushim_mapped_reservations.row[place].memory != memory)
        place++;
    if (place < cushim_mapped_reservations.n)
        cushim_mapped_reservations.row[place].memory = NULL;
    if (place < cushim_mapped_reservations.n && !memory->has_address)
        cushim_rows_erase(&cushim_mapped_reservations, place);
    bool is_idle = !memory->n_references && !memory->n_mappings;
    if (is_idle)
        count_idle(memory, false);
    memory->address = 0;
    memory->is_unmapped = false;
    if (!is_idle)
        return;
    cushim_mem_heap_count(account_of(memory), 0, -(ptrdiff_t)memory->n_bytes);
    cushim_mem_watermark_note_returned(account_of(memory), memory->n_bytes);
    delete (memory);
}

CUresult cushim_mapped_catch_up(struct cushim_cuda *cuda, struct cushim_mapped_memory *memory) {
    bool is_mapped = memory->n_mappings;
    if (!is_mapped)
        DL_DELETE(cushim_mapped_unmapped, memory);
    memory->is_leaving = true;
    pthread_mutex_unlock(&lock);
    CUresult answer = give_back(cuda, memory);
    pthread_mutex_lock(&lock);
    memory->is_leaving = false;
    pthread_cond_broadcast(&caught_up);
    if (answer == CUDA_SUCCESS)
        let_go(memory);
    else if (!is_mapped)
        DL_APPEND(cushim_mapped_unmapped, memory);
    return answer;
}

CUresult cushim_mapped_catch_up_in(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes) {
    struct cushim_mapped_memory *memory;
    CUresult answer = CUDA_SUCCESS;
    while (answer == CUDA_SUCCESS && (memory = cushim_mapped_in(address, n_bytes)))
        answer = cushim_mapped_catch_up(cuda, memory);
    return answer;
}

CUresult cushim_mapped_catch_up_of(struct cushim_cuda *cuda, CUmemGenericAllocationHandle handle) {
    struct cushim_mapped_memory *memory = cushim_mapped_find(handle);
    return memory && memory->address ? cushim_mapped_catch_up(cuda, memory) : CUDA_SUCCESS;
}

/* What goes back first, as in heaps: the largest that the program no longer has, of these that
 * which is idle longest. */
static struct cushim_mapped_memory *largest_idle(const struct cushim_mem_heap *account) {
    struct cushim_mapped_memory *memory, *largest = NULL;
    DL_FOREACH(cushim_mapped_unmapped, memory) {
        if (!memory->n_references && account_of(memory) == account &&
            (!largest || memory->n_bytes > largest->n_bytes))
            largest = memory;
    }
    return largest;
}

static size_t trim(struct cushim_cuda *cuda, struct cushim_mem_heap *account, size_t most_bytes) {
    size_t n_bytes = 0;
    struct cushim_mapped_memory *memory;
    while (account->held_bytes > most_bytes && (memory = largest_idle(account))) {
        size_t size = memory->n_bytes;
        if (cushim_mapped_catch_up(cuda, memory) != CUDA_SUCCESS) /* others had the lock */
            break;
        n_bytes += size;
    }
    return n_bytes;
}

void cushim_mapped_make_room(struct cushim_cuda *cuda, int device, size_t n_bytes) {
    struct cushim_mem_heap *account = accounts[device];
    if (!account)
        return;
    CUSHIM_MAPPED_LOCKED;
    trim(cuda, account, cushim_less(cushim_mem_watermark_with(account, n_bytes), n_bytes));
}

/* How much may be idle is the rule of heaps.  What the driver has free is known to the heap of the
 * current context. */
void cushim_mapped_look(struct cushim_cuda *cuda, int device) {
    struct cushim_mem_heap *account = accounts[device];
    if (!atomic_load_explicit(&account->has_slack, memory_order_relaxed) &&
        !account->policy->has_keep)
        return;
    struct cushim_mem_heap *heap = cushim_contexts_hold_current(cuda);
    if (heap)
        cushim_mem_watermark_ask(heap);
    int cancel = cushim_mapped_enter();
    if (heap && heap->device == account->device) {
        account->watermark.device_bytes = heap->watermark.device_bytes;
        account->watermark.device_free_bytes = heap->watermark.device_free_bytes;
    }
    trim(cuda, account, cushim_mem_watermark_now(account));
    cushim_mapped_leave(cancel);
    if (heap)
        cushim_contexts_let(heap);
}

size_t cushim_mapped_give_back(int device) {
    size_t n_bytes = 0;
    struct cushim_cuda *cuda = cushim_driver();
    if (!cuda || !cushim_process_is_on() || cushim_thread.host_function_depth)
        return 0;
    CUSHIM_MAPPED_LOCKED;
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        if (accounts[i] && (device < 0 || device == i))
            n_bytes += trim(cuda, accounts[i], 0);
    }
    return n_bytes;
}

void cushim_mapped_give_back_stale(void) {
    if (!cushim_process_is_on() || cushim_thread.host_function_depth)
        return;
    for (int i = 0; i < atomic_load_explicit(&n_accounts, memory_order_acquire); i++) {
        if (accounts[i] && cushim_mem_heap_is_stale(accounts[i]))
            cushim_mapped_look(cushim_driver(), i);
    }
}

void cushim_mapped_drop_all(void) {
    struct cushim_mapped_memory *memory, *next;
    CUSHIM_MAPPED_LOCKED;
    HASH_ITER(hh, memories, memory, next) {
        if (memory->is_leaving)
            continue; /* its thread lets it go */
        if (memory->address && !memory->n_references && !memory->n_mappings) {
            let_go(memory);
        } else {
            memory->address = memory->n_references = memory->n_mappings = 0;
            cushim_mapped_settle(memory);
        }
    }
    cushim_mapped_reservations.n = cushim_mapped_places.n = 0;
    cushim_mapped_unmapped = NULL;
}
