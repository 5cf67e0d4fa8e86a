/*
 * Modules: device code and its variables, loaded into a context.
 *
 * An image is a cubin, a fatbin or PTX.  The error text has what a compiler or linker says about a
 * bad one, up to 32 KiB.  Functions belong to their module and end with it.
 */
#ifndef CUSHIM_MODULE_H
#define CUSHIM_MODULE_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the driver compiles PTX. */
struct cushim_module_options {
    size_t struct_size;
    int max_registers; /* a thread; 0: the compiler's choice */
    int level;         /* of optimisation, 0 .. 4 */
    int lines;         /* 1: keep line numbers for tools */
    int cache;         /* CUjit_cacheMode: 0 default, 1 L2 only, 2 L1 too */
};

/**
 * Fill options with the defaults: level 4, the rest 0.
 * @param o  struct_size too
 * Threads  any; needs no driver
 */
CUSHIM_API void cushim_module_options_default(struct cushim_module_options *o);

/**
 * Load an image.
 * @param ctx    NULL: the current context, else the primary one of the thread's device
 * @param image  may be freed when the call returns
 * @param bytes  its size; 0: a text is read to its NUL, a binary has its own size
 * @param opts   NULL: the defaults
 * @param m      out
 * @return CUSHIM_OK | INVALID | COMPILE (with the log) | NOBINARY | NOMEM | ABI | the driver's
 * Threads  any
 * Owner    caller: cushim_module_unload
 */
CUSHIM_API enum cushim_status cushim_module_load(struct cushim_context *ctx, const void *image,
                                                 size_t bytes,
                                                 const struct cushim_module_options *opts,
                                                 struct cushim_module **m);

/**
 * Load the image in a file.
 * @param path  read whole
 * @return as cushim_module_load | NOFILE, with the reason
 * Threads  any
 * Owner    caller: cushim_module_unload
 */
CUSHIM_API enum cushim_status cushim_module_load_file(struct cushim_context *ctx, const char *path,
                                                      const struct cushim_module_options *opts,
                                                      struct cushim_module **m);

/* What an input of the linker is; CUjitInputType's numbers. */
enum cushim_link_kind {
    CUSHIM_LINK_CUBIN = 0,
    CUSHIM_LINK_PTX = 1,
    CUSHIM_LINK_FATBIN = 2,
    CUSHIM_LINK_OBJECT = 3,
    CUSHIM_LINK_LIBRARY = 4
};

struct cushim_link_input {
    enum cushim_link_kind kind;
    const void *data;
    size_t bytes;     /* 0: PTX is read to its NUL; else INVALID */
    const char *name; /* for the log; NULL: its number */
};

/**
 * Link images and load the result.
 * @param inputs  [n]; may be freed when the call returns
 * @param n       at least 1
 * @return as cushim_module_load | COMPILE or NOTFOUND with the linker's log, which names a missing
 *         symbol
 * Threads  any
 * Owner    caller: cushim_module_unload
 */
CUSHIM_API enum cushim_status cushim_module_link(struct cushim_context *ctx,
                                                 const struct cushim_link_input *inputs, size_t n,
                                                 const struct cushim_module_options *opts,
                                                 struct cushim_module **m);

/**
 * Copy the compiler's or linker's messages about an image that was loaded.
 * @param buf  [cap], out: NUL-terminated, "" if there were none
 * @return CUSHIM_OK | INVALID (too short; the text says what it needs) | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_module_log(struct cushim_module *m, char *buf, size_t cap);

/**
 * Unload a module: its functions and variables are gone.
 * @param m  NULL is fine
 * @return CUSHIM_OK, also if the context is dead | BADHANDLE | CAPTURE (nothing unloaded) | an
 *         earlier failure, found while waiting
 * Threads  any; waits for the context's work. Graphs with kernels of it, and prepared launches,
 *          keep the code until they go
 */
CUSHIM_API enum cushim_status cushim_module_unload(struct cushim_module *m);

/**
 * Find a function by name.
 * @param name  as in the image: extern "C", or mangled
 * @param f     out; the same handle each time
 * @return CUSHIM_OK | INVALID | NOTFOUND with the name | BADHANDLE | DEADCONTEXT | NOMEM | the
 *         driver's
 * Threads  any
 * Owner    the module
 */
CUSHIM_API enum cushim_status cushim_module_function(struct cushim_module *m, const char *name,
                                                     struct cushim_function **f);

/**
 * Find a variable by name.
 * @param p      out; lives as long as the module, cushim_memory_free gives STATE
 * @param bytes  out; may be NULL
 * @return as cushim_module_function
 * Threads  any
 * Owner    the module
 */
CUSHIM_API enum cushim_status cushim_module_global(struct cushim_module *m, const char *name,
                                                   cushim_devptr *p, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
