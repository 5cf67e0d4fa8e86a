/*
 * The text of a module image: SIM_MODULE_IMAGE, then a line for each thing that is in it.
 *
 *   .entry NAME BYTES..    a kernel and the sizes of its parameters
 *   .func NAME             a device function, for others to link
 *   .extern NAME           one that must be linked
 *   .global NAME BYTES     a variable, zero at first
 *   .shared NAME BYTES     the static shared memory of a kernel
 *
 * Without an .entry or .func the image has every kernel that the program exports.  An empty line
 * says nothing; any other line is an error, which the log names as a compiler would.
 */
#ifndef CUSHIM_SIM_IMAGE_H
#define CUSHIM_SIM_IMAGE_H

#include "tools/sim/driver/core/abi.h"

#include <stdbool.h>
#include <stddef.h>

enum sim_image_kind {
    SIM_IMAGE_ENTRY,
    SIM_IMAGE_FUNC,
    SIM_IMAGE_EXTERN,
    SIM_IMAGE_GLOBAL,
    SIM_IMAGE_SHARED,
};

enum { SIM_IMAGE_NAME_BYTES = 128, SIM_IMAGE_N_SIZES = 16 };

struct sim_image_row {
    enum sim_image_kind kind;
    char name[SIM_IMAGE_NAME_BYTES];
    size_t sizes[SIM_IMAGE_N_SIZES]; /* ends with 0 */
};

struct sim_image {
    struct sim_image_row *rows; /* [n] */
    size_t n;
};

/* What a compiler or linker has to say; NULL text: nobody wants to know. */
struct sim_image_log {
    char *text;
    size_t cap_bytes;
};

/* The first words of an image decide what it is; text may be shorter than the words looked for. */
CUresult sim_image_judge(const void *image);

/*
 * Read an image that was judged well: of a GPU's nothing, so every name is a kernel of it.
 * CUDA_ERROR_INVALID_PTX: the log says where.
 */
CUresult sim_image_read(struct sim_image *image, const char *text, struct sim_image_log *log);

/* The first .extern without its .func; NULL: none. */
const char *sim_image_unresolved(const struct sim_image *image);

const struct sim_image_row *sim_image_find(const struct sim_image *image, enum sim_image_kind kind,
                                           const char *name);

/* Whether a module of it has this kernel, if the program exports one of the name. */
bool sim_image_has_kernel(const struct sim_image *image, const char *name);

void sim_image_finish(struct sim_image *image);

/* The log buffer (error or info) among the options of a JIT compiler. */
struct sim_image_log sim_image_log_of(unsigned n, const CUjit_option *options, void **values,
                                      CUjit_option buffer, CUjit_option size);

#endif
