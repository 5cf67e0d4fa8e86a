/*
 * Fatbins: which of their entries a device takes, and its bytes.
 *
 * A fatbin is a header and entries, whose layout is known from nvcc: fatbin.c.
 */
#pragma once

#include "image_part.h"

/* All that the loader of a fatbin has: the header's bytes and the length in it. */
struct sim_part sim_fatbin_whole(const void *fatbin);

/*
 * The bytes of the entry for a device: a cubin of its major capability and at most its minor one,
 * or the newest PTX that is not newer than it.  Free them; bytes NULL: there is none, or it cannot
 * be unpacked.
 */
struct sim_part sim_fatbin_take(struct sim_part fatbin, int capability);
