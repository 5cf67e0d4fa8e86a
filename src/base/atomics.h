/* Counters that only rise, raised by many threads. */
#ifndef CUSHIM_BASE_ATOMICS_H
#define CUSHIM_BASE_ATOMICS_H

#include <stdatomic.h>
#include <stdint.h>

static inline void cushim_raise_to(atomic_uint_fast64_t *counter, uint64_t to) {
    uint_fast64_t now = atomic_load(counter);
    while (now < to && !atomic_compare_exchange_weak(counter, &now, to)) {
    }
}

#endif
