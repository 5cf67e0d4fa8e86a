/*
 * Rings: the channels of a context, shared by all threads that copy in it, and our helper threads.
 *
 * A copy is a job.  The calling thread takes channels for it until no piece is left.  If channels
 * are free, helpers take its pieces, too, one of each job in turn.  If all channels are taken, the
 * next free one goes to the thread that waited longest, piece by piece, so that a short copy never
 * waits for a long one.
 *
 * A ring is made at its context's first staged copy.  Helpers are named cushim-copy and end after a
 * second without work, so that none keeps a process alive whose main thread ended.  They block all
 * signals except those of a fault, which reach the program's handler as a fault in the driver's
 * copy would.  A forked child has no ring; its copies go to the driver.
 *
 * Locks: one for the list of rings, and one for each ring; the former is never taken inside the
 * latter.
 */
#pragma once

#include "copy/channel.h"

enum { CUSHIM_COPY_MAX_CHANNELS = 64 };

struct cushim_copy_ring_setup {
    struct cushim_cuda *cuda;
    CUcontext context;
    size_t ring_bytes;  /* pinned */
    unsigned n_threads; /* of ours, at most */
};

struct cushim_copy_ring;

/*
 * The ring of a context, for a thread that copies; it stays until that thread releases it.  NULL:
 * no memory.  Check afterwards whether the context still lives.
 */
struct cushim_copy_ring *cushim_copy_ring_obtain(const struct cushim_copy_ring_setup *setup);
void cushim_copy_ring_release(struct cushim_copy_ring *ring);

/*
 * Wait for the work in a stream that a copy comes after.  If the driver would not wait for such a
 * copy, only ask whether there is any: CUDA_ERROR_NOT_READY.
 */
CUresult cushim_copy_ring_await(struct cushim_cuda *cuda, CUstream stream, bool may_wait);

/**
 * Move a box.  Everything that it must wait for is over.
 * @return DONE: every byte has arrived | others: some may have arrived; nothing of it is under way
 * Threads  any number at once; no cancellation point
 * Stream   own ones; waits for them
 */
enum cushim_copy_outcome cushim_copy_ring_move(struct cushim_copy_ring *ring,
                                               const struct cushim_copy_box *box);

/* The context is about to go: wait for its copies, and give everything back to the driver. */
void cushim_copy_ring_leave(CUcontext context);

/* The driver went, and all contexts: nothing is given back, and nothing copies any more. */
void cushim_copy_rings_forget(void);

/* The host's memory is short: give back the rings that no copy uses; returns the bytes. */
size_t cushim_copy_rings_give_back(void);
