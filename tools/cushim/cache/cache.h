/* The user's cache: files that can be made again. */
#ifndef CUSHIM_TOOLS_CACHE_H
#define CUSHIM_TOOLS_CACHE_H

#include <limits.h>
#include <stdbool.h>

/* The path of a file in it; false: neither XDG_CACHE_HOME nor HOME names a folder. */
bool cache_path(const char *name, char path[PATH_MAX]);

/* The folders above a file, for their owner alone. */
void cache_make_folders(const char *path);

#endif
