/* Frees that a reset makes: RESET_FALLBACK. */
#ifndef CUSHIM_COMPANION_ARENA_FREE_H
#define CUSHIM_COMPANION_ARENA_FREE_H

#include <stdint.h>

#include "cushim/types.h"

struct cushim_arena_object;

/* Give the pool its blocks of epochs up to this back, behind the stream that the reset names. */
void cushim_arena_pay_back_all(struct cushim_arena_object *arena, uint64_t epoch,
                               struct cushim_stream *stream);

#endif
