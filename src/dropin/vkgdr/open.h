/*
 * The meaning of a vkgdr_t: a device, and a mapper for each context in which memory was allocated.
 *
 * Its value is the handle of its first mapper.  It is looked up in a list, because stale values
 * must be recognised.  Lock: one mutex for the list, held over no call of libcushim.
 */
#ifndef CUSHIM_DROPIN_VKGDR_OPEN_H
#define CUSHIM_DROPIN_VKGDR_OPEN_H

#include "cushim/cushim.h"
#include "dropin/vkgdr/vkgdr.h"

/* The mapper of the current context; NULL: there is none, or it is of another device, or the handle
 * is stale; the error is set. */
struct cushim_mapper *vkgdr_mapper_of_current(vkgdr_t g);

#endif
