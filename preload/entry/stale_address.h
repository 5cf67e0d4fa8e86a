/*
 * Stale addresses: those in no segment of ours, but where one was until its context was destroyed.
 *
 * Without cushim such an address belongs to nobody, and the driver refuses copies and sets there.
 * With cushim the driver sometimes accepted a set there, because the internal memory of a later
 * context lay where our segment had been, and no block of the program would have been without
 * cushim.
 *
 * The page map remembers these places as vacated.  Only the driver and the system know whether such
 * an address is in use by now.  So both are asked, and an address that neither knows is refused.
 */
#pragma once

#include "cuda/types.h"
#include "preload/state/process.h"

struct cushim_cuda;

/* Was any context with memory of ours destroyed, or kept memory unmapped (mapped.h)? */
static inline bool cushim_stale_address_matters(void) {
    return cushim_mem_pagemap_has_vacated(&cushim_process.blocks.map);
}

/* May a foreign address be stale?  One load until the first such context. */
static inline bool cushim_stale_address_may_be(uint64_t address) {
    return cushim_mem_pagemap_is_vacated(&cushim_process.blocks.map, address);
}

/*
 * Is an address that may be stale really stale?  True: it is nobody's memory; answer
 * CUDA_ERROR_INVALID_VALUE.  False: the driver knows it, it is the host's, or the driver has other
 * reasons to refuse the call; forward it.  If 4 KiB or more are found to be in use, they no longer
 * count as vacated.
 */
bool cushim_stale_address_is(uint64_t address);

/*
 * After a context ended, the program may free a pointer that went with it.  Without cushim the
 * driver refuses it, or frees what another thread got there since.  With cushim that can be a whole
 * segment that is not in the page map yet.  So the driver is asked first about an address that has
 * no known owner, if cushim_stale_address_may_be_freed.  True: do not forward the free, whose
 * answer is `answer`.
 */
bool cushim_stale_address_is_freed(struct cushim_cuda *cuda, uint64_t address, CUresult *answer);

/* May it be the case?  Not before a context ended, nor where the driver may not be asked. */
bool cushim_stale_address_may_be_freed(const struct cushim_cuda *cuda);
