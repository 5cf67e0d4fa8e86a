/*
 * A step: one work in a stream's queue, or the record that it is done.
 *
 * Steps are reference-counted.  The queue holds one reference until the step is done; an event, or
 * a later step that waits for it, holds another.  Invariant: a step waits only for steps submitted
 * before it, so there are no cycles.
 */
#pragma once

#include "work.h"

#include <stdint.h>

struct sim_step {
    unsigned n_refs;
    bool is_done;
    bool is_awaited;           /* a thread waits for it */
    uint64_t done_ns;          /* the clock when it was done */
    struct sim_stream *stream; /* valid until done */
    struct sim_work work;
    struct sim_step **waits_for; /* counted references */
    unsigned n_waits_for, cap_waits_for;
    struct sim_step *next; /* in its stream's queue */
};

/* A list of steps, such as all work of a context at one moment; counted references. */
struct sim_marks {
    struct sim_step **steps;
    size_t n, cap;
};

/* Takes the work, whatever happens; one reference; NULL: no memory. */
struct sim_step *sim_step_create(struct sim_stream *stream, struct sim_work *work);
struct sim_step *sim_step_ref(struct sim_step *step);
void sim_step_unref(struct sim_step *step); /* NULL is fine */

/* `step` comes after `other`, which may be NULL or done; false: no memory. */
bool sim_step_wait_for(struct sim_step *step, struct sim_step *other);

/* Is everything done that it waits for? */
bool sim_step_is_ready(struct sim_step *step);

/* Release its work, and note the time. */
void sim_step_complete(struct sim_step *step);

/*
 * Wait, without the lock, until it is done (NULL is) or the process ends.  In that case it may
 * still be running, so the result is CUDA_ERROR_DEINITIALIZED.
 */
CUresult sim_step_wait(struct sim_step *step);

/* Add a step that is not done; false: no memory. */
bool sim_marks_add(struct sim_marks *marks, struct sim_step *step);
CUresult sim_marks_wait(struct sim_marks *marks);
void sim_marks_finish(struct sim_marks *marks);
