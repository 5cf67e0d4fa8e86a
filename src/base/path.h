/*
 * File names with places in them: %p process, %h host, %r rank (of the launchers that are known,
 * else the process), %%.
 */
#ifndef CUSHIM_BASE_PATH_H
#define CUSHIM_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Expand `pattern` into out; false where it does not fit in cap bytes, the final 0 counted. */
bool cushim_path_expand(char *out, size_t cap, const char *pattern);

/* The same for another process. */
bool cushim_path_expand_for(char *out, size_t cap, const char *pattern, long process);

#endif
