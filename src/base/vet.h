/* May a library that the environment names be loaded?  Only if no other user may write it.  And why
 * a library was not loaded. */
#pragma once

/**
 * Check the path of a library.
 * @return NULL: it may be loaded, if it exists | a constant text that says why not: the path is
 *         relative, or everybody may write the file or its folder
 * Threads  any
 */
const char *cushim_vet_library(const char *path);

/**
 * Ask why dlopen just refused a library.
 * @return dlerror's text without the name, with which it mostly begins, and which the caller prints
 * Threads  the one that called dlopen
 */
const char *cushim_vet_refusal(const char *name);
