/* May a library that the environment names be loaded?  Only if no other user may write it. */
#ifndef CUSHIM_BASE_VET_H
#define CUSHIM_BASE_VET_H

/**
 * Check the path of a library.
 * @return NULL: it may be loaded, if it is there | the reason why not: it is relative, or it or its
 *         folder is writable by everybody; static
 * Threads  any
 */
const char *cushim_vet_library(const char *path);

#endif
