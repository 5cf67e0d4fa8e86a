/*
 * Rings: the channels of a context, shared by all threads that copy in it, and our helper threads.
 *
 * A copy is a job.  The thread that asked takes channels for it until no piece is left; where
 * channels are free, helpers take its pieces too, one of each job in turn.  When all channels are
 * taken the next free one goes to the thread that waited longest, piece by piece, so that a short
 * copy never waits for a long one.
 *
 * A ring is made at its context's first staged copy.  Helpers are named cushim-copy and end after a
 * second without work, so that none keeps a process alive whose main thread ended alone.  All
 * signals are blocked in them but those of a fault: these reach the program's handler, as where the
 * driver copies.  A forked child has no ring; its copies go to the driver.
 *
 * Locks: one for the list of rings, one a ring; the former is never taken inside the latter.
 */
#ifndef CUSHIM_COPY_RING_H
#define CUSHIM_COPY_RING_H

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
 * The ring of a context, for a thread that copies: until it is let go it stays.  NULL: no memory.
 * Whether the context lives is to be asked behind this.
 */
struct cushim_copy_ring *cushim_copy_ring_obtain(const struct cushim_copy_ring_setup *setup);
void cushim_copy_ring_release(struct cushim_copy_ring *ring);

/*
 * Wait for what a copy in a stream comes behind; or, for one that natively waits for nobody, ask
 * whether there is anything: CUDA_ERROR_NOT_READY.
 */
CUresult cushim_copy_ring_await(struct cushim_cuda *cuda, CUstream stream, bool may_wait);

/**
 * Move a box, ordered behind nothing: what it must wait for is over.
 * @return DONE: every byte has arrived | else: some may have; nothing of it is under way
 * Threads  any number at once; no cancellation point      Stream  own ones; waits for them
 */
enum cushim_copy_outcome cushim_copy_ring_move(struct cushim_copy_ring *ring,
                                               const struct cushim_copy_box *box);

/* The context is about to go: wait for its copies, and give everything back to the driver. */
void cushim_copy_ring_leave(CUcontext context);

/* The driver went, and all contexts: nothing is given back, nobody copies. */
void cushim_copy_rings_forget(void);

/* The host's memory is short: give back what no copy uses; returns the bytes. */
size_t cushim_copy_rings_give_back(void);

#endif
