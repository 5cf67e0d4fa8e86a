/*
 * Channels: one thread at a time moves pieces through each.
 *
 * A channel is a non-blocking stream of ours and two pinned buffers: while the processor fills or
 * empties one, the device works on the other.  A job is one copy, whose pieces may go through any
 * channel.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "copy/box.h"
#include "cuda/types.h"

/* How a copy ended.  Except after DONE, the driver's own call must follow: it makes the whole copy,
 * and answers. */
enum cushim_copy_outcome {
    CUSHIM_COPY_DONE,
    CUSHIM_COPY_NO_RING,     /* no pinned memory, stream or event was available */
    CUSHIM_COPY_HOST_IS_NOT, /* host memory is missing, or may not be written */
    CUSHIM_COPY_REFUSED      /* the driver refused a transfer */
};

struct cushim_copy_job {
    struct cushim_copy_cut cut;
    atomic_size_t next;  /* the first piece that no thread took */
    atomic_int outcome;  /* the first failure; after it no thread takes a piece */
    unsigned n_channels; /* at work on it; written under the ring's lock, as are the next fields */
    pthread_cond_t idle;
    struct cushim_copy_job *following;
};

struct cushim_copy_channel {
    CUstream stream;
    CUevent done[2]; /* behind the transfer of each buffer */
    char *buffers[2];
    /* A wait failed.  The device may still use the buffers, so they are not touched again. */
    bool is_lost;
    struct cushim_copy_channel *following; /* among the free ones */
};

/* Both leave nothing behind if they fail; the buffers are the caller's. The context is current. */
bool cushim_copy_channel_make(struct cushim_cuda *cuda, struct cushim_copy_channel *channel);
void cushim_copy_channel_unmake(struct cushim_cuda *cuda, struct cushim_copy_channel *channel);

static inline bool cushim_copy_job_has_more(struct cushim_copy_job *job) {
    return atomic_load_explicit(&job->next, memory_order_relaxed) < job->cut.n_pieces &&
           atomic_load_explicit(&job->outcome, memory_order_relaxed) == CUSHIM_COPY_DONE;
}

/* The first failure counts. */
void cushim_copy_job_fail(struct cushim_copy_job *job, enum cushim_copy_outcome outcome);

/*
 * Move pieces of a job until none is left, one failed, or another thread waits for a channel.
 * Afterwards nothing of the channel is under way, or the channel is lost: then every job fails that
 * comes to it, until the ring is made again.  The context is current.
 */
void cushim_copy_channel_turn(struct cushim_cuda *cuda, struct cushim_copy_channel *channel,
                              struct cushim_copy_job *job, const atomic_uint *n_waiting);
