/*
 * The version of these headers, and that of the library that is loaded.
 *
 * The binary interface of a version 0.x may change with x; CHANGELOG.md says how.
 */
#ifndef CUSHIM_VERSION_H
#define CUSHIM_VERSION_H

#include "cushim/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers, as cushim_version counts: for #if. */
#define CUSHIM_VERSION                                                                             \
    (10000 * CUSHIM_VERSION_MAJOR + 100 * CUSHIM_VERSION_MINOR + CUSHIM_VERSION_PATCH)
#define CUSHIM_VERSION_MAJOR 0
#define CUSHIM_VERSION_MINOR 1
#define CUSHIM_VERSION_PATCH 0

/**
 * Get the version of the library.
 * @return 10000 * major + 100 * minor + patch
 * Threads  any; needs no CUDA
 */
CUSHIM_API int cushim_version(void);

/**
 * Get the version of this library as text.
 * @return "major.minor.patch"; static
 * Threads  any; needs no CUDA
 */
CUSHIM_API const char *cushim_version_text(void);

#ifdef __cplusplus
}
#endif

#endif
