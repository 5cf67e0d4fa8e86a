/* Code of a recorded process: which file was mapped where. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file that was mapped as code. */
struct cushim_trace_module {
    uint64_t start, n_bytes, offset;
    char *path;
};

/* All zero has none. */
struct cushim_trace_mapped {
    struct cushim_trace_module *modules; /* in the order of appearance */
    size_t n_modules, n_mapped;          /* n_mapped of them are in the map */
    /* The map: between two bounds is the code of one module, or of none. */
    uint64_t *bounds;
    uint32_t *owners; /* of each bound: the number of the module from 1, or 0 */
    size_t n_bounds;
};

/* Add a module, with a copy of its path.  False: there is no memory for it. */
bool cushim_trace_mapped_add(struct cushim_trace_mapped *mapped,
                             const struct cushim_trace_module *module, size_t path_bytes);

/* The newest module that contains a frame; NULL if none does. */
const struct cushim_trace_module *cushim_trace_mapped_find(struct cushim_trace_mapped *mapped,
                                                           uint64_t frame);

void cushim_trace_mapped_free(struct cushim_trace_mapped *mapped);
