/*
 * Contexts: which pool serves which context, and what happens when one goes (HOOKS.md E).
 *
 * A context gets its pool at its first allocation.  Pools are never freed: the pool of a context
 * that went is opened again for a later one.  A context handle may recur, with another life behind
 * it; the epoch changes with every context that goes, so that what a thread remembers is never used
 * for the next.
 */
#ifndef CUSHIM_PRELOAD_CONTEXTS_H
#define CUSHIM_PRELOAD_CONTEXTS_H

#include "preload/engine.h"

/*
 * The pool of the calling thread's current context, made if there is none; NULL where no context is
 * current, it is a green one (served natively), it is about to go, or host memory is out.
 */
struct cushim_mem_pool *cushim_contexts_current(struct cushim_cuda *cuda);

/*
 * Has the calling thread met the driver door since a context last went?  Until it has, the runtime
 * may still have to make a new context current, so the runtime door leaves the thread to it.
 */
bool cushim_contexts_is_settled(void);

/* The pool of any context, made if there is none (the context is pushed for that); NULL as above.
 */
struct cushim_mem_pool *cushim_contexts_pool(struct cushim_cuda *cuda, CUcontext context);

/* How many contexts have a pool. */
unsigned cushim_contexts_count(void);

/* Is there one pool, and is its context the current one?  Then there is nothing to link. */
bool cushim_contexts_is_only_current(struct cushim_cuda *cuda);

/* The context of a stream; the current one for the default streams. NULL where the driver will not
 * say. */
CUcontext cushim_contexts_of_stream(struct cushim_cuda *cuda, CUstream stream);

/* Waits of every context cover `context` from now on. */
void cushim_contexts_link_all(struct cushim_cuda *cuda, CUcontext context);

/* All pools give back what they hold free; returns the bytes.  Nothing inside a host function. */
size_t cushim_contexts_give_back(void);

/* What the pools of a device could give back. */
size_t cushim_contexts_reusable_bytes(int device);

/* A context made from a green one: never pooled. */
void cushim_contexts_note_green(CUcontext context);

/* Before a context is destroyed: no pool serves it from now on. */
void cushim_contexts_leave(CUcontext context);

/* It is gone: its blocks are foreign now.  Or it is not: the pool serves again. */
void cushim_contexts_gone(CUcontext context);
void cushim_contexts_stay(CUcontext context);

/* The primary context of a device where it is active, else NULL. */
CUcontext cushim_contexts_primary(struct cushim_cuda *cuda, CUdevice device);

#endif
