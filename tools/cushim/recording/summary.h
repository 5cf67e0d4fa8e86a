/*
 * What a recording says, for people or as JSON.
 *
 * Each device, and pinned memory, is reported separately, because what fills one does not affect
 * the others.
 */
#ifndef CUSHIM_TOOLS_SUMMARY_H
#define CUSHIM_TOOLS_SUMMARY_H

#include "tools/cushim/recording/names.h"
#include "tools/cushim/recording/recording.h"

struct cushim_writer;

/* How the process ended, in words. */
const char *summary_end(const struct cushim_trace_head *head, char text[static 64]);

/* Write about one recording; 0 or an errno. */
int summary_text(struct cushim_writer *out, const char *path);

/* One object of the array of a folder's recordings. */
int summary_json(struct cushim_writer *out, const char *path);

#endif
