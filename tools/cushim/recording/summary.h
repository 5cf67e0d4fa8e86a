/*
 * Writes what is in a recording, for people or as JSON.
 *
 * Each device, and pinned memory, is reported separately, because what fills one does not affect
 * the others.
 */
#pragma once

#include "tools/cushim/recording/names.h"
#include "tools/cushim/recording/recording.h"

struct cushim_writer;

/* How the process ended, in words. */
const char *summary_end(const struct cushim_trace_head *head, char text[static 64]);

/* Write the members that all JSON of a recording has: how it ended, how long it is, and what is
 * missing. */
void summary_put_facts(struct cushim_writer *out, const struct recording *recording);

/* Write the numbers of a scope by the given names, in this order: requests, those without a
 * call, the peak, its time, the peak that was held, live bytes and blocks at the end, waits,
 * their time, and refused requests. */
void summary_put_scope(struct cushim_writer *out, const struct recording_scope *scope,
                       const char *names);

/* Write about one recording.  Returns 0 or an errno. */
int summary_text(struct cushim_writer *out, const char *path);

/* Write a line for each site whose requests found no memory. */
void summary_refused(struct cushim_writer *out, const char *path);

/* Write one object for the array of a folder's recordings. */
int summary_json(struct cushim_writer *out, const char *path);
