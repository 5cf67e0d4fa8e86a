/*
 * Heaps with stream caches, all of them, from one use to the next.
 *
 * They are type-stable: one that nobody uses any more serves another context and owner later.  One
 * whose owner is gone, an orphan, stays until its last live or held block is freed; then, and if
 * its context is gone, it is lost: one thread forgets all that is in it, and the later of that and
 * the owner's end puts it aside.
 */
#ifndef CUSHIM_MEMORY_STREAM_HEAP_H
#define CUSHIM_MEMORY_STREAM_HEAP_H

#include "memory/cache/stream.h"

struct cushim_mem_heap_setup;

/* One that nobody uses, or a new one of zeros: n_bytes, the same for all, with the streams first.
 * It is lost until it is opened.  NULL: no host memory. */
struct cushim_mem_streams *cushim_mem_streams_obtain(size_t n_bytes);

/* Open it for a context, whose fence has a host, once its owner has written what is constant while
 * in use.  False: no host memory, and it is put aside. */
bool cushim_mem_streams_open(struct cushim_mem_streams *streams,
                             const struct cushim_mem_heap_setup *setup);

/* The owner goes: idle blocks and free segments go back to the driver. */
void cushim_mem_streams_close(struct cushim_mem_streams *streams);

/* The last block of an orphan is back, and the caller set is_lost. */
void cushim_mem_streams_end_orphan(struct cushim_mem_streams *streams);

/* The next of all in use, NULL: the first; no lock. */
struct cushim_mem_streams *cushim_mem_streams_next_used(struct cushim_mem_streams *streams);

/* Forget all whose context is gone, without a driver call: their addresses may be handed out again
 * from now on. */
void cushim_mem_streams_lose_gone(void);

/* A stream is about to go (`begun` is 0): its blocks get a stream fence, and its caches are no
 * stream's any more.  Else a wait for it is over that closed the epoch `begun` before. */
void cushim_mem_streams_note(struct cushim_mem_fence *fence, CUstream handle, uint64_t begun);

/* The calling thread ends: the caches of its own default streams are nobody's any more.  No driver
 * call. */
void cushim_mem_streams_end_thread(void);

#endif
