/* The settings with which a recording is planned: "native", or words and options joined by +,
 * such as "exact+keep=0". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"

enum { SETTING_BYTES = 64 };

struct setting {
    char name[SETTING_BYTES];
    bool is_native; /* the driver serves every request */
    bool is_relaxed;
    int buckets; /* enum cushim_mem_scheme */
    size_t large_bytes;
    struct cushim_amount keep, reserve;
    char limit[CUSHIM_OPTION_TEXT_BYTES];
};

/* Read the setting of n_bytes that --with of `cushim replay` has. */
void setting_read(struct setting *setting, const char *text, size_t n_bytes);
