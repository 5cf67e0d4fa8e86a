/* The user's cache: files that can be made again. */
#ifndef CUSHIM_TOOLS_CACHE_H
#define CUSHIM_TOOLS_CACHE_H

#include <limits.h>
#include <stdbool.h>

/* Write the path of a file in it.  Returns false if neither XDG_CACHE_HOME nor HOME names a
 * folder. */
bool cache_path(const char *name, char path[PATH_MAX]);

/* Make the folders above a file.  Only their owner may enter them. */
void cache_make_folders(const char *path);

#endif
