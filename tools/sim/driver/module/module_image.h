/*
 * The text of a module image: SIM_MODULE_IMAGE, then a line for each thing in it.
 *
 *    .entry NAME BYTES..    a kernel and the sizes of its parameters
 *    .func NAME             a device function, for others to link
 *    .extern NAME           one that must be linked
 *    .global NAME BYTES     a variable, zero at first
 *    .shared NAME BYTES     the static shared memory of a kernel
 *
 * Without an .entry or .func the image has every kernel that the program exports.  An empty line is
 * ignored; any other line is an error, which the log names as a compiler would.
 */
#pragma once

#include "image_part.h"
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

enum { SIM_IMAGE_N_SIZES = 128 };

/* A GPU's image has more fields; 0 if it does not give one. */
struct sim_image_row {
    enum sim_image_kind kind;
    char *name;
    size_t sizes[SIM_IMAGE_N_SIZES];   /* ends with 0 */
    size_t offsets[SIM_IMAGE_N_SIZES]; /* of parameters, if has_offsets */
    bool has_offsets;
    size_t shared_bytes; /* static, of a kernel */
    int capability, most_threads, n_registers, local_bytes;
    const char *contents; /* of a variable [sizes[0]]; NULL: zeros */
};

struct sim_image {
    struct sim_image_row *rows; /* [n] */
    size_t n;
    bool is_complete; /* it has only the kernels of its rows */
};

/* The messages of a compiler or linker; NULL text: they are not wanted. */
struct sim_image_log {
    char *text;
    size_t cap_bytes;
};

/* Is it a text of ours, and no image of a GPU? */
bool sim_image_is_own(const char *text);

/* The bytes of a file with a 0 at their end; the caller frees them, also after a failure. */
CUresult sim_image_of_file(const char *path, struct sim_part *content);

/*
 * The first words of an image decide what it is; text may be shorter than these words.  A GPU's
 * image is accepted if the option `kernels` says so, or if the program has a function for a kernel
 * in it.
 */
CUresult sim_image_judge(struct sim_part image);

/*
 * Read an image that was accepted; it has at most the bytes of `text`.  If a GPU's cannot be read,
 * every name is a kernel of it. CUDA_ERROR_INVALID_PTX: the log has the place.
 */
CUresult sim_image_read(struct sim_image *image, struct sim_part text, struct sim_image_log *log);

/* Add a copy of the row, with its name and contents.  False: no memory. */
bool sim_image_add(struct sim_image *image, const struct sim_image_row *row, const char *name);

/* The first .extern without its .func; NULL: none. */
const char *sim_image_unresolved(const struct sim_image *image);

const struct sim_image_row *sim_image_find(const struct sim_image *image, enum sim_image_kind kind,
                                           const char *name);

/* Does a module of it have this kernel, if the program exports one with the name? */
bool sim_image_has_kernel(const struct sim_image *image, const char *name);

void sim_image_finish(struct sim_image *image);

/* The log buffer (error or info) among the options of a JIT compiler. */
struct sim_image_log sim_image_log_of(unsigned n, const CUjit_option *options, void **values,
                                      CUjit_option buffer, CUjit_option size);
