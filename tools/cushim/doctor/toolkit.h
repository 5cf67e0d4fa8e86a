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

/* The first of TOOLKIT_LEAST or later in the places of tools/find-cuda, or the first of any
 * version. False if there is none. */
bool toolkit_find(struct toolkit *found);

#endif
