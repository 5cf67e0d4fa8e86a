#include "companion/core/changes.h"

/* Read by all, written rarely: on a line of its own. */
_Alignas(64) atomic_uint_fast64_t cushim_changes = 1;

void cushim_changes_note(void) {
    atomic_fetch_add(&cushim_changes, 1);
}
