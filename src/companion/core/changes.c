#include "companion/core/changes.h"

/* All threads read it and few write it, so it has a cache line to itself. */
_Alignas(64) atomic_uint_fast64_t cushim_changes = 1;

void cushim_changes_note(void) {
    atomic_fetch_add(&cushim_changes, 1);
}
