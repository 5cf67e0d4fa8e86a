#include "preload/entry/mapped_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "base/cancel.h"
#include "base/log.h"
#include "cuda/current_context.h"
#include "memory/heap.h"
#include "memory/state/heap_state.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/entry/memory_kinds.h"
#include "preload/observe/check.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/live.h"
#include "preload/state/process_options.h"

/*
 * What the program has of the memory; with neither a reference nor a mapping it is gone, or idle if
 * it is kept.  Of kept memory the driver has one reference at least, the mapping and the address.
 */
struct memory {
    CUmemGenericAllocationHandle handle;
    size_t n_bytes;
    CUmemAllocationProp properties;
    uint64_t n_references, n_mappings;
    bool has_address;    /* of kept memory, as are those from align_bytes to next */
    bool is_shared;      /* something that we do not see may use it, so it is not kept */
    bool is_forgotten;   /* the driver gave its handle anew */
    CUdeviceptr address; /* 0: it is not kept */
    size_t align_bytes;
    uint64_t access;            /* the devices that may read and write it */
    const void *thread;         /* that took or unmapped it last */
    bool is_unmapped;           /* by the driver, which then refused the release */
    bool is_leaving;            /* a thread makes the driver catch up */
    struct memory *prev, *next; /* in `unmapped` */
    UT_hash_handle hh;
};

/* Addresses, the lowest first: what the program reserved without a hint, and what it mapped. */
struct row {
    CUdeviceptr address;
    size_t n_bytes, align_bytes;
    struct memory *memory; /* of a reservation: that is kept there, or NULL */
    const void *leaver;    /* the thread that is about to unmap it */
};

struct rows {
    struct row *row;
    size_t n, most;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t caught_up = PTHREAD_COND_INITIALIZER;
static struct memory *memories;
static struct memory *unmapped; /* kept memory without a mapping of the program, oldest first */
static struct rows mappings, reservations;
static _Atomic(struct cushim_mem_heap *)
    accounts[CUSHIM_MAX_DEVICES]; /* what is held, and may be */
static struct cushim_mem_policy policy;
static bool is_pooled;

/* A thread that was cancelled in here would keep the lock. */
static int enter(void) {
    int cancel = cushim_cancel_hold();
    pthread_mutex_lock(&lock);
    return cancel;
}

static void leave(int cancel) {
    pthread_mutex_unlock(&lock);
    cushim_cancel_let(cancel);
}

/* Under the lock: is the driver to catch up with this memory?  Then wait until it has, and look
 * again. */
static bool has_waited(const struct memory *memory) {
    if (!memory || !memory->is_leaving)
        return false;
    pthread_cond_wait(&caught_up, &lock);
    return true;
}

void cushim_mapped_memory_configure(void) {
    policy = cushim_process.policy;
    policy.reserve = (struct cushim_amount){0}; /* which heaps hold */
    is_pooled = cushim_process_options.mapped && cushim_process_options.pool &&
                !cushim_check_is_on() &&
                !cushim_memory_kinds_is_cleared_by_device(CUSHIM_MEM_DEVICE);
}

/* May memory be kept, and serve?  Not if other devices may read it behind the driver's back. */
static bool keeps(struct cushim_cuda *cuda) {
    return is_pooled && cushim_entry_is_open(cuda) &&
           !atomic_load_explicit(&cushim_process.policy.is_dedicated_uncached,
                                 memory_order_relaxed);
}

/* ---- rows, under the lock ---- */

/* The first that ends above this address. */
static size_t place_of(const struct rows *rows, CUdeviceptr address) {
    size_t low = 0, high = rows->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows->row[middle].address + rows->row[middle].n_bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Does the row at this place begin in the range, or reach into it? */
static bool is_in(const struct rows *rows, size_t place, CUdeviceptr address, size_t n_bytes) {
    return place < rows->n &&
           (rows->row[place].address <= address || rows->row[place].address - address < n_bytes);
}

/* False: host memory is out. */
static bool insert(struct rows *rows, struct row row) {
    if (rows->n == rows->most) {
        size_t most = rows->most ? 2 * rows->most : 64;
        struct row *grown = reallocarray(rows->row, most, sizeof *grown);
        if (!grown)
            return false;
        rows->row = grown;
        rows->most = most;
    }
    size_t place = place_of(rows, row.address);
    memmove(rows->row + place + 1, rows->row + place, (rows->n - place) * sizeof row);
    rows->row[place] = row;
    rows->n++;
    return true;
}

static void erase(struct rows *rows, size_t place) {
    rows->n--;
    memmove(rows->row + place, rows->row + place + 1, (rows->n - place) * sizeof *rows->row);
}

/* The row of exactly this range; NULL: none. */
static struct row *row_at(struct rows *rows, CUdeviceptr address, size_t n_bytes) {
    size_t place = place_of(rows, address);
    struct row *row = place < rows->n ? &rows->row[place] : NULL;
    return row && row->address == address && row->n_bytes == n_bytes ? row : NULL;
}

/* ---- memory, under the lock ---- */

static struct memory *find(CUmemGenericAllocationHandle handle) {
    struct memory *memory;
    do
        HASH_FIND(hh, memories, &handle, sizeof handle, memory);
    while (has_waited(memory));
    return memory;
}

/* The first kept memory that reaches into a range. */
static struct memory *kept_in(CUdeviceptr address, size_t n_bytes) {
    struct memory *memory;
    do {
        memory = NULL;
        for (size_t place = place_of(&reservations, address);
             !memory && is_in(&reservations, place, address, n_bytes); place++)
            memory = reservations.row[place].memory;
    } while (has_waited(memory));
    return memory;
}

/* That which is kept over exactly this range; NULL: none. */
static struct memory *kept_at(CUdeviceptr address, size_t n_bytes) {
    struct memory *memory = kept_in(address, n_bytes);
    return memory && memory->address == address && memory->n_bytes == n_bytes ? memory : NULL;
}

static struct cushim_mem_heap *account_of(const struct memory *memory) {
    return accounts[memory->properties.location.id];
}

/* Idle memory is held and charged, as that of a heap. */
static void count_idle(const struct memory *memory, bool is_idle) {
    struct cushim_mem_heap *account = account_of(memory);
    size_t change = is_idle ? memory->n_bytes : -memory->n_bytes;
    cushim_mem_stats_add(&account->stats->held_bytes, change);
    cushim_mem_stats_add(&account->stats->free_segment_bytes, change);
    account->free_segment_bytes += change;
    cushim_device_limit_charge(account->device, memory->n_bytes, is_idle);
}

static void delete (struct memory *memory) {
    if (!memory->is_forgotten)
        HASH_DEL(memories, memory);
    free(memory);
}

static void count_gone(const struct memory *memory) {
    struct cushim_foreign foreign;
    if (cushim_foreign_erase(memory->handle, &foreign))
        cushim_foreign_count_free(&foreign);
}

/* The program gave a reference or a mapping back. */
static void settle(struct memory *memory) {
    ptrdiff_t n_bytes = (ptrdiff_t)memory->n_bytes;
    if (memory->n_references || memory->n_mappings)
        return;
    if (!memory->is_forgotten)
        count_gone(memory);
    cushim_mem_heap_count(account_of(memory), -n_bytes, memory->address ? 0 : -n_bytes);
    if (memory->address)
        count_idle(memory, true);
    else
        delete (memory);
}

/* The first memory of a device opens its account. */
static bool has_account(struct cushim_cuda *cuda, const struct cushim_foreign *foreign,
                        int device) {
    if (accounts[device])
        return true;
    struct cushim_mem_heap *account = calloc(1, sizeof *account);
    if (account)
        cushim_mem_heap_open(account,
                             &(struct cushim_mem_heap_setup){.cuda = cuda,
                                                             .device = device,
                                                             .policy = &policy,
                                                             .stats = foreign->stats,
                                                             .guard = &cushim_capture_guard});
    accounts[device] = account;
    return account;
}

/* The driver made it.  False: host memory is out, and nobody counts it. */
static bool add(struct cushim_cuda *cuda, const struct cushim_foreign *foreign,
                const CUmemAllocationProp *properties) {
    struct memory *memory = find(foreign->address);
    if (memory) { /* another thread is about to see that it went, or it went unseen */
        count_gone(memory);
        HASH_DEL(memories, memory);
        memory->is_forgotten = true;
    }
    memory = calloc(1, sizeof *memory);
    if (!memory || !has_account(cuda, foreign, properties->location.id)) {
        free(memory);
        return false;
    }
    *memory = (struct memory){.handle = foreign->address,
                              .n_bytes = foreign->n_bytes,
                              .properties = *properties,
                              .n_references = 1};
    HASH_ADD(hh, memories, handle, sizeof memory->handle, memory);
    if (find(foreign->address) != memory) { /* uthash was out of memory */
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
static CUresult give_back(struct cushim_cuda *cuda, struct memory *memory) {
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
static void let_go(struct memory *memory) {
    size_t place = place_of(&reservations, memory->address);
    while (reservations.row[place].memory !=
           memory) /* the driver may have given its address anew */
        place++;
    reservations.row[place].memory = NULL;
    if (!memory->has_address)
        erase(&reservations, place);
    memory->address = 0;
    memory->is_unmapped = false;
    if (memory->n_references || memory->n_mappings)
        return;
    count_idle(memory, false);
    cushim_mem_heap_count(account_of(memory), 0, -(ptrdiff_t)memory->n_bytes);
    cushim_mem_watermark_note_returned(account_of(memory), memory->n_bytes);
    delete (memory);
}

/* Make the driver's state that which the program knows.  The lock is let go meanwhile, and the
 * memory may be gone afterwards.  If the driver refuses, the memory is as before. */
static CUresult catch_up(struct cushim_cuda *cuda, struct memory *memory) {
    bool is_mapped = memory->n_mappings;
    if (!is_mapped)
        DL_DELETE(unmapped, memory);
    memory->is_leaving = true;
    pthread_mutex_unlock(&lock);
    CUresult answer = give_back(cuda, memory);
    pthread_mutex_lock(&lock);
    memory->is_leaving = false;
    pthread_cond_broadcast(&caught_up);
    if (answer == CUDA_SUCCESS)
        let_go(memory);
    else if (!is_mapped)
        DL_APPEND(unmapped, memory);
    return answer;
}

static CUresult catch_up_in(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes) {
    struct memory *memory;
    CUresult answer = CUDA_SUCCESS;
    while (answer == CUDA_SUCCESS && (memory = kept_in(address, n_bytes)))
        answer = catch_up(cuda, memory);
    return answer;
}

static CUresult catch_up_of(struct cushim_cuda *cuda, CUmemGenericAllocationHandle handle) {
    struct memory *memory = find(handle);
    return memory && memory->address ? catch_up(cuda, memory) : CUDA_SUCCESS;
}

/* Memory that the program no longer has goes back, the longest idle first. */
static size_t trim(struct cushim_cuda *cuda, struct cushim_mem_heap *account, size_t most_bytes) {
    size_t n_bytes = 0;
    struct memory *memory = unmapped;
    while (memory && account->held_bytes > most_bytes) {
        size_t size = memory->n_bytes;
        if (memory->n_references || account_of(memory) != account) {
            memory = memory->next;
        } else if (catch_up(cuda, memory) == CUDA_SUCCESS) {
            n_bytes += size;
            memory = unmapped; /* others had the lock */
        } else {
            break;
        }
    }
    return n_bytes;
}

/* Without the lock, after memory became idle: how much may be is the heap's rule.  The driver's
 * word is that of the heap of the current context. */
static void look(struct cushim_cuda *cuda, struct cushim_mem_heap *account) {
    if (!atomic_load_explicit(&account->has_slack, memory_order_relaxed) &&
        !account->policy->has_keep)
        return;
    struct cushim_mem_heap *heap = cushim_contexts_hold_current(cuda);
    if (heap)
        cushim_mem_watermark_ask(heap);
    int cancel = enter();
    if (heap && heap->device == account->device) {
        account->watermark.device_bytes = heap->watermark.device_bytes;
        account->watermark.device_free_bytes = heap->watermark.device_free_bytes;
    }
    trim(cuda, account, cushim_mem_watermark_now(account));
    leave(cancel);
    if (heap)
        cushim_contexts_let(heap);
}

size_t cushim_mapped_memory_give_back(int device) {
    size_t n_bytes = 0;
    struct cushim_cuda *cuda = cushim_driver();
    if (!cuda || !cushim_process_is_on() || cushim_thread.host_function_depth)
        return 0;
    int cancel = enter();
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        if (accounts[i] && (device < 0 || device == i))
            n_bytes += trim(cuda, accounts[i], 0);
    }
    leave(cancel);
    return n_bytes;
}

void cushim_mapped_memory_give_back_stale(void) {
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        if (accounts[i] && cushim_mem_heap_is_stale(accounts[i]))
            look(cushim_driver(), accounts[i]);
    }
}

void cushim_mapped_memory_drop_all(void) {
    struct memory *memory, *next;
    int cancel = enter();
    HASH_ITER(hh, memories, memory, next) {
        bool is_idle = memory->address && !memory->n_references && !memory->n_mappings;
        if (is_idle) {
            let_go(memory);
            continue;
        }
        memory->address = memory->n_references = memory->n_mappings = 0;
        settle(memory);
    }
    reservations.n = mappings.n = 0;
    unmapped = NULL;
    leave(cancel);
}

/* ---- calls for a part of kept memory ---- */

/*
 * Kept memory of which the program lacks this part, its handle or its address: that of which this
 * thread took the other part first, else that of which the program has no part, the last unmapped.
 */
static struct memory *pick(size_t n_bytes, const CUmemAllocationProp *properties,
                           size_t align_bytes) {
    struct memory *memory, *parked = NULL;
    DL_FOREACH(unmapped, memory) {
        bool has_part = properties ? memory->n_references : memory->has_address;
        bool has_other = properties ? memory->has_address : memory->n_references;
        bool fits = properties ? !memcmp(&memory->properties, properties, sizeof *properties)
                               : memory->align_bytes == align_bytes;
        if (has_part || memory->is_unmapped || memory->n_bytes != n_bytes || !fits)
            continue;
        if (has_other && memory->thread == &cushim_thread)
            return memory;
        if (!has_other)
            parked = memory;
    }
    return parked;
}

static bool create_kept(CUmemGenericAllocationHandle *handle, size_t n_bytes,
                        const CUmemAllocationProp *properties) {
    int cancel = enter();
    struct memory *memory = pick(n_bytes, properties, 0);
    if (memory) {
        count_idle(memory, false);
        cushim_mem_watermark_count_taken(account_of(memory), n_bytes);
        memory->n_references = 1;
        memory->thread = &cushim_thread;
        *handle = memory->handle;
    }
    leave(cancel);
    return memory;
}

static bool reserve_kept(CUdeviceptr *address, size_t n_bytes, size_t align_bytes) {
    int cancel = enter();
    struct memory *memory = pick(n_bytes, NULL, align_bytes);
    if (memory) {
        memory->has_address = true;
        memory->thread = &cushim_thread;
        *address = memory->address;
    }
    leave(cancel);
    return memory;
}

/* Under the lock, as the next three. */
static bool map_kept(CUdeviceptr address, size_t n_bytes, CUmemGenericAllocationHandle handle) {
    struct memory *memory = kept_at(address, n_bytes);
    if (!memory || memory->handle != handle || !memory->n_references || memory->n_mappings ||
        !memory->has_address || !insert(&mappings, (struct row){address, n_bytes, 0, memory, NULL}))
        return false;
    memory->n_mappings = 1;
    DL_DELETE(unmapped, memory);
    return true;
}

static struct memory *unmap_kept(CUdeviceptr address, size_t n_bytes) {
    struct memory *memory = kept_at(address, n_bytes);
    if (!memory || !memory->n_mappings)
        return NULL;
    erase(&mappings, place_of(&mappings, address));
    memory->n_mappings = 0;
    memory->thread = &cushim_thread;
    DL_APPEND(unmapped, memory);
    settle(memory);
    return memory;
}

static struct memory *release_kept(CUmemGenericAllocationHandle handle) {
    struct memory *memory = find(handle);
    if (!memory || !memory->address || memory->n_references != 1)
        return NULL;
    memory->n_references = 0;
    settle(memory);
    return memory;
}

static bool unreserve_kept(CUdeviceptr address, size_t n_bytes) {
    struct memory *memory = kept_at(address, n_bytes);
    if (!memory || !memory->has_address || memory->n_mappings)
        return false;
    memory->has_address = false;
    return true;
}

/* ---- calls ---- */

/* NULL: it is no device's memory, or of a device that nobody counts. */
static struct cushim_mem_stats *stats_of(const CUmemAllocationProp *properties) {
    if (!cushim_process_is_on() || !properties ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id < 0 ||
        properties->location.id >= CUSHIM_MAX_DEVICES)
        return NULL;
    struct cushim_mem_stats *of_device = cushim_page.stats[properties->location.id];
    cushim_live_show(of_device, sizeof cushim_page.stats[0]);
    return &of_device[CUSHIM_KIND_MAPPED];
}

CUresult cushim_mapped_memory_create(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     size_t n_bytes, const CUmemAllocationProp *properties,
                                     unsigned long long flags) {
    struct cushim_foreign foreign = {
        .n_bytes = n_bytes, .kind = CUSHIM_KIND_MAPPED, .stats = stats_of(properties)};
    if (!foreign.stats)
        return cuda->cuMemCreate(handle, n_bytes, properties, flags);
    foreign.is_hit = handle && !flags && keeps(cuda) && create_kept(handle, n_bytes, properties);
    if (foreign.is_hit) {
        foreign.address = *handle;
        return cushim_entry_note_foreign(&foreign, CUDA_SUCCESS);
    }
    if (!cushim_device_limit_admits_on(cuda, properties->location.id, n_bytes))
        return cushim_entry_note_foreign(&foreign, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult answer = cuda->cuMemCreate(handle, n_bytes, properties, flags);
    if (cushim_entry_should_retry(answer))
        answer = cuda->cuMemCreate(handle, n_bytes, properties, flags);
    if (answer == CUDA_SUCCESS) {
        log_debug("request", "cuMemCreate of size %zu was forwarded", n_bytes);
        foreign.address = *handle;
        int cancel = enter();
        bool is_added = add(cuda, &foreign, properties);
        leave(cancel);
        if (!is_added)
            return answer;
    }
    return cushim_entry_note_foreign(&foreign, answer);
}

CUresult cushim_mapped_memory_release(struct cushim_cuda *cuda,
                                      CUmemGenericAllocationHandle handle) {
    bool may_keep = keeps(cuda);
    int cancel = enter();
    struct memory *memory = may_keep ? release_kept(handle) : NULL;
    if (memory) {
        struct cushim_mem_heap *account = account_of(memory);
        leave(cancel);
        look(cuda, account);
        return CUDA_SUCCESS;
    }
    memory = find(handle);
    CUresult answer = CUDA_SUCCESS;
    if (memory && memory->address && memory->n_references <= 1)
        answer = catch_up(cuda, memory);
    memory = find(handle);
    leave(cancel);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuMemRelease(handle);
    cancel = enter();
    if (memory && memory->n_references && answer == CUDA_SUCCESS) {
        memory->n_references--;
        settle(memory);
    }
    leave(cancel);
    return answer;
}

static void count_reference(CUmemGenericAllocationHandle handle) {
    struct memory *memory = find(handle);
    if (memory)
        memory->n_references++;
}

/* If the program released all references of what it has mapped, the driver still has ours. */
CUresult cushim_mapped_memory_retain(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *address) {
    CUresult answer = cushim_mapped_memory_ask_at(cuda, (CUdeviceptr)(uintptr_t)address);
    int cancel = enter();
    struct memory *memory = kept_in((CUdeviceptr)(uintptr_t)address, 1);
    bool is_ours = memory && memory->n_mappings && !memory->n_references && handle;
    if (is_ours) {
        memory->n_references = 1;
        *handle = memory->handle;
    }
    leave(cancel);
    if (is_ours || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemRetainAllocationHandle(handle, address);
    cancel = enter();
    if (answer == CUDA_SUCCESS)
        count_reference(*handle);
    leave(cancel);
    return answer;
}

/* Of memory that this process made, a driver may give the handle that it has. */
CUresult cushim_mapped_memory_import(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *shared, CUmemAllocationHandleType type) {
    CUresult answer = cuda->cuMemImportFromShareableHandle(handle, shared, type);
    int cancel = enter();
    if (answer == CUDA_SUCCESS)
        count_reference(*handle);
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_reserve(struct cushim_cuda *cuda, CUdeviceptr *address,
                                      size_t n_bytes, size_t align_bytes, CUdeviceptr hint,
                                      unsigned long long flags) {
    bool is_plain = address && !hint && !flags;
    if (is_plain && keeps(cuda) && reserve_kept(address, n_bytes, align_bytes))
        return CUDA_SUCCESS;
    int cancel = enter();
    CUresult answer = hint ? catch_up_in(cuda, hint, n_bytes) : CUDA_SUCCESS;
    leave(cancel);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuMemAddressReserve(address, n_bytes, align_bytes, hint, flags);
    if (answer != CUDA_SUCCESS || !is_plain)
        return answer;
    cancel = enter();
    insert(&reservations, (struct row){.address = *address, n_bytes, align_bytes, NULL, NULL});
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_unreserve(struct cushim_cuda *cuda, CUdeviceptr address,
                                        size_t n_bytes) {
    struct row row = {0};
    bool may_keep = keeps(cuda);
    int cancel = enter();
    bool is_done = may_keep && unreserve_kept(address, n_bytes);
    CUresult answer = is_done ? CUDA_SUCCESS : catch_up_in(cuda, address, n_bytes);
    struct row *found = is_done ? NULL : row_at(&reservations, address, n_bytes);
    if (found) {
        row = *found;
        erase(&reservations, (size_t)(found - reservations.row));
    }
    leave(cancel);
    if (is_done)
        return answer;
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuMemAddressFree(address, n_bytes);
    if (answer == CUDA_SUCCESS || !found)
        return answer;
    cancel = enter();
    insert(&reservations, row);
    leave(cancel);
    return answer;
}

/* After the driver's map.  Without memory of the host for its row, the mapping does not keep its
 * memory alive in the account. */
static void mapped(CUdeviceptr address, size_t n_bytes, CUmemGenericAllocationHandle handle,
                   bool is_whole) {
    struct memory *memory = find(handle);
    struct row *reservation = row_at(&reservations, address, n_bytes);
    if (!memory || !insert(&mappings, (struct row){address, n_bytes, 0, memory, NULL}))
        return;
    memory->n_mappings++;
    if (!is_whole || !reservation || memory->n_bytes != n_bytes || memory->n_mappings != 1 ||
        memory->is_shared)
        return;
    reservation->memory = memory;
    memory->address = address;
    memory->align_bytes = reservation->align_bytes;
    memory->has_address = true;
    memory->access = 0;
}

CUresult cushim_mapped_memory_map(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes,
                                  size_t offset, CUmemGenericAllocationHandle handle,
                                  unsigned long long flags) {
    bool is_whole = !offset && !flags && keeps(cuda);
    int cancel = enter();
    bool is_done = is_whole && map_kept(address, n_bytes, handle);
    CUresult answer = is_done ? CUDA_SUCCESS : catch_up_in(cuda, address, n_bytes);
    if (answer == CUDA_SUCCESS && !is_done)
        answer = catch_up_of(cuda, handle);
    leave(cancel);
    if (is_done || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemMap(address, n_bytes, offset, handle, flags);
    cancel = enter();
    if (answer == CUDA_SUCCESS)
        mapped(address, n_bytes, handle, is_whole);
    leave(cancel);
    return answer;
}

/* The driver unmaps whole mappings alone, and passes over what is not mapped between them. */
static void mark(CUdeviceptr address, size_t n_bytes) {
    for (size_t place = place_of(&mappings, address); is_in(&mappings, place, address, n_bytes);
         place++)
        mappings.row[place].leaver = &cushim_thread;
}

/* The driver has answered for what was marked. */
static void drop_marked(CUdeviceptr address, size_t n_bytes, bool is_gone) {
    size_t place = place_of(&mappings, address);
    while (is_in(&mappings, place, address, n_bytes)) {
        struct row *row = &mappings.row[place];
        bool is_mine = row->leaver == &cushim_thread;
        if (!is_mine || !is_gone) {
            row->leaver = is_mine ? NULL : row->leaver;
            place++;
            continue;
        }
        row->memory->n_mappings--;
        settle(row->memory);
        erase(&mappings, place);
    }
}

CUresult cushim_mapped_memory_unmap(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes) {
    bool may_keep = keeps(cuda);
    int cancel = enter();
    struct memory *memory = may_keep ? unmap_kept(address, n_bytes) : NULL;
    struct cushim_mem_heap *account = memory ? account_of(memory) : NULL;
    CUresult answer = account ? CUDA_SUCCESS : catch_up_in(cuda, address, n_bytes);
    if (!account && answer == CUDA_SUCCESS)
        mark(address, n_bytes);
    leave(cancel);
    if (account)
        look(cuda, account);
    if (account || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemUnmap(address, n_bytes);
    cancel = enter();
    drop_marked(address, n_bytes, answer == CUDA_SUCCESS);
    leave(cancel);
    return answer;
}

/* The devices that are to read and write; 0: something else is asked. */
static uint64_t devices_of(const CUmemAccessDesc *access, size_t n) {
    uint64_t devices = 0;
    for (size_t i = 0; access && i < n; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id < 0 ||
            access[i].location.id >= 64 || access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return 0;
        devices |= (uint64_t)1 << access[i].location.id;
    }
    return devices;
}

CUresult cushim_mapped_memory_set_access(struct cushim_cuda *cuda, CUdeviceptr address,
                                         size_t n_bytes, const CUmemAccessDesc *access, size_t n) {
    uint64_t devices = devices_of(access, n);
    int cancel = enter();
    struct memory *memory = kept_at(address, n_bytes);
    bool is_kept = devices && memory && memory->n_mappings;
    bool is_done = is_kept && !(devices & ~memory->access);
    CUresult answer = is_kept ? CUDA_SUCCESS : catch_up_in(cuda, address, n_bytes);
    leave(cancel);
    if (is_done || answer != CUDA_SUCCESS)
        return answer;
    answer = cuda->cuMemSetAccess(address, n_bytes, access, n);
    cancel = enter();
    memory = kept_at(address, n_bytes);
    if (is_kept && answer == CUDA_SUCCESS && memory && memory->n_mappings)
        memory->access |= devices;
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_ask_at(struct cushim_cuda *cuda, CUdeviceptr address) {
    int cancel = enter();
    struct memory *memory = kept_in(address, 1);
    CUresult answer = memory && !memory->n_mappings ? catch_up(cuda, memory) : CUDA_SUCCESS;
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_share(struct cushim_cuda *cuda, CUmemGenericAllocationHandle handle) {
    int cancel = enter();
    CUresult answer = catch_up_of(cuda, handle);
    struct memory *memory = find(handle);
    if (memory)
        memory->is_shared = true;
    leave(cancel);
    return answer;
}

CUresult cushim_mapped_memory_share_at(struct cushim_cuda *cuda, CUdeviceptr address,
                                       size_t n_bytes) {
    int cancel = enter();
    CUresult answer = catch_up_in(cuda, address, n_bytes);
    for (size_t place = place_of(&mappings, address); is_in(&mappings, place, address, n_bytes);
         place++)
        mappings.row[place].memory->is_shared = true;
    leave(cancel);
    return answer;
}
