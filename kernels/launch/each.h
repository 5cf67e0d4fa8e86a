/*
 * A call of a kernel in which each output element depends on the same element of each input: the
 * checks, the choice between steps of 16 bytes and of an element, and the grid.
 *
 * Its kernels come in pairs with equal parameters, the wide one right after the plain one.
 */
#ifndef CUSHIM_KERNELS_EACH_H
#define CUSHIM_KERNELS_EACH_H

#include "kernels/launch/call.h"

enum { CUSHIM_EACH_MOST_OPERANDS = 4 };

struct cushim_each_operand {
    const char *name; /* of the parameter; NULL ends the list */
    const void *pointer;
    size_t elem_bytes;
};

struct cushim_each {
    int64_t n;
    struct cushim_each_operand operands[CUSHIM_EACH_MOST_OPERANDS]; /* a wide step is at least 16
                                                                       bytes of the first */
    bool is_dependent;              /* the kernel's first step is wait_for_earlier() */
    bool is_long;                   /* a thread of the wide kernel has EACH_LONG_PIECES */
    bool is_done;                   /* out: n is 0, or the reference is queued */
    bool is_wide;                   /* out: every pointer is a multiple of 16 */
    struct cushim_kernel_call call; /* out, unless n is 0 */
};

/*
 * Check the arguments in their order and begin the call.  If the CPU is to do it, queue the
 * reference with a copy of `args`.  Unless is_done, the caller then launches.
 */
enum cushim_status cushim_each_begin(struct cushim_each *each, const char *what,
                                     struct cushim_kernel_family *family,
                                     void (*reference)(const void *args), const void *args,
                                     size_t n_bytes, struct CUstream_st *stream);

/* Queue the plain kernel, or the wide one after it. */
enum cushim_status cushim_each_launch(const struct cushim_each *each, unsigned plain_kernel,
                                      void **params);

#endif
