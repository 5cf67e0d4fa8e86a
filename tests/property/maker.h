/*
 * A maker plays a trace natively while it makes it, so that a generator may look at what is free
 * before it asks, and notes every step with its answer.
 */
#ifndef CUSHIM_PROPERTY_MAKER_H
#define CUSHIM_PROPERTY_MAKER_H

#include "trace.h"

struct maker {
    struct world world;
    uint64_t state; /* of the random numbers */
    size_t device_bytes;
    size_t late_bytes; /* freed on streams or in a capture, and perhaps not given back yet */
    bool is_capturing; /* where frees may be kept with the graph */
    size_t peak_small_bytes;
    unsigned slack_quarters; /* of that, for small blocks; 0: one */
    struct step *steps;
    size_t n_steps, capacity;
    uint32_t *live; /* slots, in no order but that of requests where nothing was freed */
    size_t n_live;
    uint32_t n_slots;
    unsigned n_threads; /* steps are dealt to so many */
};

/* Random numbers: of 0 .. n - 1; of low .. high; every doubling as likely as the next. */
size_t maker_below(struct maker *maker, size_t n);
size_t maker_between(struct maker *maker, size_t low, size_t high);
size_t maker_any_size(struct maker *maker, size_t low, size_t high);

/* What the device has left, when none of the late frees is over. */
size_t maker_free_bytes(const struct maker *maker);

/* The largest block that suits the device. */
size_t maker_largest(const struct maker *maker);

/* One step. */
CUresult maker_take(struct maker *maker, struct step step);
void maker_act(struct maker *maker, enum step_kind kind, size_t place);
void maker_launch(struct maker *maker);
bool maker_ask(struct maker *maker, size_t n_bytes);

/* Free the i-th live block; on a stream; any one. */
void maker_let_go(struct maker *maker, size_t i);
void maker_let_go_async(struct maker *maker, size_t i, size_t stream);
void maker_let_go_any(struct maker *maker);

/* Of the blocks from the first on, those for which the remainder by n is the one asked for; in the
 * order of their requests. */
void maker_let_go_every(struct maker *maker, size_t first, size_t n, size_t remainder);

/* A context ended, and its blocks with it. */
void maker_forget_dead(struct maker *maker);

/* Blocks of random sizes come and go near a level of use; now and then more than there is. */
void maker_churn(struct maker *maker, size_t n_steps, size_t low, size_t high);

#endif
