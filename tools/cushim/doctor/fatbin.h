/*
 * Reads for which devices the fatbins of a library have code, without loading it.
 *
 * A library keeps fatbins in its section .nv_fatbin, one behind the other.  NVIDIA does not publish
 * their format.  The parts that are read here are the same in CUDA 11 to 13: a header, then a
 * header for each piece of code, which says whether it is machine code or PTX, and for which
 * devices.
 */
#ifndef CUSHIM_TOOLS_FATBIN_H
#define CUSHIM_TOOLS_FATBIN_H

#include <stdbool.h>

#include "tools/cushim/file_image.h"

enum { FATBIN_MOST_CODES = 32, FATBIN_NAME_BYTES = 32 };

struct fatbin_code {
    bool is_ptx;
    unsigned capability; /* 10 * major + minor */
    char variant;        /* 'a': for that device only; 'f': for its family; 0 if neither */
};

struct fatbin {
    struct fatbin_code codes[FATBIN_MOST_CODES]; /* more are skipped */
    unsigned n_codes;
};

/* How well code suits a device, worst first. */
enum fatbin_fit {
    FATBIN_NONE,  /* it does not */
    FATBIN_PTX,   /* the driver can compile it */
    FATBIN_NEAR,  /* compiled for an earlier device of the same major capability */
    FATBIN_EXACT, /* compiled for it */
};

/* Find the fatbins of a library; false if it has no section for them, or is no 64-bit ELF. */
bool fatbin_find(const struct image *library, struct image *section);

/* Take the first fatbin off the rest of the section; false if there is no complete one. */
bool fatbin_take(struct image *section, struct fatbin *fatbin);

/* The code that a driver would choose for a device; `code` is written unless there is none. */
enum fatbin_fit fatbin_choose(const struct fatbin *fatbin, unsigned capability,
                              struct fatbin_code *code);

/* "sm_90a", "PTX of compute_90" */
void fatbin_name(const struct fatbin_code *code, char name[FATBIN_NAME_BYTES]);

#endif
