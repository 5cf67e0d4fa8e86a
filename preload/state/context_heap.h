/*
 * The heaps of a context: one of device memory, and beside it one for each kind and flags of other
 * memory.  For contexts*.c alone.
 *
 * A heap is never freed: when its context is gone it waits for another one.  So the list of all
 * heaps only grows, and is read without a lock.
 */
#ifndef CUSHIM_PRELOAD_CONTEXT_HEAP_H
#define CUSHIM_PRELOAD_CONTEXT_HEAP_H

#include "memory/heap.h"
#include "memory/state/heap_state.h"
#include "preload/state/contexts.h"

struct cushim_context_heap {
    struct cushim_mem_heap heap;                 /* first: both have one address */
    atomic_bool is_serving;                      /* between open and the end of its context */
    atomic_uint n_holds;                         /* calls inside the heap */
    _Atomic(struct cushim_context_heap *) kinds; /* of device memory: those of other kinds */
    _Atomic(struct cushim_context_heap *) next;  /* among these, or among the spares */
    struct cushim_context_heap *next_of_all;     /* constant */
};

/* Open one for a context, or for a kind of memory beside it; NULL: host memory is out. */
struct cushim_context_heap *cushim_context_heap_open(const struct cushim_mem_heap_setup *setup);

/* The heap beside `base`, which is held, made if there is none.  NULL: host memory is out, the
 * context is being ended, or managed memory of the device cannot serve again. */
struct cushim_mem_heap *cushim_context_heap_of_kind(struct cushim_mem_heap *base,
                                                    enum cushim_mem_kind kind, unsigned flags);

/* The heaps of a context serve, or serve no more. */
void cushim_context_heap_set_serving(struct cushim_context_heap *owner, bool is_serving);

/* Wait until nobody holds the heaps of a context, which serve no more. */
void cushim_context_heap_wait(const struct cushim_context_heap *owner);

/* The context took the memory of its heaps along: they are spare from now on. */
void cushim_context_heap_abandon(struct cushim_context_heap *owner);

/* Of all heaps that serve the one behind `heap`, or the first (NULL); NULL behind the last. */
struct cushim_context_heap *cushim_context_heap_next(const struct cushim_context_heap *heap);

#endif
