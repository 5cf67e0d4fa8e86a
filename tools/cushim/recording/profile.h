/*
 * The places of a recording as profiles for other viewers: folded stacks, or pprof's profile.proto.
 */
#ifndef CUSHIM_TOOLS_PROFILE_H
#define CUSHIM_TOOLS_PROFILE_H

struct cushim_writer;

/* A line for each stack, the outermost frame first, with its bytes at the peak.  0 or an errno. */
int profile_folded(struct cushim_writer *out, const char *path);

/* Requests, bytes, what is live at the end and at the peak; not compressed.  0 or an errno. */
int profile_pprof(struct cushim_writer *out, const char *path);

#endif
