/*
 * The arena of the preload: its options, and who asks for a reset.
 *
 * A reset is of the current context's arena.  It comes from the program
 * (cushim_preload_arena_reset) or from the end of an NVTX range (preload/entry/nvtx.c).
 */
#ifndef CUSHIM_PRELOAD_ARENA_RESET_H
#define CUSHIM_PRELOAD_ARENA_RESET_H

#include "preload/resolve/export.h"

/* Read what the options say into the policy; once, before cushim is on. */
void cushim_arena_configure(void);

/* The name of the NVTX range that a value of CUSHIM_ARENA_RESET means; NULL: none. */
const char *cushim_arena_range_of(const char *text);

#endif
