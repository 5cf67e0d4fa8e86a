/*
 * Stale addresses: they lie in no segment of ours, but where one was until its context was
 * destroyed.
 *
 * Natively such an address belongs to nobody, and copies and sets there are refused.  Under us the
 * driver was seen to accept a set there now and then: the internal memory of a later context lies
 * where our segment was, and where natively no block of the program would have been.
 *
 * The page map remembers these places as vacated.  Only the driver and the system know whether such
 * an address is in use by now.  So both are asked, and what neither knows is refused.
 */
#ifndef CUSHIM_PRELOAD_STALE_ADDRESS_H
#define CUSHIM_PRELOAD_STALE_ADDRESS_H

#include "cuda/types.h"
#include "preload/state/process.h"

struct cushim_cuda;

/* Was any context with memory of ours destroyed? */
static inline bool cushim_stale_address_matters(void) {
    return cushim_mem_pagemap_has_vacated(&cushim_process.blocks.map);
}

/* May a foreign address be stale?  One load until the first such context. */
static inline bool cushim_stale_address_may_be(uint64_t address) {
    return cushim_mem_pagemap_is_vacated(&cushim_process.blocks.map, address);
}

/*
 * Is an address stale that may be?  True: it is nobody's memory; answer CUDA_ERROR_INVALID_VALUE.
 * False: the driver knows it, it is the host's, or the driver has other reasons to refuse the call;
 * forward it.  Where 4 KiB or more are found to be in use, they count as vacated no longer.
 */
bool cushim_stale_address_is(uint64_t address);

/*
 * Once a context ended the program may free a pointer that went with it, as natively: the driver
 * refuses it, or frees what another thread was given there since.  Under us that can be a segment
 * on its way to the page map, with room for many blocks.  So of an address that nobody is known to
 * have the driver is asked first.  True: it is not to have the free, whose answer is `answer`.
 */
bool cushim_stale_address_is_freed(struct cushim_cuda *cuda, uint64_t address, CUresult *answer);

#endif
