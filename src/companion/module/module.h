/*
 * Modules inside: the object, the options and logs of compilers, and how a capture keeps a module.
 *
 * A module lists its functions, and they refer to it; only the unload closes the handles of
 * functions.  The driver's module is unloaded with the last reference: the handle's, those of
 * functions in use, of prepared launches, and of graphs that were captured with a kernel of it.
 */
#pragma once

#include "cushim/module.h"
#include "companion/context/call.h"

struct cushim_module_global {
    uint64_t start;
    struct cushim_module_global *next;
};

struct cushim_module_object {
    struct cushim_object object;
    CUmodule handle;
    char *log;             /* of a successful load; NULL: nothing was said */
    atomic_ullong kept_by; /* the capture that was last made to keep it */
    pthread_mutex_t lock;  /* the fields below; held over no driver call */
    bool is_unloaded;      /* it gets no new functions and rows */
    struct cushim_function_object *functions;
    struct cushim_module_global *globals; /* that are in the ledger */
};

/* Options for the driver's compiler and linker, and room for their words. */
enum { CUSHIM_JIT_LOG_BYTES = 32 * 1024, CUSHIM_JIT_N_OPTIONS = 9 };

struct cushim_jit {
    CUjit_option names[CUSHIM_JIT_N_OPTIONS];
    void *values[CUSHIM_JIT_N_OPTIONS];
    unsigned n;
    char *errors, *infos; /* CUSHIM_JIT_LOG_BYTES each */
};

/* The options of a caller, checked: INVALID, ABI or NOMEM, and then nothing is held. */
enum cushim_status cushim_jit_init(struct cushim_jit *jit, const char *what,
                                   const struct cushim_module_options *opts);
void cushim_jit_finish(struct cushim_jit *jit);

/* The driver refused: its log follows the details. */
enum cushim_status cushim_jit_fail(struct cushim_scope *scope, const struct cushim_jit *jit,
                                   const char *entry, CUresult result);

/* Whether it is compiled code.  A text may be shorter than the magic numbers. */
bool cushim_image_is_code(const void *image);

/**
 * An image as the driver can read it.
 * @param bytes  0: it knows its own end
 * @param copy   out: free it; NULL: the image itself will do
 * @return CUSHIM_OK | INVALID (cut short) | NOMEM
 */
enum cushim_status cushim_image_take(const char *what, const void *image, size_t bytes,
                                     char **copy);

/* A file, whole, NUL behind it: free it.  NOFILE with the reason, or NOMEM. */
enum cushim_status cushim_image_read(const char *what, const char *path, char **out,
                                     size_t *n_bytes);

/* Load what the driver can read into the scope's context; `log` is kept. */
enum cushim_status cushim_module_open(struct cushim_scope *scope, const void *image,
                                      struct cushim_jit *jit, const char *log,
                                      struct cushim_module **m);
