/*
 * Handles: what the public API hands out instead of addresses.
 *
 *   63     56 55            24 23       0
 *   |  kind  |  generation    |  slot   |
 *
 * A slot holds its open handle and the object.  A handle is good while its slot shows the same 64
 * bits, so stale, foreign and random values are refused without being dereferenced.
 *
 * A call pins what it uses.  A pin is a hazard pointer: the thread writes the slot into a cell of
 * its own record and looks at the slot once more.  It writes no line that other threads write, so
 * any number of threads may pin one pool at once.
 *
 * The thread that closes a handle makes all threads pass a fence (membarrier; if the kernel has
 * none, each pin is a fence) and scans the cells of all threads.  An object that is still pinned
 * waits in a list.  The unpin that finds its slot closed, or the next open or close, drops the
 * handle's reference.  An object is finished when its last reference goes: the handle's, and those
 * of other objects (an event keeps its context).
 *
 * Lock: one mutex for open, close and the list.  Pin and unpin take none, except the 17th pin that
 * a thread holds at once, which is a reference taken under the mutex.  Never held over a finish.
 */
#pragma once

#include <stdbool.h>

#include "cushim/types.h"
#include "base/atomics.h"

/*
 * The change counter: one number for all conditions that a fast path does not check again.
 *
 * A fast path remembers the number at which its conditions held: the driver was ready, no context
 * in use was dead or captured, no pool and no wrapper of a default stream was destroyed, no pool
 * was attached to a capture, and no memory waited to be collected.
 *
 * Invariant: code that changes such a condition changes it first and then raises the number.  If a
 * fast path finds another number, it leaves the call to the slow path, which checks every
 * condition.  Changes are rare, because each makes every thread take the slow path once for each
 * pool.  The number is never 0, which marks a row that the fast path must not serve.
 */
extern atomic_uint_fast64_t cushim_changes;

/* Read it before you look at the conditions that it stands for. */
static inline uint64_t cushim_changes_now(void) {
    return load_acquire(&cushim_changes);
}

void cushim_changes_note(void);

enum cushim_kind {
    CUSHIM_KIND_NONE, /* no handle has this kind; small numbers and addresses of user space look
                         like it */
    CUSHIM_KIND_CONTEXT,
    CUSHIM_KIND_STREAM,
    CUSHIM_KIND_EVENT,
    CUSHIM_KIND_MODULE,
    CUSHIM_KIND_FUNCTION,
    CUSHIM_KIND_PREPARED,
    CUSHIM_KIND_CLIENT,
    CUSHIM_KIND_POOL,
    CUSHIM_KIND_ARENA,
    CUSHIM_KIND_GRAPH,
    CUSHIM_KIND_GRAPHEXEC,
    CUSHIM_KIND_MAPPER,
    CUSHIM_KIND_MAPPED,
    CUSHIM_KIND_LIBRARY,
    CUSHIM_N_KINDS
};

struct cushim_object;

/* Undo what the object holds and free it; runs once, in any thread, no lock held. */
typedef void cushim_finish_fn(struct cushim_object *object);

/*
 * The first member of every object: struct cushim_stream_object { struct cushim_object object; ..}
 * is what the handle struct cushim_stream * stands for.
 */
struct cushim_object {
    enum cushim_kind kind;
    atomic_uint n_references; /* 1 for the open handle, 1 for each keep */
    atomic_bool is_closed;    /* its handle was closed; set once */
    atomic_uint n_borrowers;  /* clients that lend it; until then its destroy is CUSHIM_STATE */
    struct cushim_context_object *context; /* it belongs to; kept; NULL: to none */
    cushim_finish_fn *finish;
    void *handle; /* set by open; NULL: it has none */
};

/* What a call holds while it uses an object; lives on the stack of the call. */
struct cushim_pin {
    struct cushim_object *object;        /* NULL: pins nothing */
    _Atomic(struct cushim_slot *) *cell; /* NULL: holds a reference instead */
    struct cushim_slot *slot;
    uintptr_t handle;
};

/* Zeroed room for an object.  It begins a cache line, so that what a call reads of it is in one
 * line.  Freed by free; NULL: no host memory. */
void *cushim_object_alloc(size_t bytes);

/**
 * Begin an object that has no handle yet: one reference, which is the caller's.
 * @param object   its memory: the caller's malloc, given back by finish
 * @param context  kept; may be NULL
 * @param finish   must not release object->context: cushim_object_release does, after it
 * Threads  not shared yet
 */
void cushim_object_init(struct cushim_object *object, enum cushim_kind kind,
                        struct cushim_context_object *context, cushim_finish_fn *finish);

/* Add a reference; the caller must have a pin or a reference.  Returns its argument. */
void *cushim_object_keep(void *object);

/* Drop one; the last runs finish and releases the context.  NULL is fine. */
void cushim_object_release(void *object);

/**
 * Give the object a handle; the caller's reference becomes the handle's.
 * @param object  from cushim_object_init
 * @param handle  &the out parameter of the public function
 * @return CUSHIM_OK | CUSHIM_NOMEM (*handle is NULL; the reference is still the caller's; the error
 *         text is set)
 * Threads  any; after it others may pin, use and close the object at once
 */
enum cushim_status cushim_handle_open(struct cushim_object *object, void *handle);

/* The same, and after a failure the caller's reference is dropped. */
enum cushim_status cushim_object_open(struct cushim_object *object, void *handle);

/* Whether a value is an open handle of this kind. */
bool cushim_handle_is_open(enum cushim_kind kind, const void *handle);

/**
 * Pin what a handle stands for.
 * @param pin     filled on success and on failure: unpinning it is always right
 * @param handle  any value
 * @return the object | NULL: not an open handle of this kind
 * Threads  any; no lock, no shared write
 */
void *cushim_handle_pin(struct cushim_pin *pin, enum cushim_kind kind, const void *handle);

/* Whether a value was a handle of this kind and is closed by now.  Ask after a pin has failed.
 * Threads  any; takes the lock */
bool cushim_handle_is_closed(enum cushim_kind kind, const void *handle);

/* Let go; may run finish.  A pin that holds nothing is fine, and so is a second unpin. */
void cushim_handle_unpin(struct cushim_pin *pin);

/* A pin that is let go at the end of its block: CUSHIM_PIN pin = {0}; */
#define CUSHIM_PIN __attribute__((cleanup(cushim_handle_unpin))) struct cushim_pin

/**
 * Close the handle of a pinned object: no call pins it from now on.
 * @param pin  stays: the caller still uses the object until it unpins
 * @return true: by this call | false: another thread was first (CUSHIM_BADHANDLE)
 * Threads  any
 */
bool cushim_handle_close(struct cushim_pin *pin);

/* Close the handle of an object that the caller keeps (a module closes its functions'). */
bool cushim_object_close(struct cushim_object *object);

/**
 * The handle of an object, opened if it has none, with its own reference.  For contexts, because
 * most of them never need a handle.  The caller keeps the object.
 * @return CUSHIM_OK (perhaps another thread's, perhaps closed since) | CUSHIM_NOMEM
 */
enum cushim_status cushim_handle_share(struct cushim_object *object, void *handle);

/* Objects with an open handle, of all kinds: cushim_unload asks. */
size_t cushim_handle_count(void);
