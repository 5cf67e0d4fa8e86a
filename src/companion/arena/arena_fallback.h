/*
 * Blocks that an arena got from its fallback pool, by address.
 *
 * They outlive resets.  Each is stored with the values that its free must pass to the pool.
 *
 * Lock: the arena's `lock`.  The pool itself is called without it.
 */
#ifndef CUSHIM_COMPANION_ARENA_FALLBACK_H
#define CUSHIM_COMPANION_ARENA_FALLBACK_H

#include <stdbool.h>

#include "cushim/types.h"

struct cushim_arena_loan {
    uint64_t address;
    size_t bytes; /* as asked; never 0 */
    int device;
    uint64_t epoch;
    struct cushim_stream *stream; /* of the request */
};

/* All zero is empty; the caller sets `pool`. */
struct cushim_arena_fallback {
    struct cushim_pool *pool;        /* NULL: none; constant */
    struct cushim_arena_loan *loans; /* in order of address */
    size_t n, cap, bytes;
};

/* False if host memory is out. */
bool cushim_arena_fallback_add(struct cushim_arena_fallback *fallback,
                               const struct cushim_arena_loan *loan);

/* The loan of an address; NULL: it is none. */
const struct cushim_arena_loan *
cushim_arena_fallback_find(const struct cushim_arena_fallback *fallback, uint64_t address);

/* Remove a loan that was found. */
void cushim_arena_fallback_remove(struct cushim_arena_fallback *fallback,
                                  const struct cushim_arena_loan *loan);

/* Take out one loan of an epoch up to this; false: there is none. */
bool cushim_arena_fallback_pop(struct cushim_arena_fallback *fallback, uint64_t epoch,
                               struct cushim_arena_loan *loan);

void cushim_arena_fallback_finish(struct cushim_arena_fallback *fallback);

#endif
