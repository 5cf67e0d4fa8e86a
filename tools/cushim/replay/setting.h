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

/* Read a setting of n_bytes.  Returns false if it is wrong; `wrong` then has the reason as one
 * phrase. */
bool setting_read(struct setting *setting, const char *text, size_t n_bytes, char *wrong,
                  size_t wrong_bytes);
