#include "preload/state/contexts.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/lock.h"
#include "copy/ring.h"
#include "cuda/table.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "memory/provider/provider.h"
#include "preload/events.h"
#include "preload/state/captures.h"
#include "preload/state/context_heap.h"
#include "preload/state/live.h"
#include "preload/state/primary.h"
#include "preload/state/process_options.h"

/* One context that we know of. */
struct row {
    CUcontext context;
    struct cushim_context_heap *heap; /* NULL: none yet, or of a green one */
    bool is_green;
    CUcontext primary;   /* of a green one: the context that owns its memory and whose heap serves
                          * it */
    unsigned n_attached; /* uses besides its creator's */
    unsigned n_leaving;  /* threads that are about to end it */
    UT_hash_handle hh;
};

/* Guards the table.  Under it the driver is only asked for facts of a device. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;
static atomic_uint n_heaps;

static struct row *find(CUcontext context) {
    struct row *row;
    HASH_FIND_PTR(rows, &context, row);
    return row;
}

/* The one whose heap serves a context: itself, or the primary one of a green one. */
static CUcontext owner_of(CUcontext context) {
    const struct row *row = find(context);
    return row && row->primary ? row->primary : context;
}

static struct row *find_or_add(CUcontext context) {
    struct row *row = find(context);
    if (row)
        return row;
    row = calloc(1, sizeof *row);
    if (!row)
        return NULL;
    row->context = context;
    HASH_ADD_PTR(rows, context, row);
    if (!find(context)) { /* uthash was out of memory */
        free(row);
        return NULL;
    }
    return row;
}

static const struct cushim_mem_provider *source_of_device(struct cushim_cuda *cuda, int device) {
    bool is_mapped = cushim_process_options.backend && cushim_mem_provider_vmm_fits(cuda, device);
    return is_mapped ? &cushim_mem_provider_vmm : &cushim_mem_provider_device;
}

/* What a report says about the device and its driver.  The caller holds the lock. */
static void note_device(struct cushim_cuda *cuda, CUdevice device) {
    int version = 0;
    CUuuid uuid;
    if (cuda->cuDeviceGetName)
        cuda->cuDeviceGetName(cushim_page.device_names[device], CUSHIM_NAME_BYTES, device);
    if (cuda->cuDeviceGetUuid_v2 && cuda->cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
        memcpy(cushim_page.device_uuids[device], uuid.bytes, sizeof uuid.bytes);
    if (cuda->cuDeviceGetPCIBusId)
        cuda->cuDeviceGetPCIBusId(cushim_page.device_places[device], CUSHIM_PCI_BYTES, device);
    if (cuda->cuDriverGetVersion && cuda->cuDriverGetVersion(&version) == CUDA_SUCCESS)
        atomic_store(&cushim_page.head.driver_version, (uint64_t)version);
}

void cushim_contexts_note_device(struct cushim_cuda *cuda, int device) {
    CUSHIM_LOCKED(&lock);
    note_device(cuda, device);
}

/* Says in the log that cushim is active. */
static void say_heap(CUdevice device) {
    unsigned version = (unsigned)cushim_mem_stats_read(&cushim_page.head.driver_version);
    log_info("pool", "device %d, %s, CUDA %u.%u: memory is pooled from now on; %s came first",
             device, cushim_page.device_names[device], version / 1000, version / 10 % 100,
             cushim_cuda_symbol_name(cushim_thread.symbol));
}

/* Open a heap for the device memory of the current context.  The caller holds the lock. */
static struct cushim_context_heap *open_heap(struct cushim_cuda *cuda, CUcontext context) {
    CUdevice device;
    if (cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return NULL;
    struct row *row = find_or_add(context);
    if (!row)
        return NULL;
    cushim_live_show(cushim_page.stats[device], sizeof cushim_page.stats[device]);
    cushim_events.context_opening(cuda, device);
    note_device(cuda, device);
    row->heap = cushim_context_heap_open(&(struct cushim_mem_heap_setup){
        .cuda = cuda,
        .context = context,
        .device = device,
        .blocks = &cushim_process.blocks,
        .guard = &cushim_capture_guard,
        .policy = &cushim_process.policy,
        .stats = &cushim_page.stats[device][CUSHIM_KIND_DEVICE],
        .neighbour = &cushim_page.stats[device][CUSHIM_KIND_MAPPED],
        .provider = source_of_device(cuda, device),
    });
    if (!row->heap)
        return NULL;
    if (cushim_log_on(CUSHIM_LOG_INFO))
        say_heap(device);
    atomic_fetch_add(&n_heaps, 1);
    cushim_process_note_use();
    return row->heap;
}

/* The context must be current.  Returns the heap, held. */
static struct cushim_mem_heap *find_or_open(struct cushim_cuda *cuda, CUcontext context) {
    cushim_process_note_driver_use();
    CUSHIM_LOCKED(&lock);
    context = owner_of(context);
    struct row *row = find(context);
    struct cushim_context_heap *heap = NULL;
    if (!row || (!row->heap && !row->is_green && !row->n_leaving))
        heap = open_heap(cuda, context);
    else if (row->heap && !row->n_leaving)
        heap = row->heap;
    if (heap)
        atomic_fetch_add(&heap->n_holds, 1);
    return heap ? &heap->heap : NULL;
}

/* The heap that the thread found last, held; NULL if a context has ended since, or is being
 * ended. */
static struct cushim_mem_heap *hold_found(const struct cushim_thread *thread) {
    if (!cushim_contexts_hold(thread->heap))
        return NULL;
    if (cushim_guard_epoch(cushim_guard_now()) == thread->heap_epoch)
        return thread->heap;
    cushim_contexts_let(thread->heap);
    return NULL;
}

struct cushim_mem_heap *cushim_contexts_hold_current(struct cushim_cuda *cuda) {
    CUcontext context = NULL;
    struct cushim_thread *thread = &cushim_thread;
    struct cushim_mem_heap *heap = NULL;
    if (cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    uint64_t now = cushim_guard_epoch(cushim_guard_now());
    if (thread->context == context && thread->heap_epoch == now)
        heap = hold_found(thread);
    if (heap)
        return heap;
    heap = find_or_open(cuda, context);
    if (heap) {
        thread->context = context;
        thread->heap = heap;
        thread->heap_epoch = now;
        cushim_thread_settle(thread);
    }
    return heap;
}

static bool is_current_leaving(struct cushim_cuda *cuda) {
    CUcontext context = NULL;
    if (cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return false;
    CUSHIM_LOCKED(&lock);
    const struct row *row = find(owner_of(context));
    return row && row->n_leaving;
}

struct cushim_mem_heap *cushim_contexts_hold_settled(struct cushim_cuda *cuda) {
    uint64_t until_ns = cushim_clock_ns() + CUSHIM_CONTEXTS_PATIENCE_NS;
    unsigned n_looks = 0;
    struct cushim_mem_heap *heap;
    while (!(heap = cushim_contexts_hold_current(cuda)) && is_current_leaving(cuda) &&
           cushim_clock_ns() < until_ns)
        cushim_futex_back_off(&n_looks);
    return heap;
}

struct cushim_mem_heap *cushim_contexts_current(struct cushim_cuda *cuda) {
    struct cushim_mem_heap *heap = cushim_contexts_hold_current(cuda);
    if (heap)
        cushim_contexts_let(heap);
    return heap;
}

struct cushim_mem_heap *cushim_contexts_find(CUcontext context) {
    CUSHIM_LOCKED(&lock);
    struct row *row = find(owner_of(context));
    return row && row->heap && !row->n_leaving ? &row->heap->heap : NULL;
}

unsigned cushim_contexts_count(void) {
    return atomic_load_explicit(&n_heaps, memory_order_relaxed);
}

CUcontext cushim_contexts_of_stream(struct cushim_cuda *cuda, CUstream stream) {
    CUcontext context = NULL;
    if (cushim_stream_is_default(stream))
        cuda->cuCtxGetCurrent(&context);
    else if (!cuda->cuStreamGetCtx || cuda->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        context = NULL;
    return context;
}

struct cushim_mem_heap *cushim_contexts_hold_kind(struct cushim_cuda *cuda,
                                                  enum cushim_mem_kind kind, unsigned flags) {
    struct cushim_mem_heap *base = cushim_contexts_hold_current(cuda);
    struct cushim_mem_heap *heap = base ? cushim_context_heap_of_kind(base, kind, flags) : NULL;
    if (heap && !cushim_contexts_hold(heap))
        heap = NULL;
    if (base)
        cushim_contexts_let(base);
    return heap;
}

/* ---- green contexts, whose memory is their primary's ---- */

CUcontext cushim_contexts_owner(CUcontext context) {
    CUSHIM_LOCKED(&lock);
    return owner_of(context);
}

void cushim_contexts_note_green(struct cushim_cuda *cuda, CUcontext context) {
    CUdevice device = cushim_device_of(cuda, context);
    CUcontext primary = device < 0 ? NULL : cushim_primary_of(cuda, device);
    CUSHIM_LOCKED(&lock);
    struct row *row = find_or_add(context);
    if (row) {
        row->is_green = true;
        row->primary = primary;
    }
}

/* ---- uses besides the creator's ---- */

void cushim_contexts_attach(CUcontext context) {
    CUSHIM_LOCKED(&lock);
    struct row *row = find_or_add(context);
    if (row)
        row->n_attached++;
}

bool cushim_contexts_detach(CUcontext context) {
    CUSHIM_LOCKED(&lock);
    struct row *row = find(context);
    bool is_attached = row && row->n_attached;
    if (is_attached)
        row->n_attached--;
    return is_attached;
}

/* ---- the end of a context ---- */

void cushim_contexts_leave(CUcontext context) {
    cushim_events.context_leaving(context);
    pthread_mutex_lock(&lock);
    /* a context without a heap must not get one meanwhile */
    struct row *row = find_or_add(context);
    struct cushim_context_heap *heap = row ? row->heap : NULL;
    if (row)
        row->n_leaving++;
    if (heap)
        cushim_context_heap_set_serving(heap, false);
    atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_EPOCH);
    pthread_mutex_unlock(&lock);
    if (heap)
        cushim_context_heap_wait(heap);
    cushim_copy_ring_leave(context); /* after the above, because then no copy begins there */
}

static void stay(CUcontext context) {
    CUSHIM_LOCKED(&lock);
    struct row *row = find(context);
    if (row && row->n_leaving)
        row->n_leaving--;
    if (row && row->heap && !row->n_leaving)
        cushim_context_heap_set_serving(row->heap, true);
    atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_EPOCH);
}

/* The next green context that went with a primary one; NULL after the last. */
static CUcontext next_green(CUcontext primary) {
    CUcontext green = NULL;
    struct row *row, *next;
    CUSHIM_LOCKED(&lock);
    HASH_ITER(hh, rows, row, next) {
        if (row->primary == primary)
            green = row->context;
    }
    return green;
}

/* Its heaps are gone.  The caller holds the lock. */
static void empty(struct row *row) {
    if (!row->heap)
        return;
    cushim_context_heap_abandon(row->heap);
    atomic_fetch_sub(&n_heaps, 1);
    row->heap = NULL;
}

/* The caller holds the lock. */
static void delete (struct row *row) {
    HASH_DEL(rows, row);
    empty(row);
    free(row);
}

/* If other threads are about to end it as well, it gets no heap until they have. */
static void drop(CUcontext context) {
    pthread_mutex_lock(&lock);
    struct row *row = find(context);
    if (row && row->n_leaving > 1) {
        row->n_leaving--;
        empty(row);
    } else if (row) {
        delete (row);
    }
    atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_EPOCH);
    pthread_mutex_unlock(&lock);
    cushim_events.context_gone(context);
    cushim_capture_drop_context(context);
}

void cushim_contexts_settle(CUcontext context, bool is_gone) {
    CUcontext green;
    if (!is_gone) {
        stay(context);
        return;
    }
    drop(context);
    while ((green = next_green(context)))
        drop(green);
}

void cushim_contexts_gone_all(void) {
    struct row *row, *next;
    cushim_copy_rings_forget();
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, rows, row, next)
    delete (row);
    atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_EPOCH);
    pthread_mutex_unlock(&lock);
    cushim_capture_drop_all();
}
