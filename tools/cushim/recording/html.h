/*
 * The page of a recording: one file for a browser, which asks for nothing else.
 *
 * The page is tools/cushim/html; what this adds is its data, as JSON in which no text can end the
 * element that it stands in.
 */
#ifndef CUSHIM_TOOLS_HTML_H
#define CUSHIM_TOOLS_HTML_H

#include <stdbool.h>

struct cushim_writer;
struct recording_files;

/* Tell of all files on one page; `is_redacted`: without arguments, host and folders.  A file that
 * cannot be read is told to `complain_of`.  How many were read. */
unsigned html_put(struct cushim_writer *out, const struct recording_files *files, bool is_redacted,
                  void (*complain_of)(const char *path, int error));

#endif
