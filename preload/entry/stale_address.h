/*
 * Stale addresses: in no segment of ours, but where one was whose context went.
 *
 * Natively such an address belongs to nobody, and copies and sets there are refused.  Under us the
 * driver was seen to take a set there now and then: a later context's internal memory lies where
 * our segment was, and no block of the program natively would have been.  The page map remembers
 * these places (vacated); whether the address is anybody's by now only the driver and the system
 * know, so they are asked, and what neither knows is refused.
 */
#ifndef CUSHIM_PRELOAD_STALE_ADDRESS_H
#define CUSHIM_PRELOAD_STALE_ADDRESS_H

#include "preload/state/process.h"

/* Did any context with memory of ours go? */
static inline bool cushim_stale_address_matters(void) {
    return cushim_mem_pagemap_has_vacated(&cushim_process.ledger.map);
}

/* May a foreign address be stale?  One load until a context went. */
static inline bool cushim_stale_address_may_be(uint64_t address) {
    return cushim_mem_pagemap_is_vacated(&cushim_process.ledger.map, address);
}

/*
 * Then, is it?  True: it is nobody's memory; answer CUDA_ERROR_INVALID_VALUE.  False: it is known
 * to the driver or is the host's, or the driver has other reasons to refuse the call; forward it.
 * Where 4 KiB and more are found to be somebody's, they are remembered no longer.
 */
bool cushim_stale_address_is(uint64_t address);

#endif
