/*
 * With CUSHIM_CHECK: a freed block is filled with a pattern behind the work of its stream, and
 * looked at when it is handed out again.  What differs was written after the free: it is told of
 * once, as an error of the log, and counted (cushim_pool_stats.damaged).  No answer of a call
 * changes.
 *
 * `is_poisoned` of a block belongs to who has the block.  Where a capture is known in the context
 * nothing is filled; a block that leaves for the free lists is not looked at.
 */
#ifndef CUSHIM_COMPANION_POOL_CHECK_H
#define CUSHIM_COMPANION_POOL_CHECK_H

#include "companion/pool/pool_request.h"

enum { CUSHIM_POOL_POISON = 0xDD };

/* Whether the environment asks for it.  Any thread. */
bool cushim_pool_checks(void);

/* In a free of a block that nobody else has, before it goes to the cache.  The host waits for the
 * context where the free names all streams. */
void cushim_pool_check_poison(const char *what, struct cushim_pool_cache *cache,
                              struct cushim_pool_block *block);

/* In a request, with the block that is about to serve it: waits for its stream, unless that is
 * captured. */
void cushim_pool_check_look(struct cushim_pool_request *request);

#endif
