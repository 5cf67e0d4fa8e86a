/* May a library that the environment names be loaded?  Only if no other user may write it. */
#pragma once

/**
 * Check the path of a library.
 * @return NULL: it may be loaded, if it exists | a constant text that says why not: the path is
 *         relative, or everybody may write the file or its folder
 * Threads  any
 */
const char *cushim_vet_library(const char *path);
