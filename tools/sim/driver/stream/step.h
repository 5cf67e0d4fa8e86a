/*
 * A step: one work in a stream's queue, or the memory that it was done.
 *
 * Steps are counted references: the queue holds one until the step is done, an event or a later
 * step that waits for it another.  A step waits only for steps submitted before it, so nothing
 * waits in a ring.
 */
#ifndef CUSHIM_SIM_STEP_H
#define CUSHIM_SIM_STEP_H

#include "work.h"

#include <stdint.h>

struct sim_step {
    unsigned n_refs;
    bool is_done;
    uint64_t done_ns;          /* the clock when it was done */
    struct sim_stream *stream; /* valid until done */
    struct sim_work work;
    struct sim_step **waits_for; /* counted references */
    unsigned n_waits_for, cap_waits_for;
    struct sim_step *next; /* in its stream's queue */
};

/* A list of steps, as all work of a context at one moment; counted references. */
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

/* Whether all it waits for is done. */
bool sim_step_is_ready(struct sim_step *step);

/* Let go of its work, and note the time. */
void sim_step_complete(struct sim_step *step);

/* Wait, without the lock, until it is done or the process ends; NULL is done. */
void sim_step_wait(struct sim_step *step);

/* Add a step that is not done; false: no memory. */
bool sim_marks_add(struct sim_marks *marks, struct sim_step *step);
void sim_marks_wait(struct sim_marks *marks);
void sim_marks_finish(struct sim_marks *marks);

#endif
