/*
 * The arena of the preload: its options and its resets.
 *
 * The arena of the current context is reset when the program asks for it
 * (cushim_preload_arena_reset), or when an NVTX range ends (preload/entry/nvtx.c).
 */
#pragma once

/* Put the options into the policy; called once, before cushim is on. */
void cushim_arena_configure(void);

/* The name of the NVTX range that a value of CUSHIM_ARENA_RESET means; NULL: none. */
const char *cushim_arena_range_of(const char *text);
