/*
 * The number of events of a fence that wait for nothing: its spares and the recorder's.
 */
#pragma once

#include "memory/fence/fence.h"

static inline unsigned n_idle_events(const struct cushim_mem_fence *fence) {
    const struct cushim_mem_record *idle = &fence->idle;
    return fence->n_spares + (idle->event && idle->life == atomic_load(&fence->life));
}
