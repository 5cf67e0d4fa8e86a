/*
 * Files of ours that are cut while they are mapped.
 *
 * A store behind the end of a mapped file raises SIGBUS, which ends the program.  The mode of our
 * files (base/file_mode.h) bars all users but root from cutting them, and in a container every user
 * is often root.  A group's file may be cut by each user that shares it.  So if the process runs as
 * root, or maps such a file, and the program has no handler for SIGBUS, we install one.  It puts a
 * page of zeros in the place of the page that faulted, and the program goes on; what is written
 * there from then on is lost.  Every other fault has its default effect.
 *
 * Because the zeros can come at any time, nobody may depend on what lies in such a file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A mapping begins at `start`; *is_cut is set when a page of it is replaced.  If there is no room
 * left to note it, a cut of its file ends the program. */
void cushim_cut_file_watch(const void *start, size_t n_bytes, atomic_bool *is_cut);

/* The same for a file that other users may write, so a user's process has the handler, too. */
void cushim_cut_file_watch_shared(const void *start, size_t n_bytes, atomic_bool *is_cut);

/* Call it before the mapping goes.  After the last one our handler goes, too, unless the program
 * has installed another one. */
void cushim_cut_file_forget(const void *start);
