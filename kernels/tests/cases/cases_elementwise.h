/* What the files with elementwise cases share. */
#ifndef CUSHIM_KERNELS_TESTS_CASES_ELEMENTWISE_H
#define CUSHIM_KERNELS_TESTS_CASES_ELEMENTWISE_H

#include "kernels/tests/frame/case.h"

/*
 * The largest edge size of most subjects, because a million elements each would take an emulator
 * too long.
 */
enum { ORDINARY_MOST = 1025 };

/* For a subject whose one size is n: the edge sizes up to `most`, and each pointer misaligned. */
void add_sizes(struct kernel_table *table, const struct kernel_subject *subject, int64_t most,
               const double *scalars);

/*
 * Enough elements that each thread of a full grid takes several steps, of 16 bytes and of one
 * element: a device of 132 multiprocessors runs 270336 threads.
 */
void add_steps(struct kernel_table *table, const struct kernel_subject *subject,
               const double *scalars);

/* A case with operand `out` in the memory of operand `in`. */
void add_in_place(struct kernel_table *table, const struct kernel_subject *subject, int out, int in,
                  const double *scalars);

void cases_elementwise_unary(struct kernel_table *table);
void cases_elementwise_train(struct kernel_table *table);

#endif
