/*
 * A maker plays a trace on the driver alone while it makes it, so that a generator can read the
 * free memory before a request, and it notes every step with its result.
 */
#pragma once

#include "trace.h"

struct maker {
    struct world world;
    uint64_t state; /* state of the random numbers */
    size_t device_bytes;
    size_t late_bytes; /* freed on streams or in a capture, and maybe not given back yet */
    bool is_capturing; /* if frees may be kept with the graph */
    size_t peak_small_bytes;
    unsigned slack_quarters; /* the part of it for small blocks; 0: one */
    struct step *steps;
    size_t n_steps, capacity;
    uint32_t *live; /* slots, in the order of requests until a block is freed */
    size_t n_live;
    uint32_t n_slots;
    unsigned n_threads; /* number of threads among which steps are divided */
};

/* Random numbers: from 0 .. n - 1; from low .. high; with every doubling equally likely. */
size_t maker_below(struct maker *maker, size_t n);
size_t maker_between(struct maker *maker, size_t low, size_t high);
size_t maker_any_size(struct maker *maker, size_t low, size_t high);

/* The free memory of the device, as if no late free were done. */
size_t maker_free_bytes(const struct maker *maker);

/* The largest suitable block for the device. */
size_t maker_largest(const struct maker *maker);

/* Play one step. */
CUresult maker_take(struct maker *maker, struct step step);
void maker_act(struct maker *maker, enum step_kind kind, size_t place);
void maker_launch(struct maker *maker);
bool maker_ask(struct maker *maker, size_t n_bytes);

/* Free the i-th live block; free it on a stream; free any block. */
void maker_let_go(struct maker *maker, size_t i);
void maker_let_go_async(struct maker *maker, size_t i, size_t stream);
void maker_let_go_any(struct maker *maker);

/* Free the blocks from `first` whose index has this remainder by n, in the order of their
 * requests. */
void maker_let_go_every(struct maker *maker, size_t first, size_t n, size_t remainder);

/* Remove the blocks of a context that ended. */
void maker_forget_dead(struct maker *maker);

/* Blocks of random sizes come and go near a level of use; sometimes a request exceeds the free
 * memory. */
void maker_churn(struct maker *maker, size_t n_steps, size_t low, size_t high);
