/*
 * Writes the page of a recording, one file for a browser, which fetches nothing else.
 *
 * The page is in tools/cushim/html.  Its data is added as JSON, in which no text can end the
 * surrounding element.
 */
#pragma once

#include <stdbool.h>

struct cushim_writer;
struct recording_files;

/* Put all files on one page; if `is_redacted`, without arguments, host and folders.
 * `complain_of` is called for a file that cannot be read.  Returns the number of files that were
 * read. */
unsigned html_put(struct cushim_writer *out, const struct recording_files *files, bool is_redacted,
                  void (*complain_of)(const char *path, int error));
