/* What the process has mapped at an address, from /proc/self/maps.  Slow: for rare questions. */
#ifndef CUSHIM_BASE_MAPPING_H
#define CUSHIM_BASE_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "cushim/status.h"

struct cushim_mapping {
    uint64_t start, end;
    bool is_readable;
    char path[64]; /* how the file's name begins; "" where there is none */
};

/**
 * Find the mapping that holds an address.
 * @param mapping  set where there is one
 * @return CUSHIM_OK | CUSHIM_NOTFOUND: nothing is mapped there | CUSHIM_NOFILE: nobody can tell
 * Units    tens of microseconds and up     Threads  any; opens and closes a file, allocates nothing
 */
enum cushim_status cushim_mapping_find(uint64_t address, struct cushim_mapping *mapping);

/* Is it mapped from a file whose name begins so? */
bool cushim_mapping_is_of(const struct cushim_mapping *mapping, const char *file);

#endif
