/*
 * The file beneath the live page: which parts of it are mapped, and the lock that says that this
 * process lives.
 *
 * The file has holes.  A part of the page gets memory of the file beneath it when it is shown,
 * which is before the first store to it; until then stores go to memory of this process, which
 * nobody sees.  So a process that uses little has a small file, a full file system costs what is
 * shown alone, and no store can fail.
 *
 * The lock is held by a mapping that no child inherits, for no descriptor stays open: a program
 * that closes all descriptors keeps it, and fork, exec and every end of the process leave it
 * behind.
 */
#ifndef CUSHIM_PRELOAD_LIVE_MAP_H
#define CUSHIM_PRELOAD_LIVE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Map the file of cushim_page_file_make, whose descriptor is closed in any case, and show what
 * every process uses.  0 or an errno. */
int cushim_live_map_begin(int folder, const char *name, int file);

/* In a forked child: the file is the parent's; all is private memory again, and 0. */
void cushim_live_map_in_child(void);

/* A page of the file beneath the first page of a cache; false: there is none left. */
bool cushim_live_map_row(void *row);

/* Whatever was to be shown is. */
bool cushim_live_map_has_all(void);

/* Before the first store to a part of cushim_page, its calls or its sites.  Cheap if it is shown.
 */
void cushim_live_show(const void *part, size_t n_bytes);

#endif
