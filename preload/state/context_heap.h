/*
 * The heaps of a context: one of device memory, and one for each kind and flags of other memory.
 * Among these CUSHIM_MEM_DEVICE is what is spilled (spill.h).
 * Only contexts*.c includes this.
 *
 * A heap is never freed; when its context is gone, it waits for another one.  So the list of all
 * heaps only grows and is read without a lock.
 */
#pragma once

#include "memory/heap.h"
#include "memory/state/heap_state.h"
#include "preload/state/contexts.h"

struct cushim_context_heap {
    struct cushim_mem_heap heap;                 /* first: both have one address */
    atomic_bool is_serving;                      /* from open to the end of its context */
    atomic_uint n_holds;                         /* calls inside the heap */
    _Atomic(struct cushim_context_heap *) kinds; /* of device memory: those of other kinds */
    _Atomic(struct cushim_context_heap *) next;  /* in that list, or among the spares */
    struct cushim_context_heap *next_of_all;     /* constant */
};

/* Open a heap for a context, or for another kind of memory of it; NULL: host memory is out. */
struct cushim_context_heap *cushim_context_heap_open(const struct cushim_mem_heap_setup *setup);

/* The heap of this kind in the context of `base`, which is held; it is made if there is none.
 * NULL: host memory is out, the context is being ended, or managed memory of the device cannot
 * serve again. */
struct cushim_mem_heap *cushim_context_heap_of_kind(struct cushim_mem_heap *base,
                                                    enum cushim_mem_kind kind, unsigned flags);

/* The heaps of a context serve, or no longer serve. */
void cushim_context_heap_set_serving(struct cushim_context_heap *owner, bool is_serving);

/* Wait until no thread holds the heaps of a context, which no longer serve. */
void cushim_context_heap_wait(const struct cushim_context_heap *owner);

/* The memory of its heaps went with the context, so the heaps are spare from now on. */
void cushim_context_heap_abandon(struct cushim_context_heap *owner);

/* The next of all heaps that serve, or the first for NULL; NULL after the last. */
struct cushim_context_heap *cushim_context_heap_next(const struct cushim_context_heap *heap);
