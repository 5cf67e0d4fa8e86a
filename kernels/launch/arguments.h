/*
 * What every public kernel asks of its arguments (kernels/docs/kernels.md, "Arguments"): first
 * host arrays, then sizes, then pointers.  Each check that fails sets the thread's error text,
 * which names the function, the parameter, its value and the rule, and returns CUSHIM_INVALID;
 * nothing was queued.
 */
#ifndef CUSHIM_KERNELS_ARGUMENTS_H
#define CUSHIM_KERNELS_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

/* A size: not negative. */
enum cushim_status cushim_check_size(const char *what, const char *name, int64_t value);

/* A size that blocks of a format divide. */
enum cushim_status cushim_check_multiple(const char *what, const char *name, int64_t value,
                                         int64_t of);

/**
 * The number of elements of a tensor: the product of its sizes, none of them negative.
 * @param name        of the tensor
 * @param n_elements  out; 0 where a size is 0
 * @return INVALID where the elements or their bytes are more than an int64_t can count
 */
enum cushim_status cushim_check_count(const char *what, const char *name, const int64_t *sizes,
                                      int n_sizes, size_t elem_bytes, int64_t *n_elements);

/* A host array: not NULL. */
enum cushim_status cushim_check_host(const char *what, const char *name, const void *array);

/* A tensor of at least one element: not NULL, and aligned to its element. */
enum cushim_status cushim_check_pointer(const char *what, const char *name, const void *pointer,
                                        size_t elem_bytes);

/* Is every one of up to four addresses a multiple of n_bytes?  NULL counts as one. */
static inline int cushim_is_aligned(size_t n_bytes, const void *a, const void *b, const void *c,
                                    const void *d) {
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) & (n_bytes - 1)) == 0;
}

#endif
