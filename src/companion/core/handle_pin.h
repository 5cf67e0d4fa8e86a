/*
 * Pinning in line, for the calls that take a few tens of nanoseconds: companion/context/call.c,
 * pools, arenas and the stream of a launch.  All others use cushim_handle_pin and
 * cushim_handle_unpin, which are these.  What is rare is out of line and cold, so that the fast
 * path needs no frame.
 */
#pragma once

#include "companion/core/thread.h"
#include "companion/core/handle.h"

enum {
    CUSHIM_SLOT_BITS = 24,
    CUSHIM_GENERATION_BITS = 32,
    CUSHIM_CHUNK_SLOTS = 4096,
    CUSHIM_N_CHUNKS = (1 << CUSHIM_SLOT_BITS) / CUSHIM_CHUNK_SLOTS
};

/* A cache line for each slot, so that an open or close of one does not slow pins of the next. */
struct cushim_slot {
    _Alignas(64) atomic_uintptr_t handle;   /* open now, or 0; written under the lock */
    _Atomic(struct cushim_object *) object; /* set before handle; stands until the slot is reused */
    uint32_t index;                         /* the rest under the lock */
    uint32_t generation;                    /* of the last handle; the first is 1 */
    struct cushim_slot *next;               /* free, or waiting for unpins */
};

_Static_assert(sizeof(uintptr_t) == 8, "a handle needs 64 bits");
_Static_assert(sizeof(struct cushim_slot) == 64, "one line");

extern _Atomic(struct cushim_slot *) cushim_slots[CUSHIM_N_CHUNKS];

/* The slot of a handle; NULL: no handle with that number was made. */
static inline struct cushim_slot *cushim_slot_of(uintptr_t handle) {
    uint32_t index = handle & ((1u << CUSHIM_SLOT_BITS) - 1);
    struct cushim_slot *chunk = load_acquire(&cushim_slots[index / CUSHIM_CHUNK_SLOTS]);
    return likely(chunk != NULL) ? &chunk[index % CUSHIM_CHUNK_SLOTS] : NULL;
}

/* The thread has no record yet, or no cell to spare. */
void *cushim_pin_slowly(struct cushim_pin *pin, struct cushim_slot *slot, uintptr_t handle);

/* Drop the references of all handles that are closed and no longer pinned. */
void cushim_handle_sweep(void);

/*
 * Whether a close makes all threads pass a fence (membarrier) before it looks at the cells.  A pin
 * then needs no fence.  Set before the first handle is opened, and constant.
 */
extern atomic_bool cushim_pin_is_fenced;

/* Put the slot into the cell and return its object; NULL: the handle is closed, and the cell is
 * empty. */
static inline void *cushim_pin_in(_Atomic(struct cushim_slot *) *cell, struct cushim_slot *slot,
                                  uintptr_t handle) {
    /*
     * Either this look sees the close, or the closer sees the cell: between the two is the
     * exchange, or the point where the closer's fence meets this thread.  If that is before the
     * store, the look comes after the close; if after the look, the store comes before the scan.
     */
    if (likely(load_relaxed(&cushim_pin_is_fenced))) {
        store_relaxed(cell, slot);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_exchange(cell, slot);
    }
    if (unlikely(atomic_load(&slot->handle) != handle)) {
        store_release(cell, NULL);
        return NULL;
    }
    return load_relaxed(&slot->object);
}

/* Empty the cell. */
static inline void cushim_unpin_in(_Atomic(struct cushim_slot *) *cell,
                                   const struct cushim_slot *slot) {
    store_release(cell, NULL);
    /*
     * Not a fence: a close at this very moment may miss the empty cell while this look misses the
     * close.  The object then waits for the next open, close, or unpin of a closed one.
     */
    if (unlikely(!load_relaxed(&slot->handle)))
        cushim_handle_sweep();
}

/* Pin, if the thread has a record and a spare cell. */
static inline void *cushim_pin_by(struct cushim_thread *thread, struct cushim_pin *pin,
                                  struct cushim_slot *slot, uintptr_t handle) {
    unsigned i = (unsigned)__builtin_ctz(thread->free_pins);
    struct cushim_object *object = cushim_pin_in(&thread->pins[i], slot, handle);
    if (unlikely(!object))
        return NULL;
    thread->free_pins &= ~(1u << i);
    pin->cell = &thread->pins[i];
    pin->slot = slot;
    pin->handle = handle;
    return pin->object = object;
}

/* The slot of a handle of this kind; NULL: it is no such handle. */
static inline struct cushim_slot *cushim_slot_of_kind(enum cushim_kind kind, uintptr_t handle) {
    if (unlikely(handle >> (CUSHIM_SLOT_BITS + CUSHIM_GENERATION_BITS) != (uintptr_t)kind ||
                 kind == CUSHIM_KIND_NONE))
        return NULL;
    return cushim_slot_of(handle);
}

/* cushim_handle_pin; after a failure nothing but pin->object is set. */
static inline void *cushim_pin(struct cushim_pin *pin, enum cushim_kind kind,
                               const void *argument) {
    uintptr_t handle = (uintptr_t)argument;
    pin->object = NULL;
    struct cushim_slot *slot = cushim_slot_of_kind(kind, handle);
    if (unlikely(!slot))
        return NULL;
    struct cushim_thread *thread = cushim_thread_mine;
    if (unlikely(!thread || !thread->free_pins))
        return cushim_pin_slowly(pin, slot, handle);
    return cushim_pin_by(thread, pin, slot, handle);
}

/* cushim_handle_unpin. */
static inline void cushim_unpin(struct cushim_pin *pin) {
    struct cushim_object *object = pin->object;
    if (!object)
        return;
    pin->object = NULL;
    if (unlikely(!pin->cell)) {
        cushim_object_release(object);
        return;
    }
    struct cushim_thread *thread = cushim_thread_mine; /* the cell is in its record */
    thread->free_pins |= 1u << (pin->cell - thread->pins);
    cushim_unpin_in(pin->cell, pin->slot);
}

static inline _Atomic(struct cushim_slot *) *cushim_cell_of_fast(struct cushim_thread *thread,
                                                                 enum cushim_cell i) {
    return &thread->pins[CUSHIM_THREAD_N_PINS + i];
}

/**
 * A pin for a fast path.  It has a cell of its own, so there is no search for a cell and no struct
 * cushim_pin.  The fast path does everything or nothing, and calls no function that pins in the
 * same cell.  The caller has seen that pins are fenced (cushim_pin_is_fenced).  The object is
 * slot->object.
 * @param i  which cell
 * @return false: the handle is closed, or the cell is in use (a signal's handler came between):
 *         take the slow path; there is nothing to unpin
 */
ALWAYS_INLINE bool cushim_pin_fast(struct cushim_thread *thread, enum cushim_cell i,
                                   struct cushim_slot *slot, const void *argument) {
    _Atomic(struct cushim_slot *) *cell = cushim_cell_of_fast(thread, i);
    if (unlikely(load_relaxed(cell) != NULL))
        return false;
    store_relaxed(cell, slot);
    atomic_signal_fence(memory_order_seq_cst); /* as in cushim_pin_in */
    if (likely(load_acquire(&slot->handle) == (uintptr_t)argument))
        return true;
    store_release(cell, NULL);
    return false;
}

/*
 * Wait until another thread is in no fast path with the pin of a handle.  The caller has written
 * down first that the thread may no longer take that path.  The wait passes a fence; a path that
 * began later may be waited for, too, but it is short.  The caller must hold no such pin.
 */
void cushim_pin_wait_out(struct cushim_thread *thread, const struct cushim_slot *slot);

/* Whether there are such fast paths; if not, every pin is an exchange. */
static inline bool cushim_pin_has_fast_path(void) {
    return load_relaxed(&cushim_pin_is_fenced);
}

/* The next call may take the fast path, because all conditions held at this number of changes
 * (cushim_changes), which the caller read before it checked them. */
static inline void cushim_pin_note_fast(atomic_uint_fast64_t *n_fast, uint64_t n_changes) {
    if (cushim_pin_has_fast_path())
        store_release(n_fast, n_changes);
}

/* Drop the objects that waited for the pin of a fast path.  Always CUSHIM_OK, so that a caller can
 * return it. */
enum cushim_status cushim_handle_swept(void);

/* End a fast path that has done everything: CUSHIM_OK. */
ALWAYS_INLINE enum cushim_status cushim_unpin_fast(struct cushim_thread *thread, enum cushim_cell i,
                                                   const struct cushim_slot *slot) {
    store_release(cushim_cell_of_fast(thread, i), NULL);
    return likely(load_relaxed(&slot->handle) != 0) ? CUSHIM_OK : cushim_handle_swept();
}

/* End a fast path that has done nothing.  The slow path follows; it finds out whether the handle
 * was closed, and sweeps. */
ALWAYS_INLINE void cushim_unpin_undone(struct cushim_thread *thread, enum cushim_cell i) {
    store_release(cushim_cell_of_fast(thread, i), NULL);
}
