/* Code of a recorded process: which file was mapped where. */
#ifndef CUSHIM_TRACE_MAPPED_H
#define CUSHIM_TRACE_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file that was mapped to run. */
struct cushim_trace_module {
    uint64_t start, n_bytes, offset;
    char *path;
};

/* All zero has none. */
struct cushim_trace_mapped {
    struct cushim_trace_module *modules; /* in the order of their coming */
    size_t n_modules, n_mapped;          /* the first ones of them are in the map */
    /* The map: from a bound to the next one lies the code of one module, or of none. */
    uint64_t *bounds;
    uint32_t *owners; /* of each bound: the number of the module from 1, or 0 */
    size_t n_bounds;
};

/* One that came; it owns a copy of the path.  False: there is no memory for it. */
bool cushim_trace_mapped_add(struct cushim_trace_mapped *mapped,
                             const struct cushim_trace_module *module, size_t path_bytes);

/* The one that a frame lies in, the last that came of those; NULL: in none. */
const struct cushim_trace_module *cushim_trace_mapped_find(struct cushim_trace_mapped *mapped,
                                                           uint64_t frame);

void cushim_trace_mapped_free(struct cushim_trace_mapped *mapped);

#endif
