/*
 * Functions and their launches, inside.
 *
 * A function keeps its module; its handle is closed when the module is unloaded.  Its layout never
 * changes after it was made.  A launch takes no lock and allocates nothing.
 */
#pragma once

#include "cushim/function.h"
#include "companion/module/module.h"

/* The place of a parameter in a packed buffer. */
struct cushim_param {
    size_t offset, bytes;
};

/*
 * What the fast path of a launch needs of a function, in the line of the object that a handle leads
 * to (the object before it is 40 bytes).
 */
struct cushim_fast_launch {
    atomic_uint_fast64_t
        n_fast;                /* the number of changes at which it was allowed (cushim_changes) */
    CUfunction handle;         /* this and the next are constant */
    CUcontext must_be_current; /* NULL: whichever is (companion/module/launch.h) */
    size_t n;                  /* of parameters; SIZE_MAX: only the caller knows */
    struct cushim_function_object *function;
};

/* How functions and prepared launches begin. */
struct cushim_launched {
    struct cushim_object object;
    struct cushim_fast_launch fast;
};

struct cushim_function_object {
    struct cushim_object object;
    struct cushim_fast_launch fast;
    struct cushim_module_object *module; /* kept */
    char *name;
    bool has_layout; /* the driver has given the next three */
    size_t n_params, n_bytes;
    struct cushim_param *params;
    struct cushim_function_object *next; /* of the module; its lock */
};

/* Ask the driver for it; one reference, the caller's.  NOTFOUND with the name. */
enum cushim_status cushim_function_make(struct cushim_scope *scope,
                                        struct cushim_module_object *module, const char *name,
                                        struct cushim_function_object **out);

/* Arguments of a launch; one of the two is NULL. */
struct cushim_args {
    const void *const *each; /* the addresses of all */
    void **packed;           /* CU_LAUNCH_PARAM_.., */
};

/* The driver only reads the arguments, although its prototype is not const. */
static inline void **cushim_args_for_driver(const void *const *each) {
    union {
        const void *const *given;
        void **taken;
    } args = {.given = each};
    return args.taken;
}

/* How many of n addresses there are before one that is missing. */
static inline size_t cushim_args_count(const void *const *each, size_t n) {
    size_t i = 0;
    while (i < n && each && each[i])
        i++;
    return i;
}

/* Launch, in a scope of the function's context; `launch` is the caller's, unchecked. */
enum cushim_status cushim_function_run(struct cushim_scope *scope,
                                       struct cushim_function_object *function,
                                       const struct cushim_launch *launch, struct cushim_args args);
