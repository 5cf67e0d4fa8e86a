/*
 * Contexts: which pool serves which context, and what happens when one goes (HOOKS.md E).
 *
 * A context gets its pool at its first allocation, and one for each kind and flags of host memory
 * at the first of these.  A green context is its device's primary one by another name: memory
 * allocated under it belongs to the primary and outlives it.  Pools are never freed: those of a
 * context that went are opened again for a later one.  A context handle may recur, with another
 * life behind it; the epoch changes with every context that goes, so that what a thread remembers
 * is never used for the next.
 */
#ifndef CUSHIM_PRELOAD_CONTEXTS_H
#define CUSHIM_PRELOAD_CONTEXTS_H

#include "preload/state/process.h"

struct cushim_mem_clear;
struct cushim_mem_heap;

/* Derive the policies of pinned and managed memory from the engine's: once, when it starts. */
void cushim_contexts_set_policies(void);

/*
 * The pool of the calling thread's current context, made if there is none; NULL where no context is
 * current, it is about to go, or host memory is out.
 */
struct cushim_mem_heap *cushim_contexts_current(struct cushim_cuda *cuda);

/*
 * Has the calling thread met a driver's entry point since a context last went?  Until it has, the
 * runtime may still have to make a new context current, so the runtime's entry points leave the
 * thread to it.
 */
static inline bool cushim_contexts_is_settled(void) {
    return cushim_thread.pool && cushim_thread.pool_epoch == cushim_guard_epoch(cushim_guard_now());
}

/*
 * The pool of the current context for pinned or managed memory with these flags, made if there is
 * none; NULL as above, and where the device cannot have its managed memory served again.
 */
struct cushim_mem_heap *cushim_contexts_kind(struct cushim_cuda *cuda, enum cushim_mem_kind kind,
                                             unsigned flags);

/* What clears the blocks of a pool by its device. */
struct cushim_mem_clear *cushim_contexts_clear(struct cushim_mem_heap *pool);

/* The pool of a context where it has one and is not about to go, else NULL. */
struct cushim_mem_heap *cushim_contexts_find(CUcontext context);

/* How many contexts have a pool. */
unsigned cushim_contexts_count(void);

/* The context of a stream; the current one for the default streams. NULL where the driver will not
 * say. */
CUcontext cushim_contexts_of_stream(struct cushim_cuda *cuda, CUstream stream);

/* The host can see the work just submitted, of whichever context. */
void cushim_contexts_note_effects(void);

/*
 * All pools give back what they hold free, those of pinned memory only where the host's memory is
 * out; returns the bytes.  Nothing inside a host function.
 */
size_t cushim_contexts_give_back(void);
size_t cushim_contexts_give_back_all(void);

/* The pools of one pool's device alone, waiting no longer than `until_ns` (cushim_clock_ns). */
size_t cushim_contexts_make_room(const struct cushim_mem_heap *pool, uint64_t until_ns);

/* What the pools of a device could give back of its memory. */
size_t cushim_contexts_reusable_bytes(int device);

/* Whose memory is that of `context`: its primary's where it is a green one, else its own. */
CUcontext cushim_contexts_owner(CUcontext context);

/* `context` is that of a green one: from now on its primary's pool serves it. */
void cushim_contexts_note_green(struct cushim_cuda *cuda, CUcontext context);

/* A context was attached to: one use more.  And before it is detached from: false where the use
 * that goes is its maker's, and the context with it. */
void cushim_contexts_attach(CUcontext context);
bool cushim_contexts_detach(CUcontext context);

/* Before a context is destroyed: no pool serves it from now on. */
void cushim_contexts_leave(CUcontext context);

/* It is gone: its blocks are foreign now.  Or it is not: the pool serves again. */
void cushim_contexts_gone(CUcontext context);
void cushim_contexts_stay(CUcontext context);

/* The driver is gone, and every context with it. */
void cushim_contexts_gone_all(void);

#endif
