/*
 * Free spans of an arena: what was freed since the last reset, for flag REUSE.
 *
 * Neighbours are merged.  There is a list for each size class, eight classes for each doubling.  A
 * request looks at the first rows of its own class and then of the larger ones, so its cost does
 * not grow with the number of spans.  It takes the start of the smallest fit that it saw.
 *
 * A stamp is the batch of frees that the span belongs to, for merged spans the youngest: the span
 * may serve once that batch is done.  Spans are listed behind those of earlier batches, so the
 * first rows are done first.
 *
 * Lock: the arena's.
 */
#ifndef CUSHIM_COMPANION_ARENA_SPAN_H
#define CUSHIM_COMPANION_ARENA_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUSHIM_ARENA_LOG2_CLASSES = 3, CUSHIM_ARENA_N_CLASSES = 264 };

struct cushim_arena_span {
    uint64_t at, n_grains; /* 0 grains: an unused row */
    uint64_t stamp;
    uint32_t next, previous; /* of its list; 0: none */
};

struct cushim_arena_spans {
    size_t n;      /* spans */
    size_t n_rows; /* used since the last clear; row 0 is never used */
    size_t cap;
    struct cushim_arena_span *rows;
    uint32_t spare; /* unused rows, linked by next */
    /* The row of the span that begins or ends at a place; valid only if the row agrees. */
    uint32_t *row_at;
    size_t n_places;
    uint32_t first[CUSHIM_ARENA_N_CLASSES], last[CUSHIM_ARENA_N_CLASSES];
    uint64_t is_there[(CUSHIM_ARENA_N_CLASSES + 63) / 64]; /* a bit for each list with spans */
};

/* What a request finds. */
enum cushim_arena_fit {
    CUSHIM_ARENA_FIT_NONE,
    CUSHIM_ARENA_FIT_DEFERRED, /* one would do, but its batch is not done */
    CUSHIM_ARENA_FIT_TAKEN
};

/* No spans, all later ones below `n_places`, which may be 0; false if host memory is out. */
bool cushim_arena_spans_init(struct cushim_arena_spans *spans, size_t n_places);

/* Add a span; false if host memory is out, and then it is lost until the next reset. */
bool cushim_arena_spans_give(struct cushim_arena_spans *spans, uint64_t at, uint64_t n_grains,
                             uint64_t stamp);

/**
 * Take n_grains of a span that is done and holds them.
 * @param done  stamps up to it may be served
 * @param rest  what is left of the span, behind what was taken; n_grains 0: nothing
 */
enum cushim_arena_fit cushim_arena_spans_take(struct cushim_arena_spans *spans, uint64_t n_grains,
                                              uint64_t done, uint64_t *at,
                                              struct cushim_arena_span *rest);

/* Whether that would be DEFERRED. */
bool cushim_arena_spans_is_deferred(const struct cushim_arena_spans *spans, uint64_t n_grains,
                                    uint64_t done);

/* Forget all, keeping the memory; finish gives that back too. */
void cushim_arena_spans_clear(struct cushim_arena_spans *spans);
void cushim_arena_spans_finish(struct cushim_arena_spans *spans);

#endif
