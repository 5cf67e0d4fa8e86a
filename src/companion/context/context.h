/*
 * Contexts as objects: those behind struct cushim_context, and those that other code made current
 * and for which there is no handle yet.
 *
 * One object stands for one CUcontext during its life, and a registry finds it by the CUcontext.
 * `is_dead` is set once, when we destroyed the context or the driver said that it is destroyed. The
 * object then leaves the registry, calls on what belongs to it give CUSHIM_DEADCONTEXT, and its
 * destroy gives CUSHIM_OK.
 */
#pragma once

#include "companion/shared.h"
#include "companion/core/handle.h"
#include "memory/fence/fence.h"

enum cushim_context_form {
    CUSHIM_CONTEXT_PRIMARY, /* retained by us, one for each device */
    CUSHIM_CONTEXT_OWNED,   /* created by us */
    CUSHIM_CONTEXT_WRAPPED  /* of other code */
};

enum { CUSHIM_CONTEXT_ENTRY_BYTES = 64 };

struct cushim_context_object {
    struct cushim_object object; /* object.handle NULL: it has no handle yet */
    CUcontext handle;
    int device;
    enum cushim_context_form form;
    uint64_t id;         /* unique in the process; the driver's, if it gives one */
    atomic_bool is_dead; /* set once */

    atomic_int
        n_captures; /* known and open: begun through us (companion/capture/known_captures.h) */
    atomic_int n_announced; /* of cushim_context_capture_enter */
    atomic_int n_fencing;   /* records over the whole context that are under way */

    atomic_int first_claimed; /* the thread that sets it from 0 writes the two below */
    atomic_int first_result;  /* the first sticky CUresult, 0: none; set after the entry */
    char first_entry[CUSHIM_CONTEXT_ENTRY_BYTES]; /* the call that saw it */

    _Atomic(CUmemoryPool) async_pool; /* of memory_async.c; NULL: none yet */
    struct cushim_mem_fence fence;    /* its epochs and events (companion/stream/stream_host.h) */

    struct cushim_context_object *next; /* in the registry; its lock */
};

static inline bool cushim_context_is_dead(const struct cushim_context_object *context) {
    return load_acquire(&context->is_dead);
}

/* The context that a fence is of. */
static inline struct cushim_context_object *
cushim_context_of_fence(struct cushim_mem_fence *fence) {
    return (struct cushim_context_object *)(void *)((char *)fence -
                                                    offsetof(struct cushim_context_object, fence));
}

/* Whether both are the same context, not only the same reused handle. */
static inline bool cushim_context_is_same(const struct cushim_context_object *a,
                                          const struct cushim_context_object *b) {
    return a == b || (a->handle == b->handle && a->id == b->id);
}

/**
 * The object of a CUcontext, made (WRAPPED) if there is none.
 * @param handle  not NULL, alive
 * @param out     kept: cushim_object_release it
 * @return CUSHIM_OK | CUSHIM_NOMEM | what the driver said; the error text is set
 * Threads  any; takes the registry's lock for a moment
 */
enum cushim_status cushim_context_of_handle(const char *what, CUcontext handle,
                                            struct cushim_context_object **out);

/**
 * The primary context of a device, retained at first use.
 * @param device  -1: the calling thread's
 * @param out     kept
 */
enum cushim_status cushim_context_of_device(const char *what, int device,
                                            struct cushim_context_object **out);

/* The context of a call that names none: rules (3) and (4) of call.h; kept. */
enum cushim_status cushim_context_choose(const char *what, struct cushim_context_object **out);

/* Take a live context out of the registry, because its handle was destroyed. */
void cushim_context_forget(struct cushim_context_object *context);

/* At cushim_unload: all objects leave the registry, and our primary contexts are released. */
void cushim_context_forget_all(void);

/* An ordinal, -1 for the calling thread's: of its current context, else of cushim_device_set. */
enum cushim_status cushim_context_ordinal(const char *what, int device, int *ordinal);

/* Create one (flags of CUctx_flags) that is not current afterwards; kept, and in the registry. */
enum cushim_status cushim_context_make(const char *what, int device, unsigned flags,
                                       struct cushim_context_object **out);

/* The context is destroyed: it leaves the registry and is dead for good. */
void cushim_context_bury(struct cushim_context_object *context);

/* Note a driver's failure: a sticky one is kept for cushim_context_check, a destroyed context is
 * buried. */
void cushim_context_note(struct cushim_context_object *context, const char *entry, CUresult result);
