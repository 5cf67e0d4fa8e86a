/*
 * A recording event by event, for other tools: one line for each, RMM's log, or Chrome's trace
 * format, which Perfetto shows.
 */
#ifndef CUSHIM_TOOLS_EVENTS_H
#define CUSHIM_TOOLS_EVENTS_H

struct cushim_writer;

/* Each writes one recording; 0 or an errno. */
int events_text(struct cushim_writer *out, const char *path);

/* Device and managed memory, a line for each; a line with the names of columns comes first. */
int events_rmm(struct cushim_writer *out, const char *path);

/* Elements of the array `traceEvents`, at least one. */
int events_perfetto(struct cushim_writer *out, const char *path);

#endif
