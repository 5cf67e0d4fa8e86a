/*
 * The kernel's policy of memory: a fake one in a program linked with -Wl,--wrap=syscall, so that
 * tests hold on machines of one node and where a sandbox refuses the calls.  All other calls pass.
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
