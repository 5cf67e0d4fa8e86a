#include "preload/state/contexts.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/helgrind.h"
#include "base/log.h"
#include "copy/ring.h"
#include "cuda/table.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "memory/provider/provider.h"
#include "memory/state/heap_state.h"
#include "preload/state/captures.h"
#include "preload/entry/check_mode.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/foreign.h"
#include "preload/state/live.h"
#include "preload/state/primary.h"
#include "preload/state/watch.h"
#include "preload/state/process_options.h"

/* A heap and what goes with it.  Never freed: where its context went it waits for another one. */
struct place {
    struct cushim_mem_heap heap;   /* first: a heap's address is its place's */
    atomic_bool is_serving;        /* between open and the end of its context */
    atomic_uint n_holds;           /* calls inside the heap */
    _Atomic(struct place *) kinds; /* of device memory: its context's heaps of other kinds */
    _Atomic(struct place *) next;  /* among these, or among the spares */
    struct place *next_of_all;     /* constant */
};

/* One context that we know of. */
struct row {
    CUcontext context;
    struct place *place; /* NULL: none yet, or of a green one */
    bool is_green;
    CUcontext primary;   /* of a green one: whose memory its is, and whose heap serves it */
    unsigned n_attached; /* uses beyond its maker's */
    unsigned n_leaving;  /* threads that are about to end it */
    UT_hash_handle hh;
};

/* `lock` guards the table and the spare places; the driver is asked for facts of a device alone
 * under it.  The list of all places only grows, and is read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;
static struct place *spares; /* without a context */
static _Atomic(struct place *) places;
static atomic_uint n_heaps;
static struct cushim_mem_policy
    kind_policies[CUSHIM_MEM_PINNED + 1]; /* written once, at the start */

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

/* Under the lock: a place that nobody uses; NULL where host memory is out. */
static struct place *take_place(void) {
    struct place *place = spares;
    if (place) {
        spares = atomic_load(&place->next);
        return place;
    }
    place = calloc(1, sizeof *place);
    if (place) {
        cushim_helgrind_ignore(place, sizeof *place);
        place->next_of_all = atomic_load(&places);
        atomic_store(&places, place);
    }
    return place;
}

static void spare(struct place *place) {
    atomic_store(&place->next, spares);
    spares = place;
}

static const struct cushim_mem_provider *source_of_device(struct cushim_cuda *cuda, int device) {
    bool is_mapped = cushim_process_options.backend && cushim_mem_provider_vmm_fits(cuda, device);
    return is_mapped ? &cushim_mem_provider_vmm : &cushim_mem_provider_device;
}

/* What a report says of the device and its driver. */
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

/* For who asks whether we are active. */
static void say_heap(CUdevice device) {
    unsigned version = (unsigned)cushim_mem_stats_read(&cushim_page.head.driver_version);
    log_info("pool", "device %d, %s, CUDA %u.%u: memory is pooled from now on; %s came first",
             device, cushim_page.device_names[device], version / 1000, version / 10 % 100,
             cushim_cuda_symbol_name(cushim_thread.symbol));
}

/* Under the lock, the context being current: open a heap for its device memory. */
static struct cushim_mem_heap *open_heap(struct cushim_cuda *cuda, CUcontext context) {
    CUdevice device;
    if (cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return NULL;
    struct row *row = find_or_add(context);
    struct place *place = row ? take_place() : NULL;
    if (!place)
        return NULL;
    row->place = place;
    cushim_live_show(cushim_page.stats[device], sizeof cushim_page.stats[device]);
    struct cushim_mem_heap_setup setup = {
        .cuda = cuda,
        .context = context,
        .device = device,
        .blocks = &cushim_process.blocks,
        .guard = &cushim_capture_guard,
        .policy = &cushim_process.policy,
        .stats = &cushim_page.stats[device][CUSHIM_KIND_DEVICE],
        .provider = source_of_device(cuda, device),
    };
    cushim_device_limit_open(cuda, device);
    note_device(cuda, device);
    cushim_mem_heap_open(&place->heap, &setup);
    if (cushim_log_on(CUSHIM_LOG_INFO))
        say_heap(device);
    atomic_store(&place->is_serving, true);
    atomic_fetch_add(&n_heaps, 1);
    cushim_process_note_use();
    return &place->heap;
}

static struct place *place_of(const struct cushim_mem_heap *heap) {
    return (struct place *)(uintptr_t)heap;
}

/* The context must be current.  The heap is held. */
static struct cushim_mem_heap *find_or_open(struct cushim_cuda *cuda, CUcontext context) {
    cushim_process_note_driver_use();
    pthread_mutex_lock(&lock);
    context = owner_of(context);
    struct row *row = find(context);
    struct cushim_mem_heap *heap = NULL;
    if (!row || (!row->place && !row->is_green && !row->n_leaving))
        heap = open_heap(cuda, context);
    else if (row->place && !row->n_leaving)
        heap = &row->place->heap;
    if (heap)
        atomic_fetch_add(&place_of(heap)->n_holds, 1);
    pthread_mutex_unlock(&lock);
    return heap;
}

/* The heap that the thread found last, held; NULL where a context is ended, or was since. */
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

struct cushim_mem_heap *cushim_contexts_current(struct cushim_cuda *cuda) {
    struct cushim_mem_heap *heap = cushim_contexts_hold_current(cuda);
    if (heap)
        cushim_contexts_let(heap);
    return heap;
}

struct cushim_mem_heap *cushim_contexts_find(CUcontext context) {
    pthread_mutex_lock(&lock);
    struct row *row = find(owner_of(context));
    struct cushim_mem_heap *heap = row && row->place && !row->n_leaving ? &row->place->heap : NULL;
    pthread_mutex_unlock(&lock);
    return heap;
}

unsigned cushim_contexts_count(void) {
    return atomic_load_explicit(&n_heaps, memory_order_relaxed);
}

CUcontext cushim_contexts_of_stream(struct cushim_cuda *cuda, CUstream stream) {
    CUcontext context = NULL;
    bool is_default = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (is_default)
        cuda->cuCtxGetCurrent(&context);
    else if (!cuda->cuStreamGetCtx || cuda->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        context = NULL;
    return context;
}

/* ---- the kinds of a context ---- */

void cushim_contexts_set_policies(void) {
    for (int kind = CUSHIM_MEM_MANAGED; kind <= CUSHIM_MEM_PINNED; kind++)
        cushim_mem_policy_of_kind(&kind_policies[kind], &cushim_process.policy,
                                  (enum cushim_mem_kind)kind);
}

/*
 * Managed memory that is handed out again is cleared by the device.  Where host and device may not
 * touch managed memory at once (before Pascal, Jetson) that would fault other threads of the
 * program.
 */
static bool is_managed_fit(struct cushim_cuda *cuda, int device) {
    int is_concurrent = 0;
    return cuda->cuDeviceGetAttribute &&
           cuda->cuDeviceGetAttribute(&is_concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                      device) == CUDA_SUCCESS &&
           is_concurrent;
}

static struct cushim_mem_heap *find_kind(const struct place *owner, enum cushim_mem_kind kind,
                                         unsigned flags) {
    struct place *place = atomic_load_explicit(&owner->kinds, memory_order_acquire);
    for (; place; place = atomic_load_explicit(&place->next, memory_order_acquire)) {
        if (place->heap.kind == kind && place->heap.flags == flags)
            return &place->heap;
    }
    return NULL;
}

/*
 * Under the lock: a heap beside its context's.  They share the fence, since native's free of such
 * memory waits for the context that allocated it, whichever is current, and for no other: neither
 * another device's kernels nor its copies (measured, docs/results/driver.md).
 */
static struct cushim_mem_heap *open_kind(struct place *owner, enum cushim_mem_kind kind,
                                         unsigned flags) {
    struct cushim_mem_heap *base = &owner->heap;
    struct place *place = take_place();
    if (!place)
        return NULL;
    struct cushim_mem_heap_setup setup = {
        .cuda = base->cuda,
        .context = base->context,
        .device = base->device,
        .blocks = base->blocks,
        .policy = &kind_policies[kind],
        .stats = &cushim_page.stats[base->device][kind],
        .kind = kind,
        .flags = flags,
        .provider =
            kind == CUSHIM_MEM_PINNED ? &cushim_mem_provider_pinned : &cushim_mem_provider_managed,
        .fence = base->fence,
    };
    cushim_mem_heap_open(&place->heap, &setup);
    atomic_store(&place->is_serving, true);
    atomic_store(&place->next, atomic_load(&owner->kinds));
    atomic_store(&owner->kinds, place);
    return &place->heap;
}

/* Beside a context's heap, which is held. */
static struct cushim_mem_heap *find_or_open_kind(struct cushim_mem_heap *base,
                                                 enum cushim_mem_kind kind, unsigned flags) {
    struct cushim_mem_heap *heap = find_kind(place_of(base), kind, flags);
    if (heap || (kind == CUSHIM_MEM_MANAGED && !is_managed_fit(base->cuda, base->device)))
        return heap;
    pthread_mutex_lock(&lock);
    heap = find_kind(place_of(base), kind, flags);
    if (!heap && atomic_load(&place_of(base)->is_serving))
        heap = open_kind(place_of(base), kind, flags);
    pthread_mutex_unlock(&lock);
    return heap;
}

struct cushim_mem_heap *cushim_contexts_hold_kind(struct cushim_cuda *cuda,
                                                  enum cushim_mem_kind kind, unsigned flags) {
    struct cushim_mem_heap *base = cushim_contexts_hold_current(cuda);
    struct cushim_mem_heap *heap = base ? find_or_open_kind(base, kind, flags) : NULL;
    if (heap && !cushim_contexts_hold(heap))
        heap = NULL;
    if (base)
        cushim_contexts_let(base);
    return heap;
}

/* ---- all heaps ---- */

/* The next one that serves, from `place` on; NULL behind the last. */
static struct place *serving_from(struct place *place) {
    while (place && !atomic_load(&place->is_serving))
        place = place->next_of_all;
    return place;
}

static struct place *first_serving(void) {
    return serving_from(atomic_load(&places));
}

void cushim_contexts_note_effects(void) {
    for (struct place *place = first_serving(); place; place = serving_from(place->next_of_all))
        cushim_mem_fence_note_effect(place->heap.fence);
}

/* Who is asked to give back: heaps of all devices (-1) or of one. */
static size_t give_back(int device, bool is_pinned_too, uint64_t until_ns) {
    size_t n_bytes = 0;
    if (cushim_thread.host_function_depth)
        return 0;
    cushim_check_give_back();
    for (struct place *place = first_serving(); place; place = serving_from(place->next_of_all)) {
        if (!cushim_contexts_hold(&place->heap))
            continue;
        if ((place->heap.kind != CUSHIM_MEM_PINNED || is_pinned_too) &&
            (device < 0 || place->heap.device == device))
            n_bytes += cushim_mem_reclaim_empty(&place->heap, until_ns);
        cushim_contexts_let(&place->heap);
    }
    return n_bytes;
}

size_t cushim_contexts_make_room(const struct cushim_mem_heap *heap, uint64_t until_ns) {
    return give_back(heap->device, false, until_ns);
}

size_t cushim_contexts_give_back(void) {
    return give_back(-1, false, cushim_mem_reclaim_until());
}

size_t cushim_contexts_give_back_all(void) {
    return give_back(-1, true, cushim_mem_reclaim_until()) + cushim_copy_rings_give_back();
}

bool cushim_contexts_are_stale(void) {
    struct place *place = first_serving();
    while (place && !cushim_mem_heap_is_stale(&place->heap))
        place = serving_from(place->next_of_all);
    return place != NULL;
}

void cushim_contexts_give_back_stale(CUcontext context) {
    for (struct place *place = first_serving(); place; place = serving_from(place->next_of_all)) {
        struct cushim_mem_heap *heap = &place->heap;
        if (!cushim_contexts_hold(heap))
            continue;
        uint64_t life = cushim_mem_heap_life(heap);
        if (life && heap->context == context && cushim_mem_heap_is_stale(heap))
            cushim_mem_reclaim_shrink(heap, life, 0, true);
        cushim_contexts_let(heap);
    }
}

size_t cushim_contexts_reusable_bytes(int device) {
    size_t n_bytes = 0;
    for (struct place *place = first_serving(); place; place = serving_from(place->next_of_all)) {
        if (place->heap.kind == CUSHIM_MEM_DEVICE && place->heap.device == device)
            n_bytes += cushim_mem_reclaim_reusable_bytes(&place->heap);
    }
    return n_bytes;
}

/* ---- green contexts, whose memory is their primary's ---- */

CUcontext cushim_contexts_owner(CUcontext context) {
    pthread_mutex_lock(&lock);
    CUcontext owner = owner_of(context);
    pthread_mutex_unlock(&lock);
    return owner;
}

void cushim_contexts_note_green(struct cushim_cuda *cuda, CUcontext context) {
    CUcontext primary = cushim_primary_of_green(cuda, context);
    pthread_mutex_lock(&lock);
    struct row *row = find_or_add(context);
    if (row) {
        row->is_green = true;
        row->primary = primary;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- uses beyond the maker's ---- */

void cushim_contexts_attach(CUcontext context) {
    pthread_mutex_lock(&lock);
    struct row *row = find_or_add(context);
    if (row)
        row->n_attached++;
    pthread_mutex_unlock(&lock);
}

bool cushim_contexts_detach(CUcontext context) {
    pthread_mutex_lock(&lock);
    struct row *row = find(context);
    bool is_attached = row && row->n_attached;
    if (is_attached)
        row->n_attached--;
    pthread_mutex_unlock(&lock);
    return is_attached;
}

/* ---- the end of a context ---- */

/* Under the lock: the heaps of a context serve, or serve no more. */
static void set_serving(struct place *owner, bool is_serving) {
    atomic_store(&owner->is_serving, is_serving);
    for (struct place *place = atomic_load(&owner->kinds); place; place = atomic_load(&place->next))
        atomic_store(&place->is_serving, is_serving);
}

bool cushim_contexts_hold(struct cushim_mem_heap *heap) {
    struct place *place = place_of(heap);
    atomic_fetch_add(&place->n_holds, 1);
    /* in the other order than the thread that ends the context, which looks for holds last */
    if (atomic_load(&place->is_serving))
        return true;
    atomic_fetch_sub(&place->n_holds, 1);
    return false;
}

void cushim_contexts_let(struct cushim_mem_heap *heap) {
    atomic_fetch_sub(&place_of(heap)->n_holds, 1);
}

/* A thread that was cancelled, or left by a jump, inside a call of the driver lets go of nothing:
 * nobody waits for it for ever. */
static void wait_for_holds(const struct place *place, uint64_t until_ns) {
    unsigned n_looks = 0;
    while (atomic_load(&place->n_holds) && cushim_clock_ns() < until_ns)
        cushim_futex_back_off(&n_looks);
}

/* The same for all heaps of a context, which serve no more. */
static void wait_for_all_holds(const struct place *owner) {
    uint64_t until_ns = cushim_clock_ns() + CUSHIM_CONTEXTS_PATIENCE_NS;
    wait_for_holds(owner, until_ns);
    for (struct place *place = atomic_load(&owner->kinds); place; place = atomic_load(&place->next))
        wait_for_holds(place, until_ns);
}

void cushim_contexts_leave(CUcontext context) {
    if (cushim_check_is_on())
        cushim_check_leave(cushim_contexts_find(context));
    pthread_mutex_lock(&lock);
    /* one that has no heap gets none meanwhile */
    struct row *row = find_or_add(context);
    struct place *place = row ? row->place : NULL;
    if (row)
        row->n_leaving++;
    if (place)
        set_serving(place, false);
    atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_EPOCH);
    pthread_mutex_unlock(&lock);
    if (place)
        wait_for_all_holds(place);
    cushim_copy_ring_leave(context); /* behind the above: no copy begins there any more */
}

void cushim_contexts_stay(CUcontext context) {
    pthread_mutex_lock(&lock);
    struct row *row = find(context);
    if (row && row->n_leaving)
        row->n_leaving--;
    if (row && row->place && !row->n_leaving)
        set_serving(row->place, true);
    atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_EPOCH);
    pthread_mutex_unlock(&lock);
}

/* Its heap's blocks went with the context. */
static void abandon_place(struct place *place) {
    cushim_watch_gone(&place->heap);
    cushim_mem_heap_abandon(&place->heap);
    spare(place);
}

/* Under the lock: the context took the memory of all its heaps along. */
static void abandon(struct place *owner) {
    set_serving(owner, false);
    for (struct place *place = atomic_load(&owner->kinds), *next; place; place = next) {
        next = atomic_load(&place->next);
        abandon_place(place);
    }
    atomic_store(&owner->kinds, NULL);
    cushim_check_forget(&owner->heap);
    atomic_fetch_sub(&n_heaps, 1);
    abandon_place(owner);
}

/* Of the green contexts that a primary one took along, the next; NULL behind the last. */
static CUcontext next_green(CUcontext primary) {
    CUcontext green = NULL;
    struct row *row, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, rows, row, next) {
        if (row->primary == primary)
            green = row->context;
    }
    pthread_mutex_unlock(&lock);
    return green;
}

/* Under the lock: its heaps are no more. */
static void empty(struct row *row) {
    if (row->place)
        abandon(row->place);
    row->place = NULL;
}

/* Under the lock. */
static void delete (struct row *row) {
    HASH_DEL(rows, row);
    empty(row);
    free(row);
}

/* Where other threads are about to end it as well it has no heap before they have. */
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
    cushim_foreign_drop(context);
    cushim_capture_drop_context(context);
}

void cushim_contexts_gone(CUcontext context) {
    CUcontext green;
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
    cushim_foreign_drop_all();
    cushim_capture_drop_all();
}
