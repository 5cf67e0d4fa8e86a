/* The mapping at an address, from /proc/self/maps.  It is slow: for rare questions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cushim/status.h"

struct cushim_mapping {
    uint64_t start, end;
    bool is_readable;
    char path[64]; /* the beginning of the file's name; "" if there is no file */
};

/**
 * Find the mapping that holds an address.
 * @param mapping  set if there is one
 * @return CUSHIM_OK | CUSHIM_NOTFOUND: nothing is mapped there | CUSHIM_NOFILE: it cannot be known
 * Units    tens of microseconds and up
 * Threads  any; opens and closes a file, allocates nothing
 */
enum cushim_status cushim_mapping_find(uint64_t address, struct cushim_mapping *mapping);

/* Is it mapped from a file whose name begins like this? */
bool cushim_mapping_is_of(const struct cushim_mapping *mapping, const char *file);
