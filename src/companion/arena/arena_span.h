/*
 * Free spans of an arena: what was freed since the last reset, for flag REUSE.
 *
 * Kept in order of place, neighbours merged; a request takes the smallest span that holds it, from
 * its start.  A stamp is the batch of frees that the span belongs to, the youngest where spans were
 * merged: it may be served from once that batch is done.
 *
 * Lock: the arena's.
 */
#ifndef CUSHIM_COMPANION_ARENA_SPAN_H
#define CUSHIM_COMPANION_ARENA_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_arena_span {
    uint64_t at, n_grains; /* never 0 of these */
    uint64_t stamp;
};

/* All zero is empty. */
struct cushim_arena_spans {
    struct cushim_arena_span *rows;
    size_t n, cap;
};

/* What a request finds. */
enum cushim_arena_fit {
    CUSHIM_ARENA_FIT_NONE,
    CUSHIM_ARENA_FIT_DEFERRED, /* one would do, but its batch is not done */
    CUSHIM_ARENA_FIT_TAKEN
};

/* Add a span; false where host memory is out: it is then lost until the next reset. */
bool cushim_arena_spans_give(struct cushim_arena_spans *spans, uint64_t at, uint64_t n_grains,
                             uint64_t stamp);

/**
 * Take n_grains of the smallest span that is done and holds them; the lowest of equal ones.
 * @param done  stamps up to it may be served
 * @param rest  what is left of the span, behind what was taken; n_grains 0: nothing
 */
enum cushim_arena_fit cushim_arena_spans_take(struct cushim_arena_spans *spans, uint64_t n_grains,
                                              uint64_t done, uint64_t *at,
                                              struct cushim_arena_span *rest);

/* Forget all, keeping the memory; finish gives that back too. */
void cushim_arena_spans_clear(struct cushim_arena_spans *spans);
void cushim_arena_spans_finish(struct cushim_arena_spans *spans);

#endif
