/*
 * Fatbins: which of their entries a device takes, and its bytes.
 *
 * A fatbin is a header and entries, whose layout is known from nvcc: fatbin.c.
 */
#ifndef CUSHIM_SIM_FATBIN_H
#define CUSHIM_SIM_FATBIN_H

#include "image_part.h"

/* What the loader of a fatbin has: its header's bytes and what the header says. */
struct sim_part sim_fatbin_whole(const void *fatbin);

/*
 * The bytes of the entry for a device: a cubin of its major capability and at most its minor one,
 * else the newest PTX that is not newer than it.  To be freed; bytes NULL: there is none, or it
 * cannot be unpacked.
 */
struct sim_part sim_fatbin_take(struct sim_part fatbin, int capability);

#endif
