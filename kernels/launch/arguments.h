/*
 * The checks that every public kernel makes of its arguments, in the order that
 * kernels/docs/kernels.md gives: host arrays, sizes, pointers.  A check that fails sets the
 * thread's error text, which names the function, the parameter, its value and the rule, and returns
 * CUSHIM_INVALID.  The caller then returns before it queues anything.
 */
#ifndef CUSHIM_KERNELS_ARGUMENTS_H
#define CUSHIM_KERNELS_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

/* The size is not negative. */
enum cushim_status cushim_check_size(const char *what, const char *name, int64_t value);

/* The size is a multiple of a format's block. */
enum cushim_status cushim_check_multiple(const char *what, const char *name, int64_t value,
                                         int64_t of);

/**
 * Multiply the sizes of a tensor, none of which is negative.
 * @param name        of the tensor
 * @param n_elements  out; 0 if a size is 0
 * @return INVALID if an int64_t cannot count the elements or their bytes
 */
enum cushim_status cushim_check_count(const char *what, const char *name, const int64_t *sizes,
                                      int n_sizes, size_t elem_bytes, int64_t *n_elements);

/* The host array is not NULL. */
enum cushim_status cushim_check_host(const char *what, const char *name, const void *array);

/* A tensor of at least one element is not NULL, and is aligned to its element. */
enum cushim_status cushim_check_pointer(const char *what, const char *name, const void *pointer,
                                        size_t elem_bytes);

/* Whether each of up to four addresses is a multiple of n_bytes.  NULL is one. */
static inline int cushim_is_aligned(size_t n_bytes, const void *a, const void *b, const void *c,
                                    const void *d) {
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) & (n_bytes - 1)) == 0;
}

#endif
