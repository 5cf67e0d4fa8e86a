/*
 * Writes the places of a recording as profiles for other viewers: folded stacks, or pprof's
 * profile.proto.
 */
#pragma once

struct cushim_writer;

/* A line for each stack, the outermost frame first, with its bytes at the peak. Returns 0 or an
 * errno. */
int profile_folded(struct cushim_writer *out, const char *path);

/* Requests and bytes: all, live at the end, and live at the peak.  The profile is not
 * compressed. Returns 0 or an errno. */
int profile_pprof(struct cushim_writer *out, const char *path);
