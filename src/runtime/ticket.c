#include "runtime/ticket.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/error.h"
#include "runtime/thread.h"

enum {
    SLOT_BITS = 24,
    GENERATION_BITS = 32,
    CHUNK_SLOTS = 4096,
    N_CHUNKS = (1 << SLOT_BITS) / CHUNK_SLOTS
};

/* One line a slot: opening and closing a neighbour disturbs nobody's pins. */
struct cushim_slot {
    _Alignas(64) atomic_uintptr_t ticket;   /* open now, or 0; written under the lock */
    _Atomic(struct cushim_object *) object; /* set before ticket; stands until the slot is reused */
    uint32_t index;                         /* the rest under the lock */
    uint32_t generation;                    /* of the last ticket; the first is 1 */
    struct cushim_slot *next;               /* free, or waiting for unpins */
};

_Static_assert(sizeof(uintptr_t) == 8, "a ticket needs 64 bits");
_Static_assert(sizeof(struct cushim_slot) == 64, "one line");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct cushim_slot *) chunks[N_CHUNKS];
static uint32_t n_slots;            /* ever made */
static struct cushim_slot *unused;  /* a list */
static struct cushim_slot *waiting; /* closed, and pinned when last looked at */
static atomic_size_t n_open;

static uintptr_t value_of(enum cushim_kind kind, uint32_t generation, uint32_t index) {
    return (uintptr_t)kind << (SLOT_BITS + GENERATION_BITS) | (uintptr_t)generation << SLOT_BITS |
           index;
}

static struct cushim_slot *slot_of(uintptr_t ticket) {
    uint32_t index = ticket & ((1u << SLOT_BITS) - 1);
    struct cushim_slot *chunk =
        atomic_load_explicit(&chunks[index / CHUNK_SLOTS], memory_order_acquire);
    return chunk ? &chunk[index % CHUNK_SLOTS] : NULL;
}

/* ---- objects ---- */

void cushim_object_init(struct cushim_object *object, enum cushim_kind kind,
                        struct cushim_context_object *context, cushim_finish_fn *finish) {
    object->kind = kind;
    atomic_init(&object->n_references, 1);
    atomic_init(&object->is_closed, false);
    object->context = cushim_object_keep(context);
    object->finish = finish;
    object->ticket = NULL;
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

static bool make_chunk(void) {
    if (n_slots == 1u << SLOT_BITS)
        return false;
    void *memory = mmap(NULL, CHUNK_SLOTS * sizeof(struct cushim_slot), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    struct cushim_slot *chunk = memory;
    for (uint32_t i = CHUNK_SLOTS; i-- > 0;) {
        chunk[i].index = n_slots + i;
        chunk[i].next = unused;
        unused = &chunk[i];
    }
    atomic_store_explicit(&chunks[n_slots / CHUNK_SLOTS], chunk, memory_order_release);
    n_slots += CHUNK_SLOTS;
    return true;
}

static bool is_pinned(const struct cushim_slot *slot) {
    for (struct cushim_thread *thread = cushim_thread_first(); thread; thread = thread->next) {
        for (unsigned i = 0; i < CUSHIM_THREAD_N_PINS; i++) {
            if (atomic_load(&thread->pins[i]) == slot)
                return true;
        }
    }
    return false;
}

/* Take the first waiting slot out that nobody pins; its object, whose reference is the caller's. */
static struct cushim_object *take_unpinned(void) {
    for (struct cushim_slot **at = &waiting; *at; at = &(*at)->next) {
        struct cushim_slot *slot = *at;
        if (is_pinned(slot))
            continue;
        *at = slot->next;
        if (slot->generation != UINT32_MAX) { /* else no ticket of it is left: retired */
            slot->next = unused;
            unused = slot;
        }
        return atomic_load_explicit(&slot->object, memory_order_relaxed);
    }
    return NULL;
}

/* Drop the references of all tickets that were closed and are pinned no more. */
static void sweep(void) {
    for (;;) {
        pthread_mutex_lock(&lock);
        struct cushim_object *object = take_unpinned();
        pthread_mutex_unlock(&lock);
        if (!object)
            return;
        cushim_object_release(object);
    }
}

/* ---- tickets ---- */

/* Under the lock; 0: no slot is left, or no memory for one. */
static uintptr_t open_slot(struct cushim_object *object) {
    if (!unused && !make_chunk())
        return 0;
    struct cushim_slot *slot = unused;
    unused = slot->next;
    uintptr_t value = value_of(object->kind, ++slot->generation, slot->index);
    object->ticket = (void *)value;
    atomic_store_explicit(&slot->object, object, memory_order_relaxed);
    atomic_store_explicit(&slot->ticket, value, memory_order_release);
    atomic_fetch_add_explicit(&n_open, 1, memory_order_relaxed);
    return value;
}

static enum cushim_status open_ticket(struct cushim_object *object, bool is_shared, void *ticket) {
    pthread_mutex_lock(&lock);
    bool has_waiting = waiting != NULL;
    uintptr_t value = is_shared ? (uintptr_t)object->ticket : 0;
    if (!value && (value = open_slot(object)) != 0 && is_shared)
        cushim_object_keep(object);
    pthread_mutex_unlock(&lock);
    memcpy(ticket, &value, sizeof value);
    if (has_waiting)
        sweep();
    return value ? CUSHIM_OK
                 : cushim_fail("cushim_ticket_open", CUSHIM_NOMEM, "tickets=%zu",
                               cushim_ticket_count());
}

enum cushim_status cushim_ticket_open(struct cushim_object *object, void *ticket) {
    return open_ticket(object, false, ticket);
}

enum cushim_status cushim_ticket_share(struct cushim_object *object, void *ticket) {
    return open_ticket(object, true, ticket);
}

/* The thread has no cell to spare: take a reference, which only the lock makes safe. */
static void *pin_counted(struct cushim_pin *pin, struct cushim_slot *slot, uintptr_t ticket) {
    pthread_mutex_lock(&lock);
    if (atomic_load_explicit(&slot->ticket, memory_order_relaxed) == ticket) {
        pin->slot = slot;
        pin->object = cushim_object_keep(atomic_load_explicit(&slot->object, memory_order_relaxed));
    }
    pthread_mutex_unlock(&lock);
    return pin->object;
}

void *cushim_ticket_pin(struct cushim_pin *pin, enum cushim_kind kind, const void *argument) {
    uintptr_t ticket = (uintptr_t)argument;
    *pin = (struct cushim_pin){.ticket = ticket};
    if (ticket >> (SLOT_BITS + GENERATION_BITS) != (uintptr_t)kind || kind == CUSHIM_KIND_NONE)
        return NULL;
    struct cushim_slot *slot = slot_of(ticket);
    if (!slot)
        return NULL;
    struct cushim_thread *thread = cushim_thread_get();
    if (!thread || !thread->free_pins)
        return pin_counted(pin, slot, ticket);
    unsigned i = (unsigned)__builtin_ctz(thread->free_pins);
    _Atomic(struct cushim_slot *) *cell = &thread->pins[i];
    /* The exchange is a full fence: either this look sees the close, or the closer sees the cell.
     */
    atomic_exchange(cell, slot);
    if (atomic_load(&slot->ticket) != ticket) {
        atomic_store_explicit(cell, NULL, memory_order_release);
        return NULL;
    }
    thread->free_pins &= ~(1u << i);
    pin->cell = cell;
    pin->slot = slot;
    pin->object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    return pin->object;
}

void cushim_ticket_unpin(struct cushim_pin *pin) {
    struct cushim_object *object = pin->object;
    if (!object)
        return;
    struct cushim_slot *slot = pin->slot;
    pin->object = NULL;
    if (!pin->cell) {
        cushim_object_release(object);
        return;
    }
    struct cushim_thread *thread = cushim_thread_get();
    thread->free_pins |= 1u << (pin->cell - thread->pins);
    atomic_store_explicit(pin->cell, NULL, memory_order_release);
    /*
     * Not a fence: a close at this very moment may miss the empty cell while this look misses the
     * close.  The object then waits for the next open, close, or unpin of a closed one.
     */
    if (__builtin_expect(!atomic_load_explicit(&slot->ticket, memory_order_relaxed), 0))
        sweep();
}

static bool close_slot(struct cushim_slot *slot, uintptr_t ticket) {
    pthread_mutex_lock(&lock);
    bool is_first = atomic_load_explicit(&slot->ticket, memory_order_relaxed) == ticket;
    if (is_first) {
        struct cushim_object *object = atomic_load_explicit(&slot->object, memory_order_relaxed);
        atomic_store_explicit(&object->is_closed, true, memory_order_release);
        atomic_exchange(&slot->ticket, 0); /* a full fence, before the scan of the cells */
        slot->next = waiting;
        waiting = slot;
        atomic_fetch_sub_explicit(&n_open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    if (is_first)
        sweep();
    return is_first;
}

bool cushim_ticket_close(struct cushim_pin *pin) {
    return close_slot(pin->slot, pin->ticket);
}

bool cushim_object_close(struct cushim_object *object) {
    uintptr_t ticket = (uintptr_t)object->ticket;
    return ticket && close_slot(slot_of(ticket), ticket);
}

size_t cushim_ticket_count(void) {
    return atomic_load_explicit(&n_open, memory_order_relaxed);
}
