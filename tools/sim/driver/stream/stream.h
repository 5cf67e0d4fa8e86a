/*
 * Streams: queues of steps.
 *
 * A step waits for the one before it in its stream.  A step of the legacy stream also waits for
 * what the blocking streams of the context had when it was submitted, and theirs for what the
 * legacy stream had. While a stream captures, enqueued work becomes nodes of a graph instead.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/graph/graph.h"
#include "step.h"

#include <stdbool.h>

struct sim_capture;

enum sim_stream_kind {
    SIM_STREAM_CREATED,
    SIM_STREAM_LEGACY,
    SIM_STREAM_PER_THREAD,
    SIM_STREAM_FENCE, /* of a context: its records and waits */
};

struct sim_stream {
    enum sim_stream_kind kind;
    struct sim_context *context; /* may be a green one; its root owns the stream */
    unsigned flags;
    int priority;
    unsigned long long id;
    unsigned long thread;          /* PER_THREAD: whose */
    bool is_dead;                  /* destroyed, with work left */
    bool is_queued;                /* in the scheduler's list */
    struct sim_step *first, *last; /* not done yet */
    struct sim_capture *capture;   /* or NULL */
    struct sim_nodes tips;         /* what the next captured node comes after */
    struct sim_stream *next;       /* of the root's streams */
};

struct sim_stream *sim_stream_create(struct sim_context *context, enum sim_stream_kind kind,
                                     unsigned flags, int priority);
struct sim_stream *sim_stream_create_fence(struct sim_context *context);

/* Its handle ends at once, the object when its work is done. */
void sim_stream_destroy(struct sim_stream *stream);

/* End all streams of a root whose work is done. */
void sim_stream_end_all(struct sim_context *root);

/*
 * The stream of a handle.  0 means `default_stream`, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD, in
 * which an entry and its per-thread variant differ.
 */
CUresult sim_stream_of_handle(CUstream handle, CUstream default_stream, struct sim_stream **out);

/* The same, for a stream that is neither capturing nor kept from waiting by a capture. */
CUresult sim_stream_to_wait_for(CUstream handle, CUstream default_stream, struct sim_stream **out);

/* Do the legacy stream and this one wait for each other? */
bool sim_stream_is_blocking(const struct sim_stream *stream);

/*
 * Put work into a stream, or a node into its capture; takes the work, whatever happens.  `step`, if
 * not NULL, gets a reference, or NULL in a capture.
 */
CUresult sim_stream_enqueue(struct sim_stream *stream, struct sim_work *work,
                            struct sim_step **step);

/* The same, never captured, and after two more steps, each of which may be NULL. */
CUresult sim_stream_submit(struct sim_stream *stream, struct sim_work *work, struct sim_step *after,
                           struct sim_marks *after_all, struct sim_step **step);

/* Wait for its work, and for what the legacy rule adds. */
CUresult sim_stream_synchronize(struct sim_stream *stream);

/* Would a synchronise return without a wait? */
bool sim_stream_is_idle(struct sim_stream *stream);

/* For the scheduler: the first step is done. */
void sim_stream_retire_first(struct sim_stream *stream);
