/* The CUDA toolkit with which programs, and cushim itself, would be built. */
#ifndef CUSHIM_TOOLS_TOOLKIT_H
#define CUSHIM_TOOLS_TOOLKIT_H

#include <limits.h>
#include <stdbool.h>

enum { TOOLKIT_LEAST = 13000 }; /* builds cushim */

struct toolkit {
    int version; /* 13010: CUDA 13.1 */
    char folder[PATH_MAX];
};

/* Find a toolkit in the places of tools/find-cuda: the first of TOOLKIT_LEAST or later, or else
 * the first of any version.  Returns false if there is none. */
bool toolkit_find(struct toolkit *found);

#endif
