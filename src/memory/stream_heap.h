/*
 * All heaps with stream caches, from one use to the next.
 *
 * They are type-stable: a heap that is out of use serves another context and owner later.  A heap
 * whose owner is gone is an orphan, and stays until its last live or held block is freed.  Then, or
 * when its context is gone, it is lost, and one thread forgets its blocks and caches.  When that is
 * done and the owner is gone, the heap is out of use.
 */
#ifndef CUSHIM_MEMORY_STREAM_HEAP_H
#define CUSHIM_MEMORY_STREAM_HEAP_H

#include "memory/cache/stream.h"

struct cushim_mem_heap_setup;

/* Get a heap that is out of use, or a new one of zeros.  n_bytes is the size of the owner's struct,
 * in which the streams come first, and the same in each call.  The heap is lost until it is opened.
 * NULL: no host memory. */
struct cushim_mem_streams *cushim_mem_streams_obtain(size_t n_bytes);

/* Open it for a context, whose fence has a host.  The owner has written the fields that are
 * constant while in use.  False: no host memory, and the heap is out of use. */
bool cushim_mem_streams_open(struct cushim_mem_streams *streams,
                             const struct cushim_mem_heap_setup *setup);

/* End the owner's use: idle blocks and free segments go back to the driver. */
void cushim_mem_streams_close(struct cushim_mem_streams *streams);

/* End an orphan whose last block is back.  The caller set is_lost. */
void cushim_mem_streams_end_orphan(struct cushim_mem_streams *streams);

/* The next heap in use; NULL: the first.  Takes no lock. */
struct cushim_mem_streams *cushim_mem_streams_next_used(struct cushim_mem_streams *streams);

/* Forget all heaps whose context is gone, because the driver may hand out their addresses again.
 * Makes no driver call. */
void cushim_mem_streams_lose_gone(void);

/* A stream is about to be destroyed (`begun` is 0): its blocks get a stream fence, and its caches
 * belong to no stream.  Otherwise a wait for it is over, which closed the epoch `begun` first. */
void cushim_mem_streams_note(struct cushim_mem_fence *fence, CUstream handle, uint64_t begun);

/* The calling thread ends: the caches of its own default streams belong to no stream.  Makes no
 * driver call. */
void cushim_mem_streams_end_thread(void);

#endif
