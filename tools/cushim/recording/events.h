/*
 * Writes a recording event by event, for other tools: as lines, or in Chrome's trace format, which
 * Perfetto shows.
 */
#pragma once

struct cushim_writer;

/* Each writes one recording.  Returns 0 or an errno. */
int events_text(struct cushim_writer *out, const char *path);

/* Elements of the array `traceEvents`, at least one. */
int events_perfetto(struct cushim_writer *out, const char *path);
