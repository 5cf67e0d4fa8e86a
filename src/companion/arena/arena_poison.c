/* What a reset reclaims becomes NaN, so that a use after it shows in results. */
#include "companion/arena/arena_internal.h"

enum { POISON = 0x7FF80000 }; /* NaN as a float, and twice in a row as a double */

enum cushim_status cushim_arena_poison(struct cushim_scope *scope,
                                       struct cushim_arena_object *arena, CUstream stream,
                                       uint64_t at, uint64_t n_grains) {
    return CUSHIM_CALL(scope, cuMemsetD32Async, cushim_arena_address(arena, at), POISON,
                       n_grains * CUSHIM_ARENA_GRAIN_BYTES / sizeof(uint32_t), stream);
}
