/*
 * How many events a fence has that nobody waits for: in its list, and in the roles' hands.
 */
#ifndef CUSHIM_TESTS_UNIT_IDLE_EVENTS_H
#define CUSHIM_TESTS_UNIT_IDLE_EVENTS_H

#include "memory/fence/fence.h"

static inline unsigned n_idle_events(const struct cushim_mem_fence *fence) {
    const struct cushim_mem_record_spare *spares[] = {&fence->lead_spare, &fence->epochs.spare};
    unsigned n = fence->n_spares;
    for (unsigned i = 0; i < sizeof spares / sizeof *spares; i++)
        n += spares[i]->event && spares[i]->life == atomic_load(&fence->life);
    return n;
}

#endif
