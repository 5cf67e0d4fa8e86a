/*
 * The kernel's policy of memory: a fake one behind a `syscall` in front of libc's, so that tests
 * hold on machines of one node and where a sandbox refuses the calls.  All other calls fail.
 */
#ifndef CUSHIM_TESTS_UNIT_COPY_KERNEL_H
#define CUSHIM_TESTS_UNIT_COPY_KERNEL_H

struct copy_fixture_kernel {
    long policy;
    unsigned long nodes[16];
    int refused; /* the errno of what sets a policy; 0: none */
    unsigned n_set;
};
extern struct copy_fixture_kernel copy_fixture_kernel;

#endif
