#include "companion/core/handle.h"

#include <string.h>
#include <sys/mman.h>

#include "base/futex.h"
#include "base/membarrier.h"
#include "companion/core/error.h"
#include "companion/core/handle_pin.h"
#include "base/lock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic(struct cushim_slot *) cushim_slots[CUSHIM_N_CHUNKS];
atomic_bool cushim_pin_is_fenced;
/* All threads read it and few write it, so it has a cache line to itself. */
_Alignas(64) atomic_uint_fast64_t cushim_changes = 1;

static uint32_t n_slots;            /* made so far */
static struct cushim_slot *unused;  /* a list */
static struct cushim_slot *waiting; /* closed, and pinned when last looked at */
static atomic_size_t n_open;

static uintptr_t value_of(enum cushim_kind kind, uint32_t generation, uint32_t index) {
    return (uintptr_t)kind << (CUSHIM_SLOT_BITS + CUSHIM_GENERATION_BITS) |
           (uintptr_t)generation << CUSHIM_SLOT_BITS | index;
}

/* ---- objects ---- */

void cushim_changes_note(void) {
    atomic_fetch_add(&cushim_changes, 1);
}

void *cushim_object_alloc(size_t bytes) {
    bytes = (bytes + 63) & ~(size_t)63;
    void *object = aligned_alloc(64, bytes);
    return object ? memset(object, 0, bytes) : NULL;
}

void cushim_object_init(struct cushim_object *object, enum cushim_kind kind,
                        struct cushim_context_object *context, cushim_finish_fn *finish) {
    object->kind = kind;
    atomic_init(&object->n_references, 1);
    atomic_init(&object->is_closed, false);
    object->context = cushim_object_keep(context);
    object->finish = finish;
    object->handle = NULL;
    atomic_init(&object->n_borrowers, 0);
}

void *cushim_object_keep(void *argument) {
    struct cushim_object *object = argument;
    if (object)
        atomic_fetch_add_explicit(&object->n_references, 1, memory_order_relaxed);
    return argument;
}

void cushim_object_release(void *argument) {
    struct cushim_object *object = argument;
    if (!object || atomic_fetch_sub_explicit(&object->n_references, 1, memory_order_acq_rel) != 1)
        return;
    struct cushim_context_object *context = object->context;
    object->finish(object);
    cushim_object_release(context);
}

/* ---- slots: all under the lock ---- */

/* All threads of the process pass a full fence; false: a sandbox forbids it by now. */
static bool fence_pins(void) {
    return !load_relaxed(&cushim_pin_is_fenced) || cushim_membarrier_pass();
}

static bool make_chunk(void) {
    if (n_slots == 1u << CUSHIM_SLOT_BITS)
        return false;
    if (!n_slots) /* before the first handle, because pins rely on it */
        atomic_store(&cushim_pin_is_fenced, cushim_membarrier_ask());
    void *memory = mmap(NULL, CUSHIM_CHUNK_SLOTS * sizeof(struct cushim_slot),
                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    struct cushim_slot *chunk = memory;
    for (uint32_t i = CUSHIM_CHUNK_SLOTS; i-- > 0;) {
        chunk[i].index = n_slots + i;
        chunk[i].next = unused;
        unused = &chunk[i];
    }
    store_release(&cushim_slots[n_slots / CUSHIM_CHUNK_SLOTS], chunk);
    n_slots += CUSHIM_CHUNK_SLOTS;
    return true;
}

static bool is_pinned(const struct cushim_slot *slot) {
    for (struct cushim_thread *thread = cushim_thread_first(); thread; thread = thread->next) {
        for (unsigned i = 0; i < CUSHIM_THREAD_N_CELLS; i++) {
            if (atomic_load(&thread->pins[i]) == slot)
                return true;
        }
    }
    return false;
}

/* Take out the first waiting slot that no thread pins.  The caller gets the reference of its
 * object. */
static struct cushim_object *take_unpinned(void) {
    for (struct cushim_slot **at = &waiting; *at; at = &(*at)->next) {
        struct cushim_slot *slot = *at;
        if (is_pinned(slot))
            continue;
        *at = slot->next;
        if (slot->generation !=
            UINT32_MAX) { /* else the slot has no generations left and is retired */
            slot->next = unused;
            unused = slot;
        }
        return load_relaxed(&slot->object);
    }
    return NULL;
}

COLD void cushim_handle_sweep(void) {
    for (;;) {
        struct cushim_object *object = CUSHIM_UNDER(&lock, take_unpinned());
        if (!object)
            return;
        cushim_object_release(object);
    }
}

void cushim_pin_wait_out(struct cushim_thread *thread, const struct cushim_slot *slot) {
    unsigned n_looks = 0;
    if (!cushim_membarrier_pass())
        cushim_futex_nap(
            1000000); /* a sandbox forbids it by now; each store is visible after this time */
    while (slot && load_acquire(cushim_cell_of_fast(thread, CUSHIM_CELL_FAST)) == slot)
        cushim_futex_back_off(&n_looks);
}

__attribute__((cold)) enum cushim_status cushim_handle_swept(void) {
    cushim_handle_sweep();
    return CUSHIM_OK;
}

/* ---- handles ---- */

/* Under the lock; 0: no slot is left, or no memory for one. */
static uintptr_t open_slot(struct cushim_object *object) {
    if (!unused && !make_chunk())
        return 0;
    struct cushim_slot *slot = unused;
    unused = slot->next;
    uintptr_t value = value_of(object->kind, ++slot->generation, slot->index);
    object->handle = (void *)value;
    store_relaxed(&slot->object, object);
    store_release(&slot->handle, value);
    atomic_fetch_add_explicit(&n_open, 1, memory_order_relaxed);
    return value;
}

static enum cushim_status open_handle(struct cushim_object *object, bool is_shared, void *handle) {
    pthread_mutex_lock(&lock);
    bool has_waiting = waiting != NULL;
    uintptr_t value = is_shared ? (uintptr_t)object->handle : 0;
    if (!value && (value = open_slot(object)) != 0 && is_shared)
        cushim_object_keep(object);
    pthread_mutex_unlock(&lock);
    memcpy(handle, &value, sizeof value);
    if (has_waiting)
        cushim_handle_sweep();
    return value ? CUSHIM_OK
                 : cushim_fail("cushim_handle_open", CUSHIM_NOMEM, "handles=%zu",
                               cushim_handle_count());
}

enum cushim_status cushim_handle_open(struct cushim_object *object, void *handle) {
    return open_handle(object, false, handle);
}

enum cushim_status cushim_object_open(struct cushim_object *object, void *handle) {
    enum cushim_status status = open_handle(object, false, handle);
    if (status != CUSHIM_OK)
        cushim_object_release(object);
    return status;
}

enum cushim_status cushim_handle_share(struct cushim_object *object, void *handle) {
    return open_handle(object, true, handle);
}

/* Take a reference, which is safe only under the lock. */
static void *pin_counted(struct cushim_pin *pin, struct cushim_slot *slot, uintptr_t handle) {
    CUSHIM_LOCKED(&lock);
    if (load_relaxed(&slot->handle) == handle) {
        pin->cell = NULL;
        pin->slot = slot;
        pin->handle = handle;
        pin->object = cushim_object_keep(load_relaxed(&slot->object));
    }
    return pin->object;
}

COLD void *cushim_pin_slowly(struct cushim_pin *pin, struct cushim_slot *slot, uintptr_t handle) {
    struct cushim_thread *thread = cushim_thread_get();
    return thread && thread->free_pins ? cushim_pin_by(thread, pin, slot, handle)
                                       : pin_counted(pin, slot, handle);
}

void *cushim_handle_pin(struct cushim_pin *pin, enum cushim_kind kind, const void *argument) {
    return cushim_pin(pin, kind, argument);
}

bool cushim_handle_is_open(enum cushim_kind kind, const void *handle) {
    CUSHIM_PIN pin = {0};
    return cushim_pin(&pin, kind, handle) != NULL;
}

bool cushim_handle_is_closed(enum cushim_kind kind, const void *argument) {
    uintptr_t handle = (uintptr_t)argument;
    const struct cushim_slot *slot = cushim_slot_of_kind(kind, handle);
    uint32_t generation = (uint32_t)(handle >> CUSHIM_SLOT_BITS);
    if (!slot)
        return false;
    CUSHIM_LOCKED(&lock);
    return generation && generation <= slot->generation && load_relaxed(&slot->handle) != handle;
}

void cushim_handle_unpin(struct cushim_pin *pin) {
    cushim_unpin(pin);
}

static bool close_slot(struct cushim_slot *slot, uintptr_t handle) {
    pthread_mutex_lock(&lock);
    bool is_first = load_relaxed(&slot->handle) == handle;
    if (is_first) {
        struct cushim_object *object = load_relaxed(&slot->object);
        store_release(&object->is_closed, true);
        atomic_exchange(&slot->handle, 0);
        /* Threads pass the fence before any thread scans the cells.  If the fence fails, the object
         * is never freed. */
        if (fence_pins()) {
            slot->next = waiting;
            waiting = slot;
        }
        atomic_fetch_sub_explicit(&n_open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    if (is_first)
        cushim_handle_sweep();
    return is_first;
}

bool cushim_handle_close(struct cushim_pin *pin) {
    return close_slot(pin->slot, pin->handle);
}

bool cushim_object_close(struct cushim_object *object) {
    uintptr_t handle = (uintptr_t)object->handle;
    return handle && close_slot(cushim_slot_of(handle), handle);
}

size_t cushim_handle_count(void) {
    return load_relaxed(&n_open);
}
